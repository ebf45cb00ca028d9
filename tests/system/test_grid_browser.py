"""Twenty-four pictures on a page in a real browser: by keyboard, by touch, and no rule of axe-core is broken."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.system.review_site import READY, press, until

pytestmark = [pytest.mark.slow, pytest.mark.long]


def faults(page):
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        problems = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{scheme} {one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
    page.emulate_media(color_scheme="light")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found


def fill(page, running):
    page.goto(f"{running.url}/review/?model=digits")
    page.get_by_role("button", name="Answer 24 at once").click()
    page.wait_for_url("**/grid?model=digits")
    page.wait_for_selector(READY)
    page.wait_for_timeout(300)


def test_pictures_are_answered_by_keyboard_and_taken_back(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 26)
    ada = as_reviewer("Ada", running.url)
    fill(ada, running)
    assert ada.locator(".tile").count() == 24
    assert faults(ada) == []
    press(ada, "7", "3")
    until(lambda: running.opinions(ids[1]) == [("Ada", "3", None, None)])
    until(lambda: running.opinions(ids[0]) == [("Ada", "7", None, None)])
    press(ada, "ArrowRight", "a")  # one is left out; what the model says
    until(lambda: running.opinions(ids[3]) == [("Ada", "7", None, None)])
    assert running.opinions(ids[2]) == []
    ada.locator(".tile").nth(3).get_by_text("You said 7").wait_for()
    assert faults(ada) == []
    press(ada, "ArrowLeft", "u")  # the marked one is answered
    until(lambda: running.opinions(ids[3]) == [])
    until(lambda: ada.locator(".tile.answered").count() == 2)
    press(ada, "n")
    ada.wait_for_selector(".tile >> nth=23")


@pytest.mark.parametrize("device", [{}, {"has_touch": True, "is_mobile": True}], ids=["blind", "blind phone"])
def test_blindly_the_model_is_shown_after_the_answer_alone(site, as_reviewer, device):
    running = site()
    (case_id, _) = running.put("picture", "picture", blind=True)
    ada = as_reviewer("Ada", running.url, **device)
    if device:
        ada.set_viewport_size({"width": 390, "height": 844})
    fill(ada, running)
    assert faults(ada) == []
    assert not ada.locator("#as-model").count()
    press(ada, "a")
    ada.locator("#answers button[data-label='3']").click()
    until(lambda: running.opinions(case_id) == [("Ada", "3", None, None)])
    ada.get_by_text("The model had said 7").wait_for()


def test_without_scripts_it_is_a_form(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url, java_script_enabled=False)
    ada.goto(f"{running.url}/review/?model=digits")
    ada.get_by_role("button", name="Answer 24 at once").click()
    ada.get_by_label("Your answer to case 2").select_option(label="5")
    ada.get_by_role("button", name="Send").click()
    ada.get_by_text("You said 5").wait_for()
    assert running.opinions(second) == [("Ada", "5", None, None)]
    assert running.opinions(first) == []
    ada.get_by_role("button", name="Undo").click()
    ada.get_by_label("Your answer to case 2").wait_for()
    assert running.opinions(second) == []

"""A lead changes many cases at once: by keyboard alone, without scripts, and on a phone. axe-core finds nothing."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.system.review_site import READY, press

pytestmark = pytest.mark.slow


def faults(page):
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        problems = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{scheme} {one['id']}: {node['html']}" for one in problems for node in one["nodes"]]
    page.emulate_media(color_scheme="light")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found


def test_cases_are_kept_for_a_person_by_keyboard(site, as_reviewer):
    running = site()
    first, second, third = running.put("text", "picture", "list")
    lea = as_reviewer("Lea", running.url)
    assert not lea.locator("td.tick").first.is_visible()
    lea.get_by_text("Change several cases").focus()
    press(lea, "Enter")
    lea.locator("#tick-all").focus()
    press(lea, "Space")
    assert lea.locator("#ticked-cases").text_content() == "(3 of 3 on this page)"
    lea.locator(f"input[name=id][value='{third}']").focus()
    press(lea, "Space")
    lea.locator("input[name=person]").focus()
    lea.keyboard.type("Bob")
    assert lea.locator("input[name=what][value=assign]").is_checked()
    lea.locator("input[name=why]").focus()
    lea.keyboard.type("he knows them")
    assert faults(lea) == []
    press(lea, "Enter")
    lea.get_by_role("heading", name="2 cases were changed").wait_for()
    assert lea.get_by_text("Nobody called Bob has answered a case yet").is_visible()
    assert faults(lea) == []
    assert [running.case(one).assigned_to for one in (first, second, third)] == ["Bob", "Bob", None]
    bob = as_reviewer("Bob", running.url)
    bob.get_by_role("link", name="My shelf 2").click()
    bob.wait_for_selector(READY)
    assert bob.locator("td.glance a").count() == 2
    press(bob, "n")
    bob.wait_for_url(f"**/cases/{first}**")
    lea.goto(f"{running.url}/review/cases/{second}")
    assert lea.get_by_text("This case is kept for Bob").is_visible()
    lea.get_by_text("Keep it for somebody").click()
    assert faults(lea) == []


@pytest.mark.parametrize(
    "device", [{"java_script_enabled": False}, {"has_touch": True, "is_mobile": True}], ids=["no script", "phone"]
)
def test_all_that_fit_are_withdrawn_without_a_keyboard(site, as_reviewer, device):
    running = site()
    running.put("text", "picture", "list")
    lea = as_reviewer("Lea", running.url, **device)
    lea.set_viewport_size({"width": 390, "height": 844})
    lea.goto(f"{running.url}/review/?show=waiting&model=mood")
    lea.get_by_text("Change several cases").click()
    if "java_script_enabled" not in device:
        assert faults(lea) == []
    lea.get_by_label("All 1 that fit the list").check()
    lea.get_by_label("Withdraw").check()
    lea.get_by_label("Why").fill("test data")
    lea.get_by_role("button", name="Change").click()
    lea.get_by_role("heading", name="1 case was withdrawn").wait_for()

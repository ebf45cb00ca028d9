"""Skipping a case and changing an own answer, in a browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.review.item import Status
from tests.system.review_site import at_case, press, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

A_WHILE = 400


def begin(page, case_id):
    press(page, "n")
    at_case(page, case_id)
    page.wait_for_timeout(A_WHILE)


@pytest.mark.parametrize("script", [True, False])
def test_a_case_is_skipped_and_does_not_come_again(site, as_reviewer, script):
    running = site()
    first, second = running.put("text", "text")
    ada = as_reviewer("Ada", running.url, java_script_enabled=script)
    if script:
        begin(ada, first)
        press(ada, "s")
        ada.locator("#skip-why:focus").wait_for()
        ada.keyboard.type("it is my own parcel")
        press(ada, "Enter")
    else:
        ada.get_by_role("button", name="Take the next case").click()
        ada.get_by_text("Skip: not for me again").click()
        ada.get_by_label("Why, if you like").fill("it is my own parcel")
        ada.get_by_role("button", name="Skip it").click()
    ada.wait_for_url(f"**/cases/{second}*")
    assert running.case(first).status is Status.WAITING
    with running.database.transaction() as connection:
        found = connection.execute("select reviewer, reason from review_skips").fetchall()
    assert found == [("Ada", "it is my own parcel")]
    if script:
        ada.wait_for_timeout(A_WHILE)
        at_case(ada, second)
        ada.wait_for_timeout(A_WHILE)
        press(ada, "1")
        ada.get_by_text("Nothing is free for you").wait_for()
        press(ada, "n")
        ada.wait_for_timeout(A_WHILE)
        assert running.case(first).claimed_by is None


def test_an_own_answer_is_changed(site, as_reviewer):
    running = site(undo_seconds=0)
    first, second = running.put("text", "text")
    ada = as_reviewer("Ada", running.url)
    begin(ada, first)
    press(ada, "1")
    at_case(ada, second)
    ada.get_by_role("link", name="Your answers").click()
    ada.get_by_text("Change it").click()
    ada.get_by_label("Why, if you like").fill("a slip")
    press(ada, "Enter")
    at_case(ada, first)
    ada.wait_for_timeout(A_WHILE)
    press(ada, "3")
    until(lambda: running.opinions(first) == [("Ada", "bad", None, None)])


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}])
def test_the_page_of_own_answers_is_accessible(site, as_reviewer, look):
    running = site(undo_seconds=0)
    ids = running.put("picture", "text", "long text")
    for case_id, label in zip(ids, ("7", "good", "bad"), strict=True):
        running.desk.answer("Ada", case_id, running.desk.claim("Ada", case_id).token, label=label, comment="So it is.")
    settings = dict(look)
    size = settings.pop("viewport", None)
    ada = as_reviewer("Ada", running.url, **settings)
    if size:
        ada.set_viewport_size(size)
    ada.goto(f"{running.url}/review/answers")
    for summary in ada.get_by_text("Change it").all():
        summary.click()
    assert Axe().run(ada).response["violations"] == []
    assert ada.evaluate("document.documentElement.scrollWidth <= innerWidth")

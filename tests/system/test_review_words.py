"""What is written about a model and its labels, and taking what the model says by one key, in a real browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.system.review_site import at_case, press, until

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"
WORDS = {
    "claims": {"question": "Does it hold?", "guide": f"Calculate it.\n\n{HOSTILE}"},
    "cause": {"labels": {"late refund": {"title": "money that came late", "help": f"After 14 days. {HOSTILE}"}}},
    "mood": {"labels": {"bad": {"key": "b", "title": HOSTILE}}},
}


def first_case(page, case_id):
    press(page, "n")
    at_case(page, case_id)


def faults(page):
    return Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]


def test_question_guideline_and_the_keys_of_yes_and_no(site, as_reviewer):
    running = site(reviewed=WORDS)
    first, second = running.put("claim", "claim")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    assert ada.locator("#question").inner_text() == "Does it hold?"
    press(ada, "?")
    assert HOSTILE in ada.locator("#guide").inner_text()
    assert faults(ada) == []
    press(ada, "y")
    at_case(ada, second)
    press(ada, "a")
    ada.wait_for_url("**/review/?after=*")
    assert [running.opinions(one)[0][1] for one in (first, second)] == ["yes", "no"]


def test_labels_are_found_by_their_title_and_taken_from_the_model(site, as_reviewer):
    running = site(reviewed=WORDS)
    first, second = running.put("list", "list")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    ada.keyboard.type("money")
    ada.locator("#how").get_by_text("1 label; Enter sends late refund.").wait_for()
    press(ada, "Enter")
    at_case(ada, second)
    ada.keyboard.type("/?")
    assert "After 14 days." in ada.locator("#guide").inner_text()
    ada.keyboard.type("/a")
    ada.wait_for_url("**/review/?after=*")
    assert [running.opinions(one)[0][1] for one in (first, second)] == ["late refund", "broken parcel"]


def test_what_the_model_says_is_ticked_by_key_and_by_chip(site, as_reviewer):
    running = site(reviewed=WORDS)
    first, second, third = running.put("many ticks", "ticks", "text")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    ada.keyboard.type("/a")
    ada.get_by_role("button", name="Remove parcel").wait_for()
    assert running.opinions(first) == []
    assert faults(ada) == []
    press(ada, "Enter")
    at_case(ada, second)
    ada.get_by_role("button", name="returns 40%").click()
    press(ada, "a", "Enter")
    at_case(ada, third)
    until(lambda: running.opinions(second) != [])
    assert [running.opinions(one)[0][1] for one in (first, second)] == [["parcel"], ["delivery", "returns"]]
    assert ada.get_by_role("button", name=HOSTILE).count() == 1
    assert faults(ada) == []
    press(ada, "b")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(third)[0][1] == "bad"


def test_nothing_is_taken_from_the_model_where_the_answer_is_blind(site, as_reviewer):
    running = site(reviewed=WORDS)
    first, second = running.put("text", "ticks", blind=True)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    assert ada.locator(".accept").count() == 0
    press(ada, "a")
    ada.locator("#missed").filter(has_text="“a” does nothing here").wait_for()
    press(ada, "b")
    at_case(ada, second)
    assert ada.locator(".accept, [data-choose]").count() == 0

"""One person with two tabs: both hold the same claims, and the next case is sent ahead to both. No answer is written to
a case that its tab did not show, each case is answered once, and an answer that does not count is said and kept."""

import re

import pytest

from demur.review.item import Status
from tests.system.review_site import READY, at_case, press, until

pytestmark = pytest.mark.slow

A_WHILE = 400
LABELS = {"1": "good", "2": "fair", "3": "bad"}


def shown(page):
    """The case that a tab shows; None on the queue."""
    found = re.search("/cases/([0-9a-f-]{36})", page.url)
    return found and found[1]


def second_tab(page, running):
    tab = page.context.new_page()
    tab.goto(f"{running.url}/review/")
    tab.wait_for_selector(READY)
    return tab


def begin(*tabs, at):
    for tab in tabs:
        press(tab, "n")
        at_case(tab, at)
    for tab in tabs:
        tab.wait_for_timeout(2 * A_WHILE)  # until the next case is here


def kept(running, case_id):
    return running.desk.draft("Ada", case_id)


def test_a_case_that_both_tabs_show_is_answered_once_and_the_other_answer_is_kept(site, as_reviewer):
    running = site()
    first, second, third = running.put("text", "text", "text")
    one = as_reviewer("Ada", running.url)
    other = second_tab(one, running)
    begin(one, other, at=first)
    press(one, "1")
    at_case(one, second)
    until(lambda: running.opinions(first) == [("Ada", "good", None, None)])
    press(other, "3")
    other.get_by_text("Your answer to the case before was not taken").wait_for()
    assert running.opinions(first) == [("Ada", "good", None, None)]
    assert kept(running, first)["label"] == "bad"
    assert shown(other) == str(second)  # as the first one does: it is hers
    other.wait_for_timeout(A_WHILE)
    press(other, "2")
    until(lambda: running.opinions(second) == [("Ada", "fair", None, None)])
    one.wait_for_timeout(A_WHILE)
    press(one, "2")  # the same answer, a second time: nothing is lost, and nothing is written twice
    at_case(one, third)
    at_case(other, third)
    assert running.opinions(second) == [("Ada", "fair", None, None)]


def test_no_answer_goes_to_a_case_that_was_not_shown(site, as_reviewer):
    """Both tabs answer as fast as the page takes keys, each its own answer to what it shows."""
    running = site()
    ids = running.put(*["text"] * 7)
    one = as_reviewer("Ada", running.url)
    other = second_tab(one, running)
    begin(one, other, at=ids[0])
    pressed = {}
    for turn in range(20):
        tab, key = ((one, "1"), (other, "3"))[turn % 2]
        if (case_id := shown(tab)) is None:
            continue
        tab.wait_for_timeout(A_WHILE)
        if tab.locator("#lost:visible").count():  # somebody has it: that is this person, in the other tab
            tab.goto(f"{running.url}/review/")
            tab.wait_for_selector(READY)
            press(tab, "n")
            tab.wait_for_timeout(2 * A_WHILE)
            continue
        if shown(tab) != case_id:
            continue
        press(tab, key)
        pressed.setdefault(case_id, set()).add(LABELS[key])
        tab.wait_for_timeout(A_WHILE)
    for case_id in ids:
        said = running.opinions(case_id)
        assert len(said) <= 1
        for _, label, *_ in said:
            assert label in pressed[str(case_id)]
        refused = pressed.get(str(case_id), set()) - {label for _, label, *_ in said}
        if refused and said:  # said to the person, and not thrown away
            assert kept(running, case_id)["label"] in refused
    assert sum(bool(running.opinions(case_id)) for case_id in ids) >= 5


def test_a_tab_that_is_closed_does_not_harm_the_other(site, as_reviewer):
    """It lets go of the case that was sent ahead to both. Where that is somebody else's by then, the other tab says so,
    and takes no answer."""
    running = site()
    first, second, _ = running.put("text", "text", "text")
    one = as_reviewer("Ada", running.url)
    other = second_tab(one, running)
    begin(one, other, at=first)
    until(lambda: running.case(second).ahead)
    one.goto("about:blank")
    until(lambda: running.case(second).status is Status.WAITING)
    running.desk.claim("Bob", second)
    press(other, "1")
    at_case(other, second)
    other.locator("#lost").filter(has_text="this case is with Bob").wait_for()
    other.wait_for_timeout(A_WHILE)
    press(other, "3")
    other.wait_for_timeout(A_WHILE)
    assert running.opinions(first) == [("Ada", "good", None, None)]
    assert running.opinions(second) == []


def test_an_answer_taken_back_in_one_tab_is_not_given_by_the_other(site, as_reviewer):
    running = site()
    first, second = running.put("text", "text")
    one = as_reviewer("Ada", running.url)
    other = second_tab(one, running)
    begin(one, other, at=first)
    press(one, "1")
    at_case(one, second)
    one.locator("form[data-undo]").wait_for()
    press(one, "u")
    at_case(one, first)
    press(other, "3")  # under the token of the claim before
    other.get_by_text("Your answer to the case before was not taken").wait_for()
    assert running.opinions(first) == []
    assert kept(running, first)["label"] == "bad"
    one.wait_for_timeout(A_WHILE)
    press(one, "2")
    until(lambda: running.opinions(first) == [("Ada", "fair", None, None)])

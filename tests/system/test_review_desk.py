"""The desk of those who decide, in a browser: by key, by click, with a lost connection, and without a mouse."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.review import queue, settling
from demur.review.item import ReviewVerdict, Status
from tests.system.review_site import READY, press, until

pytestmark = pytest.mark.slow

A_WHILE = 400


def put_apart(running, *kinds, said=None, **case):
    """Cases about which Ada and Bob differ."""
    ids = running.put(*kinds, opinions_wanted=2, **case)
    with running.database.transaction() as connection:
        for case_id, kind in zip(ids, kinds, strict=True):
            first, second = ("1", "7") if kind == "picture" else ("good", "bad")
            told = said or ({"label": first, "comment": "See the left side."}, {"label": second})
            for name, one in zip(("Ada", "Bob"), told, strict=True):
                claim = queue.claim(connection, case_id, name, lease_seconds=60)
                verdict = ReviewVerdict(**{"saw_prediction": True, **one})
                queue.answer(connection, case_id, name, token=claim.token, verdict=verdict, undo_seconds=0)
                settling.settle(connection, settling.Settlement(), case_id)
    return ids


def at_desk(page, running, *, ready=True, query=""):
    page.goto(f"{running.url}/review/desk{query}")
    if ready:
        page.wait_for_selector(READY)


def current(page, case_id):
    page.locator(f"#case-{case_id}.current").wait_for()
    page.wait_for_selector(READY)
    page.wait_for_timeout(A_WHILE)


def said_by(running, case_id, name):
    return [label for who, label, *_ in running.opinions(case_id) if who == name]


def test_keys_decide_one_case_after_the_other(site, as_reviewer):
    running = site()
    first, second, third = put_apart(running, "picture", "text", "long text")
    eve = as_reviewer("Eve", running.url)
    at_desk(eve, running)
    current(eve, first)
    press(eve, "2")
    eve.locator(f"#case-{first}.decided").wait_for()
    assert said_by(running, first, "Eve") == ["7"]
    current(eve, second)
    press(eve, "n")  # later
    current(eve, third)
    press(eve, "1")
    eve.locator(f"#case-{third}.decided").wait_for()
    current(eve, second)
    assert said_by(running, third, "Eve") == ["good"]
    press(eve, "u")  # the latest
    eve.wait_for_url(f"**/review/desk#case-{third}")
    current(eve, third)
    assert said_by(running, third, "Eve") == []
    press(eve, "2")
    until(lambda: said_by(running, third, "Eve") == ["bad"])
    current(eve, second)
    press(eve, "o")
    eve.wait_for_url(f"**/review/cases/{second}")
    eve.get_by_role("heading", name="You decide: others have said").wait_for()


def test_a_key_that_was_meant_for_the_case_before_decides_nothing(site, as_reviewer):
    running = site()
    first, second = put_apart(running, "text", "text")
    eve = as_reviewer("Eve", running.url)
    at_desk(eve, running)
    current(eve, first)
    press(eve, "1", "1", "1")
    eve.locator("#missed").filter(has_text="was not taken").wait_for()
    eve.locator(f"#case-{first}.decided").wait_for()
    assert running.case(second).status is Status.ADJUDICATION
    assert said_by(running, second, "Eve") == []


def test_a_double_click_decides_one_case_and_nothing_moves(site, as_reviewer):
    running = site()
    first, second = put_apart(running, "text", "text")
    eve = as_reviewer("Eve", running.url)
    at_desk(eve, running)
    current(eve, first)
    below = eve.locator(f"#case-{second}").bounding_box()
    eve.locator(f"#case-{first}").get_by_role("button", name="bad").dblclick()
    eve.locator(f"#case-{first}.decided").wait_for()
    assert eve.locator(f"#case-{second}").bounding_box() == below
    assert (said_by(running, first, "Eve"), said_by(running, second, "Eve")) == (["bad"], [])


def test_what_somebody_else_has_decided_is_said_and_not_decided_again(site, as_reviewer):
    running = site()
    (case_id,) = put_apart(running, "text")
    eve = as_reviewer("Eve", running.url)
    at_desk(eve, running)
    current(eve, case_id)
    running.desk.decide("Lea", case_id, running.case(case_id).token, 2)
    press(eve, "1")
    eve.get_by_text("Your decision was not taken").wait_for()
    assert (said_by(running, case_id, "Eve"), said_by(running, case_id, "Lea")) == ([], ["bad"])


def test_a_decision_survives_a_lost_connection(site, as_reviewer):
    running = site()
    first, second = put_apart(running, "text", "text")
    eve = as_reviewer("Eve", running.url)
    at_desk(eve, running)
    current(eve, first)
    eve.context.set_offline(True)
    press(eve, "1")
    eve.get_by_text("No connection: trying again").wait_for()
    current(eve, second)
    eve.context.set_offline(False)
    until(lambda: said_by(running, first, "Eve") == ["good"])
    eve.locator(f"#case-{first}.decided").wait_for()


def test_without_a_script_each_case_is_a_form(site, as_reviewer):
    running = site()
    first, second = put_apart(running, "picture", "text")
    eve = as_reviewer("Eve", running.url, java_script_enabled=False)
    at_desk(eve, running, ready=False)
    assert not eve.locator("main kbd:visible").count()
    eve.locator(f"#case-{first}").get_by_role("button", name="7").click()
    eve.get_by_text("You said 7").wait_for()
    eve.get_by_role("button", name="Undo").click()
    eve.wait_for_url(f"**/review/desk#case-{first}")
    assert said_by(running, first, "Eve") == []
    eve.locator(f"#case-{second}").get_by_role("button", name="Open it").click()
    eve.wait_for_url(f"**/review/cases/{second}")


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}])
@pytest.mark.parametrize("unclear", [False, True])
def test_the_desk_is_accessible(site, as_reviewer, look, unclear):
    running = site()
    if unclear:
        put_apart(running, "long text", said=({"label": None, "reason": "It is not legible"},) * 2)
    else:
        put_apart(running, "picture", "fields", "long text")
        wrong = {"label": "wrong", "codes": ("tone",)}
        put_apart(running, "chat", said=({**wrong, "text": "No."}, {**wrong, "text": "Yes, four."}))
    settings = dict(look)
    size = settings.pop("viewport", None)
    eve = as_reviewer("Eve", running.url, **settings)
    if size:
        eve.set_viewport_size(size)
    at_desk(eve, running, query="?unclear=true" if unclear else "")
    found = Axe().run(eve)
    assert found.response["violations"] == []
    assert eve.evaluate("document.documentElement.scrollWidth <= innerWidth")

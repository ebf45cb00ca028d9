"""The next case is there before it is wanted: shown at once, answered once, and free again where it was not opened."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from demur.review import access
from demur.review.item import Status
from tests.system.review_site import READY, at_case, press, until

pytestmark = pytest.mark.slow


def first_case(page, case_id, wait_ahead=None):
    press(page, "n")
    at_case(page, case_id)
    if wait_ahead:
        until(lambda: wait_ahead.ahead)


def held_ahead(running, case_id):
    return lambda: running.case(case_id).ahead


def views(running, case_id):
    with running.database.transaction() as connection:
        found = access.views(connection, case_id=case_id, limit=50)
    return [one.through for one in reversed(found) if one.through != "list"]


def test_one_request_a_case_and_the_next_one_at_once(site, as_reviewer):
    """The answer is held up for a second, and the next case is there all the same."""
    running = site()
    ids = running.put(*["picture"] * 4)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    until(held_ahead(running, ids[1]))
    ada.wait_for_timeout(500)
    asked = []
    ada.on("request", lambda request: asked.append((request.method, re.sub(r"[0-9a-f-]{36}", "ID", request.url))))
    ada.evaluate("window.stays = true")
    ada.route("**/answer", lambda route: (ada.wait_for_timeout(1000), route.continue_()))
    press(ada, "3")
    at_case(ada, ids[1])
    assert running.opinions(ids[0]) == []
    assert "You said 3. It is on its way." in ada.locator(".last").inner_text()
    ada.locator(".last form").wait_for()
    assert running.opinions(ids[0]) == [("Ada", "3", None, None)]
    until(held_ahead(running, ids[2]))
    assert not running.case(ids[1]).ahead
    assert ada.evaluate("window.stays")
    sent = [one for one in asked if "data:" not in one[1]]
    assert sent == [("POST", f"{running.url}/review/v1/in-place/ID/answer")]
    ada.unroute("**/answer")
    ada.wait_for_timeout(300)
    press(ada, "5")
    at_case(ada, ids[2])
    ada.locator(".last form").wait_for()
    assert running.opinions(ids[1]) == [("Ada", "5", None, None)]


def test_what_was_sent_ahead_is_logged_as_sent_and_as_seen_only_once_it_is_shown(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 3, blind=True)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    until(held_ahead(running, ids[1]))
    assert views(running, ids[0]) == ["page"]
    until(lambda: views(running, ids[1]) == ["ahead"])  # it is logged after it is kept for them, and before it is sent
    press(ada, "3")
    until(lambda: views(running, ids[1]) == ["ahead", "page"])
    until(lambda: views(running, ids[2]) == ["ahead"])


def test_the_time_for_a_case_begins_when_it_is_shown(site, as_reviewer):
    running = site()
    ids = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    until(held_ahead(running, ids[1]))
    with running.database.transaction() as connection:
        connection.execute("alter table review_events disable trigger only_added_to")
        connection.execute("update review_events set at = at - interval '1 hour' where case_id = %s", (ids[1],))
    press(ada, "3")
    at_case(ada, ids[1])
    ada.locator(".last form").wait_for()
    press(ada, "5")
    ada.wait_for_url("**/review/?after=*")
    with running.database.transaction() as connection:
        (seconds,) = connection.execute("select seconds from review_opinions where case_id = %s", (ids[1],)).fetchone()
    assert seconds < 600


def test_whoever_leaves_frees_the_case_that_was_sent_ahead(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    until(held_ahead(running, second))
    ada.wait_for_timeout(300)
    press(ada, "q")
    ada.wait_for_url("**/review/")
    until(lambda: running.case(second).status is Status.WAITING)
    assert running.case(first).claimed_by == "Ada"


def test_undo_before_the_answer_has_arrived_waits_for_it(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 3)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    until(held_ahead(running, ids[1]))
    ada.wait_for_timeout(500)
    ada.route("**/answer", lambda route: (ada.wait_for_timeout(1000), route.continue_()))
    press(ada, "3")
    at_case(ada, ids[1])
    press(ada, "u", "7")
    ada.get_by_text("It is taken back as soon as it has arrived").wait_for()
    at_case(ada, ids[0])
    assert running.opinions(ids[0]) == []
    assert running.opinions(ids[1]) == []


def test_a_case_that_was_lost_meanwhile_is_said(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    until(held_ahead(running, second))
    ada.wait_for_timeout(500)
    with running.database.transaction() as connection:
        connection.execute("update review_items set lease_until = clock_timestamp() where id = %s", (second,))
    claim = running.desk.claim("Bob", second)
    press(ada, "3")
    ada.locator("#lost").filter(has_text="This case is with Bob").wait_for()
    assert running.opinions(first) == [("Ada", "3", None, None)]
    press(ada, "5")
    running.desk.release("Bob", second, claim.token)
    at_case(ada, second)
    ada.wait_for_selector("#lost", state="hidden")
    assert running.opinions(second) == []


def test_an_answer_that_was_refused_after_the_next_case_came_is_said_and_kept(site, as_reviewer):
    running = site()
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    until(held_ahead(running, second))
    ada.wait_for_timeout(500)
    running.desk.withdraw("Lea", first, "a double")
    press(ada, "3")
    said = ada.get_by_role("alert").filter(has_text="Your answer to the case before was not taken")
    said.wait_for()
    assert "it is withdrawn" in said.inner_text()
    assert Axe().run(ada, options={"resultTypes": ["violations"]}).response["violations"] == []
    ada.wait_for_selector(READY)
    until(lambda: not running.case(second).ahead)
    press(ada, "5")
    ada.wait_for_url("**/review/?after=*")
    assert running.opinions(second) == [("Ada", "5", None, None)]


def test_an_answer_on_its_way_while_the_connection_is_lost_arrives_later(site, as_reviewer):
    running = site()
    ids = running.put(*["picture"] * 3)
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    until(held_ahead(running, ids[1]))
    ada.wait_for_timeout(500)
    ada.context.set_offline(True)
    press(ada, "3")
    at_case(ada, ids[1])
    ada.get_by_text("Your answer before is not sent yet. No connection: trying again.").wait_for()
    press(ada, "5")
    ada.wait_for_timeout(300)
    assert [running.opinions(one) for one in ids] == [[], [], []]
    ada.context.set_offline(False)
    at_case(ada, ids[2])
    answers = [[("Ada", "3", None, None)], [("Ada", "5", None, None)], []]
    until(lambda: [running.opinions(one) for one in ids] == answers)


def test_forms_of_other_kinds_follow_each_other_in_place(site, as_reviewer):
    """Keys, labels, search and help are those of the case that is shown."""
    running = site()
    ids = running.put("picture", "many ticks", "tree", "list", "question", "chat")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, ids[0])
    ada.evaluate("window.stays = true")
    answers = [["3"], ["late login", "Enter", 400, "Enter"], ["3", "Enter"], ["broken ref", "Enter"], ["b"], ["1"]]
    for at, keys in enumerate(answers):
        at_case(ada, ids[at])
        until(lambda at=at: at == len(ids) - 1 or running.case(ids[at + 1]).ahead)
        ada.wait_for_timeout(400)
        for key in keys:
            if isinstance(key, int):
                ada.wait_for_timeout(key)
            elif len(key) > 1 and key != "Enter":
                ada.keyboard.type(key)
            else:
                press(ada, key)
        if at < len(ids) - 1:
            at_case(ada, ids[at + 1])
            assert ada.evaluate("window.stays")
            assert ada.locator("#help").count() == 1
    ada.wait_for_url("**/review/?after=*")
    said = [running.opinions(one)[0][1] for one in ids]
    assert said == ["3", ["late login"], ["A0101", "A", "A01"], "broken refund", "B", "right"]


@pytest.mark.parametrize("how", ["it counts at once", "it is refused"])
def test_where_the_answer_before_stands_keys_count_again(site, as_reviewer, how):
    """Undo was pressed while the answer was on its way, and then there was nothing to take back."""
    running = site(undo_seconds=0 if how == "it counts at once" else 60)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    until(held_ahead(running, second))
    ada.wait_for_timeout(500)
    held = []
    ada.route("**/answer", lambda route: held.append(route))
    press(ada, "3")
    at_case(ada, second)
    press(ada, "u")
    on_its_way = ada.get_by_text("It is taken back as soon as it has arrived")
    on_its_way.wait_for()
    if how == "it is refused":
        running.desk.withdraw("Lea", first, "a double")
    held.pop().continue_()
    ada.unroute("**/answer")  # after that: else Playwright lets it go by itself
    on_its_way.wait_for(state="detached")
    ada.wait_for_timeout(500)
    press(ada, "5")
    until(lambda: running.opinions(second) == [("Ada", "5", None, None)])


@pytest.mark.parametrize("has_next", [True, False])
def test_a_reply_that_is_cut_off_is_asked_for_again(site, as_reviewer, has_next):
    running = site(ahead_seconds=90 if has_next else 0)
    first, second = running.put("picture", "picture")
    ada = as_reviewer("Ada", running.url)
    first_case(ada, first)
    if has_next:
        until(held_ahead(running, second))
        ada.wait_for_timeout(500)
    cut = []

    def cut_once(route):
        if cut:
            route.continue_()
        else:
            cut.append(route.fetch().status)
            route.fulfill(status=200, content_type="application/json", body='{"opened": ')

    ada.route("**/answer", cut_once)
    press(ada, "3")
    at_case(ada, second)
    ada.locator(".last form").wait_for()
    assert cut == [200]
    assert running.opinions(first) == [("Ada", "3", None, None)]

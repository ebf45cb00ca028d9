"""The desk of those who decide, over the API and as forms: who may, what they see, and that one decision is one."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from demur.review import access, cases, queue, settling
from demur.review.disputes import sides_of
from demur.review.item import Kind, ReviewVerdict, Status
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case
from tests.serve.web.review.test_api import configured

ROOT = "/review"


@pytest.fixture
def visit(database):
    apps = {}

    def visit(name, **review):
        key = str(review)
        if key not in apps:
            apps[key] = console_app(configured(undo_seconds=60, **review), database)
        headers = {"X-Demur-Reviewer": name}
        return TestClient(apps[key], root_path=ROOT, base_url="http://testserver/review/", headers=headers)

    return visit


@pytest.fixture
def disputed(database):
    """Cases about which these people said these things."""
    made = []

    def disputed(said, *, model="toy", blind=False, **changes):
        one = entry(model=model, created_at=datetime.now(UTC) - timedelta(minutes=9 - len(made)), **changes)
        made.append(one)
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, opinions_wanted=len(said), blind=blind)])
            for name, told in said.items():
                claim = queue.claim(connection, one.record.id, name, lease_seconds=60)
                verdict = ReviewVerdict(**{"saw_prediction": not blind, **told})
                queue.answer(connection, one.record.id, name, token=claim.token, verdict=verdict, undo_seconds=0)
                settling.settle(connection, settling.Settlement(), one.record.id)
        return one.record.id

    return disputed


APART = {"ada": {"label": "1", "comment": "it has no hook"}, "bob": {"label": "7"}}
UNCLEAR = {"ada": {"label": None, "reason": "It is not legible"}}


def listed(client, **query):
    found = client.get("v1/disputes", params=query)
    assert found.status_code == 200, found.text
    return found.json()


def opinions(database, case_id):
    with database.transaction() as connection:
        return cases.opinions_of(connection, [case_id])[case_id]


def state(database, case_id):
    with database.transaction() as connection:
        return cases.case(connection, case_id)


def test_what_people_said_stands_side_by_side(visit, disputed):
    differ, unclear = disputed(APART), disputed(UNCLEAR)
    found = listed(visit("eve"))
    assert (found["differ"], found["unclear"]) == (1, 1)
    (one,) = found["disputes"]
    assert one["case"]["id"] == str(differ)
    assert [(side["label"], side["people"], side["comments"]) for side in one["sides"]] == [
        ("1", 1, ["it has no hook"]),
        ("7", 1, []),
    ]
    (one,) = listed(visit("eve"), unclear=True)["disputes"]
    assert (one["case"]["id"], one["sides"], one["unsure"]) == (str(unclear), [], ["It is not legible"])


def test_a_case_that_one_could_tell_and_another_could_not_is_no_unclear_one(visit, disputed):
    disputed({"ada": {"label": "1"}, "bob": {"label": None, "reason": "no"}})
    (one,) = listed(visit("eve"))["disputes"]
    assert ([side["label"] for side in one["sides"]], one["unsure"]) == (["1"], ["no"])


def test_a_decision_is_one_request_and_can_be_taken_back(visit, disputed, database):
    case_id = disputed(APART)
    eve = visit("eve")
    (one,) = listed(eve)["disputes"]
    told = eve.post(f"v1/cases/{case_id}/decide", json={"token": one["token"], "side": 2, "comment": "a hook"})
    assert told.status_code == 200, told.text
    assert told.json()["case"]["status"] == "answered"
    assert listed(eve)["disputes"] == []
    latest = opinions(database, case_id)[-1]
    assert (latest.reviewer, latest.label, latest.comment, latest.adjudicates) == ("eve", "7", "a hook", True)
    claim = eve.post(f"v1/cases/{case_id}/undo", json={"token": latest.token})
    assert claim.status_code == 200
    (again,) = listed(eve)["disputes"]  # hers by now, and on her desk
    told = eve.post(f"v1/cases/{case_id}/decide", json={"token": again["token"], "side": 1})
    assert told.status_code == 200
    counting = [one for one in opinions(database, case_id) if one.undone_at is None]
    assert [(one.reviewer, one.label) for one in counting] == [("ada", "1"), ("bob", "7"), ("eve", "1")]


def test_the_decision_settles_as_any_other(visit, disputed, database):
    case_id = disputed(APART)
    eve = visit("eve")
    (one,) = listed(eve)["disputes"]
    eve.post(f"v1/cases/{case_id}/decide", json={"token": one["token"], "side": 2})
    with database.transaction() as connection:
        connection.execute("update review_items set settles_at = clock_timestamp() where id = %s", (case_id,))
        settling.settle(connection, settling.Settlement())
        assert [told.label for told in log.outcomes_of(connection, case_id)] == ["7"]
    assert (state(database, case_id).resolution, state(database, case_id).label) == ("adjudicated", "7")


@pytest.mark.parametrize("name", ["ada", "bob"])
def test_whoever_does_not_decide_sees_nothing(visit, disputed, name):
    case_id = disputed(APART)
    assert visit(name).get("v1/disputes").status_code == 403
    assert visit(name).get("desk").status_code == 403
    assert visit(name).post(f"v1/cases/{case_id}/decide", json={"token": 2, "side": 1}).status_code == 403


def test_whoever_has_spoken_cannot_decide(visit, disputed, database):
    case_id = disputed({"eve": {"label": "1"}, "bob": {"label": "7"}})
    eve = visit("eve")
    assert listed(eve) == {"disputes": [], "differ": 0, "unclear": 0}
    refused = eve.post(f"v1/cases/{case_id}/decide", json={"token": state(database, case_id).token, "side": 1})
    assert refused.status_code == 403
    assert "you have answered this case before" in refused.json()["error"]["message"]
    assert state(database, case_id).status is Status.ADJUDICATION


def test_a_second_look_is_not_told_from_others_and_not_decided_by_the_first(visit, disputed, database):
    first = disputed({"eve": {"label": "1"}})
    with database.transaction() as connection:
        connection.execute(
            "insert into review_items"
            " (id, record_id, kind, model, status, created_at, blind, priority, opinions_wanted)"
            " values (gen_random_uuid(), %s, %s, 'toy', 'waiting', clock_timestamp(), true, 0, 1)",
            (first, Kind.RE_REVIEW.value),
        )
        (again,) = connection.execute("select id from review_items where kind = 're_review'").fetchone()
        claim = queue.claim(connection, again, "ada", lease_seconds=60)
        verdict = ReviewVerdict(label="7", saw_prediction=False)
        queue.answer(connection, again, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
        settling.settle(connection, settling.Settlement(), again)
    assert listed(visit("eve"))["disputes"] == []  # hers is the answer that is checked
    (one,) = listed(visit("lea"))["disputes"]
    assert [side["label"] for side in one["sides"]] == ["1", "7"]
    assert (one["case"]["kind"], one["case"]["record_id"], one["prediction"]) == (None, None, None)


def test_blindly_the_prediction_is_hidden_until_it_is_decided(visit, disputed, database):
    case_id = disputed(APART, blind=True)
    eve = visit("eve")
    page = eve.get("desk").text
    assert "What the model said is shown once you have decided" in page
    assert "The model says" not in page
    (one,) = listed(eve)["disputes"]
    assert one["prediction"] is None
    told = eve.post(f"v1/cases/{case_id}/decide", json={"token": one["token"], "side": 1}).json()
    assert told["prediction"]["prediction"] == "7"
    assert [one.saw_prediction for one in opinions(database, case_id)] == [False, False, False]


def test_cases_of_others_are_not_here(visit, disputed, database):
    case_id = disputed(APART)
    with database.transaction() as connection:
        queue.claim(connection, case_id, "lea", lease_seconds=60)
    assert listed(visit("eve"))["disputes"] == []
    assert [one["case"]["id"] for one in listed(visit("lea"))["disputes"]] == [str(case_id)]
    refused = visit("eve").post(f"v1/cases/{case_id}/decide", json={"token": 3, "side": 1})
    assert refused.status_code == 409
    people = {"eve": {"models": ["letters"], "adjudicates": True}}
    narrow = visit("eve", people=people)
    assert listed(narrow) == {"disputes": [], "differ": 0, "unclear": 0}
    assert narrow.post(f"v1/cases/{case_id}/decide", json={"token": 3, "side": 1}).status_code == 403


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"side": 3}, 422, "there are 2 answers to take"),
        ({"side": 0}, 422, "side"),
        ({"side": 1, "token": 1}, 409, "somebody has had this case since you saw it"),
        ({"side": 1, "comment": "\x00"}, 422, "character 0"),
        ({"side": 1, "label": "3"}, 422, "label"),
    ],
)
def test_what_is_refused_changes_nothing(visit, disputed, database, body, status, words):
    case_id = disputed(APART)
    before = state(database, case_id)
    answer = visit("eve").post(f"v1/cases/{case_id}/decide", json={"token": before.token, **body})
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]
    assert state(database, case_id) == before
    assert len(opinions(database, case_id)) == 2


def test_a_waiting_case_is_not_decided(visit, database):
    made = entry()
    with database.transaction() as connection:
        log.append(connection, [made])
        queue.enqueue(connection, [new_case(made, opinions_wanted=2)])
        claim = queue.claim(connection, made.record.id, "ada", lease_seconds=60)
        verdict = ReviewVerdict(label="1", saw_prediction=True)
        queue.answer(connection, made.record.id, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
        settling.settle(connection, settling.Settlement(), made.record.id)
    answer = visit("eve").post(f"v1/cases/{made.record.id}/decide", json={"token": 1, "side": 1})
    assert (answer.status_code, state(database, made.record.id).status) == (409, Status.WAITING)
    assert "nothing to decide" in answer.json()["error"]["message"]


def test_of_two_who_decide_at_once_one_does(visit, disputed, database):
    case_id = disputed(APART)
    token = state(database, case_id).token
    people = [visit("eve"), visit("lea")] * 3
    with ThreadPoolExecutor(len(people)) as pool:
        path = f"v1/cases/{case_id}/decide"
        codes = list(pool.map(lambda who: who.post(path, json={"token": token, "side": 1}).status_code, people))
    assert sorted(codes) == [200] + [409] * (len(people) - 1)
    assert len(opinions(database, case_id)) == 3


def test_the_time_that_it_took_counts_from_the_view(visit, disputed, database):
    case_id = disputed(APART)
    (one,) = listed(visit("eve"))["disputes"]
    time.sleep(0.4)
    visit("eve").post(f"v1/cases/{case_id}/decide", json={"token": one["token"], "side": 1})
    assert 0.35 < opinions(database, case_id)[-1].seconds < 30  # and not the moment between claim and answer


def test_what_is_shown_is_written_down(visit, disputed, database):
    case_id = disputed(APART, blind=True)
    visit("eve").get("desk")
    with database.transaction() as connection:
        (view,) = access.views(connection, case_id=case_id, limit=9)
    assert (view.person, view.through, view.shown) == ("eve", "page", ["input", "opinions"])


def test_without_a_script_each_row_is_a_form(visit, disputed, database):
    case_id = disputed({"ada": {"label": "1", "comment": "<b>no</b> hook"}, "bob": {"label": "7"}})
    eve = visit("eve")
    page = eve.get("desk").text
    assert "&lt;b&gt;no&lt;/b&gt; hook" in page
    assert "ada" not in page.split("<main")[1]  # an opinion counts for what it says
    token = re.search(r'name="token" value="(\d+)"', page)[1]
    after = eve.post(f"desk/{case_id}", data={"token": token, "side": "2"})
    assert after.url.path == "/review/desk"
    assert "You said <strong>7</strong>" in after.text
    undo = re.search(r'name="token" value="(\d+)"', after.text)[1]
    back = eve.post(f"cases/{case_id}/undo", data={"token": undo, "desk": "true"}, follow_redirects=False)
    assert back.headers["location"] == f"/review/desk#case-{case_id}"
    assert "claimed by you" in eve.get("desk").text


def test_a_corrected_reply_shows_what_each_changed(visit, disputed, database):
    talk = {"model": "talker", "prediction": "wrong", "prediction_set": ["wrong"], "input": "When?"}
    reply = {"text": "On 5 May.", "finish_reason": "stop"}
    said = {
        "ada": {"label": "wrong", "text": "On 6 May.", "codes": ()},
        "bob": {"label": "wrong", "text": "On 7 May."},
    }
    case_id = disputed(said, **talk, reply=reply)
    eve = visit("eve")
    page = eve.get("desk").text
    assert page.count("<del>") == page.count("<ins>") == 2
    (one,) = listed(eve)["disputes"]
    eve.post(f"v1/cases/{case_id}/decide", json={"token": one["token"], "side": 2})
    assert opinions(database, case_id)[-1].text == "On 7 May."


def test_sets_are_one_side_whatever_their_order(visit, disputed, database):
    said = {
        "ada": {"label": ["a", "b"]},
        "bob": {"label": ["b", "a"]},
        "len": {"label": ["a"]},
        "Zoë": {"label": []},
    }
    case_id = disputed(said, model="tags", prediction=["a"])
    found = sides_of(opinions(database, case_id))
    assert [(side.label, len(side.opinions)) for side in found] == [(["a", "b"], 2), (["a"], 1), ([], 1)]
    assert "no label" in visit("eve").get("desk").text


def test_who_decides_is_led_there(visit, disputed):
    assert 'href="/review/desk"' in visit("eve").get("").text
    assert 'href="/review/desk"' not in visit("ada").get("").text

"""Decided cases that are like one: found by their letters, and nothing that a person may not see is among them."""

from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from demur.review import queue, similar
from demur.review.similar import DecidedCase
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.serve.web.review.showing import showing
from demur.serve.web.review.similar_cases import can_be_compared, nearest
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.system.review_site import MODELS

HOSTILE = "<script>alert('cups')</script> broken cups"
PEOPLE = {"ada": {"groups": ["north"]}, "lea": {"leads": True, "adjudicates": True}}


@pytest.fixture
def put(database):
    """A case; with a label it is decided."""
    start = datetime.now(UTC) - timedelta(hours=1)

    def put(input, label=None, *, blind=False, **changes):
        told = {"model": "mood", "group": "north", "prediction": "fair", **changes}
        one = entry(created_at=start, input=input, **told)
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, blind=blind)])
            if label:
                resolve(connection, one.record.id, "bob", label)
        return str(one.record.id)

    return put


@pytest.fixture
def look(database):
    def look(case_id, name="ada", status=200):
        config = Config.model_validate({"models": MODELS, "review": {"people": PEOPLE}})
        client = TestClient(console_app(config, database), root_path="/review", headers={"X-Demur-Reviewer": name})
        reply = client.get(f"/review/cases/{case_id}/similar")
        assert reply.status_code == status
        return reply.text

    return look


def test_the_most_alike_come_first_with_what_they_were_decided_to(put, look):
    put("The weather was fine all week", "good")
    near = put("two broken cups in my parcel", "bad")
    nearer = put("one broken cup in the parcel", "fair")
    page = look(put("a broken cup in the parcel"))
    assert page.index(nearer) < page.index(near)
    assert "<strong>fair</strong>" in page
    assert "weather" not in page


def test_the_blind_are_told_no_answers_and_led_to_none(put, look):
    near = put("two broken cups in my parcel", "bad")
    page = look(put("a broken cup in the parcel", blind=True))
    assert "two broken cups" in page
    assert "<strong>bad</strong>" not in page
    assert near not in page
    assert "once you have answered" in page


def test_nobody_sees_cases_beyond_what_they_review_and_none_that_is_gone(put, look, database):
    put("broken cup of another group", "bad", group="south")
    put("broken cup of no group", "bad", group=None)
    put("broken cup of another model", "1", model="digits")
    put("broken cup that waits")
    gone = put("broken cup that was erased", "bad")
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (gone,))
    case_id = put("a broken cup")
    assert "None of the latest decided cases" in look(case_id)
    assert "another group" in look(case_id, "lea")
    assert "another model" not in look(case_id, "lea")
    look(put("a broken cup", group="south"), status=403)


def test_what_was_shown_is_on_record(put, look, database):
    near = put("two broken cups in my parcel", "bad")
    look(put("a broken cup in the parcel"))
    with database.transaction() as connection:
        rows = connection.execute(
            "select person, through, shown from case_views where case_id = %s", (near,)
        ).fetchall()
    assert rows == [("ada", "list", ["beginning", "opinions"])]


def test_only_the_newest_are_looked_at(put, look, monkeypatch):
    monkeypatch.setattr(similar, "NEWEST", 1)
    put("one broken cup", "bad")
    put("The weather was fine all week", "good")
    assert "None of the latest decided cases" in look(put("a broken cup"))


@pytest.mark.parametrize(
    "input",
    [
        HOSTILE,
        "",
        " ",
        "!!",
        "日本",
        {"messages": [{"role": "user", "content": "broken cups"}]},
        {"a": 1, "b": None},
        7,
        [1.5],
    ],
)
def test_any_input_can_be_asked_about(put, look, input):
    put(HOSTILE, "bad")
    page = look(put(input))
    assert "<script>alert" not in page


def test_pictures_have_no_letters():
    assert not can_be_compared(showing([[0.0, 1.0]]))
    assert nearest("broken", [DecidedCase(case_id=None, label="1", input=[[0.0, 1.0]])]) == []

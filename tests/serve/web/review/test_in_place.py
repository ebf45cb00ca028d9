"""An answer and the cases after it in one request, as the scripts of the pages ask."""

from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from demur.review import access, queue
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case


@pytest.fixture
def ids(database):
    """Four held digits, oldest first."""
    start = datetime.now(UTC) - timedelta(minutes=5)
    entries = [
        entry(model="digits", created_at=start + timedelta(minutes=i), input=[[0.0, 1.0], [0.5, 0.0]]) for i in range(4)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    return [str(e.record.id) for e in entries]


@pytest.fixture
def ask(quickstart, database):
    """Ask as somebody, with settings of `review`."""

    def ask(name, path, body=None, *, status=200, **review):
        changed = quickstart.model_copy(update={"review": quickstart.review.model_copy(update=review)})
        client = TestClient(console_app(changed, database), root_path="/review", headers={"X-Demur-Reviewer": name})
        reply = client.post(f"/review/v1/{path}", json=body or {})
        assert reply.status_code == status, reply.text
        return reply.json() if reply.content else None

    return ask


def views(database, case_id):
    with database.transaction() as connection:
        return [one.through for one in reversed(access.views(connection, case_id=case_id, limit=9))]


def test_an_answer_brings_the_next_case_and_the_one_after_it(ask, ids, database):
    token = ask("ada", "cases/next")["token"]
    first = ask("ada", f"in-place/{ids[0]}/answer", {"token": token, "label": "3"})
    assert (first["opened"], first["next"]["case_id"], first["ahead"]["case_id"]) == (None, ids[1], ids[2])
    assert f'data-case="{ids[1]}"' in first["next"]["html"]
    assert "You said <strong>3</strong>" in first["last"]
    assert f'name="instead_of" value="{ids[1]}"' in first["last"]
    assert (views(database, ids[1]), views(database, ids[2])) == (["page"], ["ahead"])
    opened = {key: first["ahead"][key] for key in ("case_id", "token")}
    body = {"token": first["next"]["token"], "label": "5", "opened": opened}
    second = ask("ada", f"in-place/{ids[1]}/answer", body)
    assert (second["next"], second["ahead"]["case_id"]) == (None, ids[3])
    assert second["opened"]["seconds"] > 300 > first["ahead"]["seconds"]
    assert views(database, ids[2]) == ["ahead", "page"]
    again = ask("ada", f"in-place/{ids[1]}/answer", body)  # whose receipt was lost
    assert (again["opened"]["token"], again["ahead"]["case_id"]) == (opened["token"], ids[3])


def test_nothing_is_sent_ahead_where_that_is_turned_off(ask, ids):
    assert ask("ada", "in-place/ahead", ahead_seconds=0) == {"ahead": None}


def test_what_was_sent_ahead_is_kept_for_longer_or_replaced(ask, ids):
    sent = ask("ada", "in-place/ahead")["ahead"]
    have = {"have": {"case_id": sent["case_id"], "token": sent["token"]}}
    kept = ask("ada", "in-place/ahead", have)["ahead"]
    assert ("html" in kept, kept["case_id"]) == (False, ids[0])
    assert ask("ada", f"in-place/{ids[0]}/leave", status=204) is None
    assert ask("bob", "cases/next")["case_id"] == ids[0]
    assert ask("ada", "in-place/ahead", have)["ahead"]["case_id"] == ids[1]


def test_the_case_of_somebody_else_is_neither_opened_nor_let_go_of(ask, ids, database):
    claim = ask("bob", "in-place/ahead")["ahead"]
    token = ask("ada", "cases/next")["token"]
    ask("ada", f"in-place/{claim['case_id']}/leave", status=204)
    body = {"token": token, "label": "3", "opened": {"case_id": claim["case_id"], "token": claim["token"]}}
    told = ask("ada", f"in-place/{ids[1]}/answer", body)
    assert told["opened"]["lost"] == "this case is with bob"
    assert views(database, ids[0]) == ["ahead"]
    kept = ask("bob", "in-place/ahead", {"have": {"case_id": claim["case_id"], "token": claim["token"]}})
    assert kept["ahead"]["case_id"] == ids[0]


def test_a_refused_answer_opens_and_claims_nothing(ask, ids):
    token = ask("ada", "cases/next")["token"]
    ask("ada", f"in-place/{ids[0]}/answer", {"token": token + 1, "label": "3"}, status=409)
    ask("ada", f"in-place/{ids[0]}/answer", {"token": token, "label": "no digit"}, status=422)
    ask("ada", f"in-place/{ids[0]}/answer", {"token": token, "label": "3", "opened": {"case_id": "x"}}, status=422)
    assert ask("bob", "cases/next")["case_id"] == ids[1]

"""One's own last answers and skips, over the API and as forms."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from demur.review import cases as review_cases
from demur.review import queue
from demur.review.item import Status
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case
from tests.serve.web.review.test_api import configured


@pytest.fixture
def held(database):
    start = datetime.now(UTC) - timedelta(minutes=9)
    entries = [entry(created_at=start + timedelta(minutes=at), input=f"<i>text {at}</i>") for at in range(2)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return [one.record.id for one in entries]


@pytest.fixture
def visit(database):
    app = console_app(configured(undo_seconds=0), database)

    def visit(name):
        headers = {"X-Demur-Reviewer": name}
        return TestClient(app, root_path="/review", base_url="http://testserver/review/", headers=headers)

    return visit


def taken(client):
    claim = client.post("v1/cases/next", json={})
    return claim.json() if claim.status_code == 200 else None


def answer(client, label="7", **more):
    claim = taken(client)
    body = {"token": claim["token"], "label": label, **more}
    assert client.post(f"v1/cases/{claim['case_id']}/answer", json=body).status_code == 200
    return claim["case_id"]


def test_an_answer_is_changed_over_the_api(visit, held, database):
    ada = visit("ada")
    case_id = answer(ada)
    (one,) = ada.get("v1/answers").json()["answers"]
    assert (one["case"]["id"], one["own"]["label"], one["can_change"], one["why_not"]) == (case_id, "7", True, None)
    claim = ada.post(f"v1/cases/{case_id}/reopen", json={"why": "a slip"}).json()
    assert ada.post(f"v1/cases/{case_id}/answer", json={"token": claim["token"], "label": "1"}).status_code == 200
    with database.transaction() as connection:
        assert [one.label for one in log.outcomes_of(connection, held[0])] == ["7", "1"]
    seen = visit("lea").get(f"v1/cases/{case_id}/events").json()["events"]
    assert {"why": "they change their answer: a slip"} in [one["detail"] for one in seen]


def test_of_what_others_said_nobody_learns_by_it(visit, held):
    case_id = answer(visit("ada"))
    assert visit("eve").get("v1/answers").json() == {"answers": []}
    refused = visit("eve").post(f"v1/cases/{case_id}/reopen", json={})
    assert refused.status_code == 403
    assert visit("bob").post(f"v1/cases/{case_id}/reopen", json={}).status_code == 403  # sees other models only


def test_what_cannot_be_changed_says_why_on_the_page(visit, held, database):
    ada = visit("ada")
    case_id = answer(ada, comment="<b>hm</b>")
    page = ada.get("answers").text
    assert "Take it back" in page
    assert "&lt;b&gt;hm&lt;/b&gt;" in page
    with database.transaction() as connection:
        log.add_outcome(connection, held[0], label="3", source="shop", author=None)
    page = ada.get("answers").text
    assert "Take it back" not in page
    assert "No: somebody has told an outcome of their own." in page
    refused = ada.post(f"cases/{case_id}/reopen", data={"why": ""})
    assert refused.status_code == 409
    assert "somebody has told an outcome of their own" in refused.text.lower()


def test_the_form_leads_to_the_case(visit, held):
    ada = visit("ada")
    case_id = answer(ada)
    back = ada.post(f"cases/{case_id}/reopen", data={"why": "a slip"})
    assert back.url.path == f"/review/cases/{case_id}"
    assert 'data-token="2"' in back.text
    assert "You have answered nothing yet" in ada.get("answers").text


def test_of_cases_of_others_nobody_is_told_who_is_at_them(visit, held):
    claim = taken(visit("ada"))
    for move in ("release", "skip", "undo"):
        refused = visit("bob").post(f"v1/cases/{claim['case_id']}/{move}", json={"token": 1})  # sees other models only
        assert refused.status_code == 403
        assert "ada" not in refused.text


@pytest.mark.parametrize("why", ["x" * 501, "a\x00b"])
def test_a_reason_that_is_no_line_is_refused(visit, held, why, database):
    ada = visit("ada")
    case_id = answer(ada)
    assert ada.post(f"cases/{case_id}/reopen", data={"why": why}).status_code == 422
    with database.transaction() as connection:
        assert review_cases.case(connection, held[0]).status is Status.RESOLVED


def test_a_skip_goes_on_with_the_next_case(visit, held):
    ada = visit("ada")
    page = ada.post("next")
    token = re.search(r'data-token="(\d+)"', page.text)[1]
    after = ada.post(f"cases/{held[0]}/skip", data={"token": token, "reason": "my own parcel"})
    assert after.url.path == f"/review/cases/{held[1]}"
    assert ada.post(f"v1/cases/{held[1]}/skip", json={"token": 1}).status_code == 204
    assert taken(ada) is None
    assert visit("eve").post("v1/cases/next", json={}).json()["case_id"] == str(held[0])


def test_leads_see_what_everybody_skipped(visit, held):
    for name in ("ada", "eve", "lea"):
        body = {"token": taken(visit(name))["token"], "reason": "<u>odd</u>"}
        visit(name).post(f"v1/cases/{held[0]}/skip", json=body)
    overview = visit("lea").get("v1/overview").json()
    assert overview["skipped"] == 3
    assert overview["skipped_by_all"] == []  # Zoë has not
    zoe = visit("Zo%C3%AB")
    zoe.post(f"v1/cases/{held[0]}/skip", json={"token": taken(zoe)["token"]})
    (one,) = visit("lea").get("v1/overview").json()["skipped_by_all"]
    assert (one["id"], sorted(one["people"])) == (str(held[0]), ["Zoë", "ada", "eve", "lea"])
    page = visit("lea").get("overview").text
    assert f'href="/review/cases/{held[0]}"' in page
    assert "&lt;u&gt;odd&lt;/u&gt;" in page
    assert visit("ada").get("v1/overview").status_code == 403

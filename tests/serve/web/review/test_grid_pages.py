"""The grid of pictures as a page: the rules of a single case hold on it, with a script and without one."""

import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from demur.review import queue
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case
from tests.system.review_site import MODELS

NOBODY = "0b7e6f0a-3c1d-4a55-9d0e-6a1f2b3c4d5e"  # the id of no case; one that is drawn would part the workers of xdist

PICTURE = [[0.0, 0.5], [1.0, 0.0]]


@pytest.fixture
def put(database):
    def put(n, *, blind=False, **changes):
        start = datetime.now(UTC) - timedelta(hours=1)
        told = {"model": "digits", "input": PICTURE, **changes}
        entries = [entry(created_at=start + timedelta(seconds=i), **told) for i in range(n)]
        with database.transaction() as connection:
            log.append(connection, entries)
            queue.enqueue(connection, [new_case(one, blind=blind) for one in entries])
        return [str(one.record.id) for one in entries]

    return put


@pytest.fixture
def visit(database):
    def visit(name="ada", **review):
        config = Config.model_validate({"models": MODELS, "review": {"undo_seconds": 60, **review}})
        return TestClient(console_app(config, database), root_path="/review", headers={"X-Demur-Reviewer": name})

    return visit


def offered(page):
    """What each tile offers for the label 7."""
    return re.findall(r'value="([0-9a-f-]{36} \d+ 7)"', page)


def test_a_grid_is_filled_and_answered_without_a_script(visit, put):
    ids = put(26)
    ada = visit()
    page = ada.post("/review/grid", data={"model": "digits"}).text
    assert [one.split()[0] for one in offered(page)] == ids[:24]
    assert "As the model says" in page
    chosen = ["", *offered(page)[:2], offered(page)[2].replace(" 7", " 3")]
    page = ada.post("/review/grid/answers", data={"model": "digits", "answer": chosen}).text
    assert page.count("You said <strong>7</strong>") == 2
    assert page.count("You said <strong>3</strong>") == 1
    assert len(offered(page)) == 21
    found = {one["id"]: one for one in ada.get("/review/v1/cases?show=claimed").json()["cases"]}
    assert {found[one]["status"] for one in ids[:3]} == {"answered"}
    token = ada.get(f"/review/v1/cases/{ids[0]}").json()["token"]
    page = ada.post("/review/grid/undo", data={"model": "digits", "id": ids[0], "token": token}).text
    assert len(offered(page)) == 22
    ada.post("/review/grid/release", data={"model": "digits"})
    assert ada.get("/review/v1/backlog").json()["claimed"] == 0


def test_the_blind_are_shown_nothing_and_that_is_on_record(visit, put):
    (case_id,) = put(1, blind=True)
    ada = visit()
    page = ada.post("/review/grid", data={"model": "digits"}).text
    assert "The model says" not in page
    assert "As the model says" not in page
    assert 'data-accept=""' in page
    ada.post("/review/grid/answers", data={"model": "digits", "answer": offered(page)})
    assert ada.get(f"/review/v1/cases/{case_id}").json()["own"]["saw_prediction"] is False


def test_an_answer_that_is_too_late_is_named_and_the_others_count(visit, put, database):
    ids = put(2)
    ada = visit()
    page = ada.post("/review/grid", data={"model": "digits"}).text
    with database.transaction() as connection:
        connection.execute("update review_items set lease_until = now() - interval '1 min' where id = %s", ids[:1])
    visit("bob").post(f"/review/cases/{ids[0]}/claim")
    refused = ada.post("/review/grid/answers", data={"model": "digits", "answer": offered(page)})
    assert refused.status_code == 409
    assert "1 answer was not taken" in refused.text
    assert "this case is with bob" in refused.text
    assert refused.text.count("You said <strong>7</strong>") == 1
    again = ada.post("/review/grid/answers", data={"model": "digits", "answer": offered(page)[1:]})
    assert again.status_code == 200  # the same answer twice is one


@pytest.mark.parametrize("model", ["mood", "cause", "topics", "letters", "writer", "nowhere", "", "<script>"])
def test_other_tasks_have_no_grid(visit, put, model):
    put(1, model="mood", input="a text", prediction="fair")
    for reply in (
        visit().get("/review/grid", params={"model": model}),
        visit().post("/review/grid", data={"model": model}),
    ):
        assert reply.status_code == 422
        assert "<script>" not in reply.text.replace('<script src="', "")
    assert visit().get("/review/v1/backlog").json()["claimed"] == 0


@pytest.mark.parametrize(
    "answer",
    ["nonsense", "1 2 3", f"{NOBODY} x 7", [f"{NOBODY} 1 7"] * 25],
)
def test_a_hostile_form_is_refused(visit, put, answer):
    put(1)
    reply = visit().post("/review/grid/answers", data={"model": "digits", "answer": answer})
    assert reply.status_code == 422


def test_cases_of_others_and_labels_of_none_are_not_taken(visit, put):
    (case_id,) = put(1)
    for answer in (f"{uuid4()} 1 7", f"{case_id} 1 7", f"{case_id} 1 <b>"):
        reply = visit().post("/review/grid/answers", data={"model": "digits", "answer": answer})
        assert reply.status_code == 409
        assert "<b>:" not in reply.text
    assert visit().get(f"/review/v1/cases/{case_id}").json()["own"] is None


def test_what_is_no_picture_is_opened_and_not_judged_by_a_glance(visit, put):
    put(1)
    put(1, input="a long text")
    page = visit().post("/review/grid", data={"model": "digits"}).text
    assert len(offered(page)) == 1
    assert "No picture: open it to judge it" in page


def test_the_list_leads_to_the_grid_where_there_are_pictures(visit, put):
    put(1)
    put(1, model="mood", input="a text", prediction="fair")
    assert 'action="/review/grid"' in visit().get("/review/?model=digits").text
    assert 'action="/review/grid"' not in visit().get("/review/?model=mood").text
    assert 'action="/review/grid"' not in visit().get("/review/").text  # of which model?


def test_the_claims_on_a_grid_are_kept_while_somebody_is_there(visit, put):
    put(2)
    ada = visit()
    ada.post("/review/grid", data={"model": "digits"})
    before = ada.get("/review/v1/cases").json()["cases"][0]["lease_until"]
    assert ada.post("/review/v1/grid/keep", json={"model": "digits"}).status_code == 204
    assert ada.get("/review/v1/cases").json()["cases"][0]["lease_until"] > before
    assert visit("").post("/review/v1/grid/keep", json={"model": "digits"}).status_code == 401

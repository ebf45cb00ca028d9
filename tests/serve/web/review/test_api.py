"""The review API: a case from the queue to its answer, as the document describes it."""

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from demur.review import queue, settling
from demur.review.item import Kind
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from tests.conftest import entry, new_case

ROOT = "/review"

PEOPLE = {
    "ada": {},
    "bob": {"models": ["letters"]},
    "eve": {"adjudicates": True},
    "lea": {"leads": True, "adjudicates": True},
    "len": {"leads": True, "models": ["letters"]},
    "Zoë": {},
}

HOST = {"kind": "transformers", "checkpoint": "nowhere"}
SCORED = {"confidence": {"score": "improbability"}, "policy": {"kind": "threshold", "limit": 0.3}}


def configured(**review) -> Config:
    tasks = {
        "toy": {"kind": "multiclass", "labels": ["1", "3", "7"]},
        "letters": {"kind": "choice"},
        "talker": {"kind": "generate"},
    }
    models = {name: {"host": HOST, "scores": ["improbability"], **SCORED, "task": task} for name, task in tasks.items()}
    models["tags"] = {
        "host": {"kind": "classifier", "checkpoint": "nowhere"},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "policy": {"kind": "threshold", "limit": 0.3},
        "task": {"kind": "multilabel", "labels": ["a", "b"]},
    }
    return Config.model_validate({"models": models, "review": {"people": PEOPLE, "undo_seconds": 0, **review}})


NOBODYS = "01a1fc78-0000-7000-8000-000000000000"
"""The id of no case; the same in every process, because tests are named after it."""


@pytest.fixture
def visit(database):
    """The API as somebody, with settings of `review`."""
    apps = {}

    def visit(name, **review):
        key = json.dumps(review)
        if key not in apps:
            apps[key] = console_app(configured(**review), database)
        headers = {"X-Demur-Reviewer": name} if name else {}
        return TestClient(apps[key], root_path=ROOT, base_url="http://testserver/review/", headers=headers)

    return visit


DOCUMENT = []
"""The document of the API, once it was made: that takes a third of a second, and it hangs on no database."""


@pytest.fixture
def document(visit):
    if not DOCUMENT:
        DOCUMENT.append(visit(None).get("openapi.json").json())
    return deepcopy(DOCUMENT[0])


@pytest.fixture
def ask(visit, document):
    """Ask, and check the response against what the document says about it."""

    def ask(name, method, path, body=None, *, status=200, place=None, **review):
        content = {} if body is None else {"json": body}
        response = visit(name, **review).request(method, path.removeprefix("/"), **content)
        assert response.status_code == status, response.text
        place = place or "/".join("{id}" if len(part) == 36 else part for part in path.split("?")[0].split("/"))
        described = document["paths"][place][method]["responses"][str(status)]
        if status == 204:
            assert not response.content
            return None
        schema = described["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())
        return response.json()

    return ask


@pytest.fixture
def held(database):
    """Put a case into the queue."""

    def held(*, case=None, **changes):
        one = entry(**changes)
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, **(case or {}))])
        return str(one.record.id)

    return held


def test_a_case_from_the_queue_to_its_answer(ask, held):
    id = held(group="north")
    assert ask("ada", "get", "/v1/backlog")["waiting"] == 1
    claim = ask("ada", "post", "/v1/cases/next")
    assert claim["case_id"] == id
    seen = ask("ada", "get", claim["url"])
    assert (seen["mine"], seen["token"], seen["status"]) == (True, claim["token"], "claimed")
    assert seen["input"] == [[0.0, 1.0], [1.0, 0.0]]
    assert seen["task"] == {
        "kind": "multiclass",
        "exclusive": True,
        "labels": ["1", "3", "7"],
        "n_labels": 3,
        "labels_url": "/v1/labels?model=toy",
        "tree": None,
        "codes": [],
    }
    assert seen["prediction"]["prediction_set"] == ["7", "1"]
    assert seen["prediction"]["reason"] is None
    draft = {"label": "3", "reason": None, "comment": "hm", "text": None, "codes": None}
    ask("ada", "post", f"/v1/cases/{id}/heartbeat", {"token": claim["token"], "draft": draft})
    assert ask("ada", "get", claim["url"])["draft"] == draft
    answer = {"token": claim["token"], "label": "3"}
    told = ask("ada", "post", f"/v1/cases/{id}/answer", answer)
    assert told["case"]["status"] == "resolved"
    assert told["prediction"]["prediction"] == "7"
    assert told["undo_until"] is None
    assert ask("ada", "post", f"/v1/cases/{id}/answer", answer)["case"]["status"] == "resolved"
    seen = ask("ada", "get", claim["url"])
    assert [event["to_status"] for event in seen["events"]] == ["waiting", "claimed", "answered", "resolved"]
    assert seen["outcomes"][0]["label"] == seen["label"] == "3"
    assert seen["prediction"]["reason"].startswith("confidence")
    assert ask("ada", "post", "/v1/cases/next", status=204) is None


def test_an_answer_is_taken_back_and_given_anew(ask, held):
    id = held()
    token = ask("ada", "post", f"/v1/cases/{id}/claim", undo_seconds=60)["token"]
    answer = {"token": token, "label": "3"}
    told = ask("ada", "post", f"/v1/cases/{id}/answer", answer, undo_seconds=60)
    assert told["undo_until"]
    assert ask("ada", "get", f"/v1/cases/{id}")["token"] == token
    assert ask("eve", "get", f"/v1/cases/{id}")["token"] is None
    again = ask("ada", "post", f"/v1/cases/{id}/undo", {"token": token}, undo_seconds=60)
    assert again["token"] > token
    told = ask("ada", "post", f"/v1/cases/{id}/answer", {"token": again["token"], "label": "1"})
    assert told["case"]["label"] == "1"


def test_what_was_typed_for_a_lost_claim_is_kept(ask, held, database):
    id = held()
    late = ask("ada", "post", f"/v1/cases/{id}/claim")["token"]
    with database.transaction() as connection:
        connection.execute("update review_items set lease_until = clock_timestamp() - interval '1 second'")
    ask("eve", "post", f"/v1/cases/{id}/claim")
    answer = {"token": late, "label": "7", "comment": "two\nlines"}
    error = ask("ada", "post", f"/v1/cases/{id}/answer", answer, status=409)["error"]
    assert (error["kind"], error["kept"]) == ("ClaimLost", True)
    assert "is with eve" in error["message"]
    assert error["draft"] == {"label": "7", "reason": None, "comment": "two\nlines", "text": None, "codes": None}
    typed = {"token": late, "draft": {"comment": "three"}}
    error = ask("ada", "post", f"/v1/cases/{id}/heartbeat", typed, status=409)["error"]
    assert error["draft"] == {"label": None, "reason": None, "comment": "three", "text": None, "codes": None}
    error = ask("Zo%C3%AB", "post", f"/v1/cases/{id}/claim", status=409)["error"]
    assert (error["kept"], error["draft"]) == (False, None)
    for what in ("release", "undo"):
        ask("ada", "post", f"/v1/cases/{id}/{what}", {"token": late}, status=409)


def test_a_blind_answer_is_given_without_the_prediction(ask, held):
    id = held(case={"blind": True, "kind": Kind.SPOT_CHECK})
    token = ask("ada", "post", f"/v1/cases/{id}/claim")["token"]
    seen = ask("ada", "get", f"/v1/cases/{id}")
    line = ask("ada", "get", "/v1/cases")["cases"][0]
    for shown in (seen, line):
        assert (shown["confidence"], shown["kind"], shown["record_id"]) == (None, None, None)
    assert seen["prediction"] is None
    told = ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": "3"})
    assert told["prediction"]["confidence"] == 0.61
    seen = ask("ada", "get", f"/v1/cases/{id}")
    assert (seen["confidence"], seen["kind"], seen["record_id"]) == (0.61, "spot_check", id)
    assert seen["opinions"][0]["saw_prediction"] is False


def test_what_cannot_be_told_needs_a_reason_and_goes_to_who_decides(ask, held):
    id = held()
    token = ask("ada", "post", f"/v1/cases/{id}/claim")["token"]
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": None}, status=422)
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token}, status=422)
    told = {"token": token, "label": None, "reason": "blurred"}
    assert ask("ada", "post", f"/v1/cases/{id}/answer", told)["case"]["status"] == "adjudication"
    assert ask("ada", "get", f"/v1/cases/{id}")["opinions"] == []
    claim = ask("eve", "post", "/v1/cases/next")
    assert claim["adjudicating"]
    seen = ask("eve", "get", f"/v1/cases/{id}")
    assert [(said["reviewer"], said["reason"]) for said in seen["opinions"]] == [("ada", "blurred")]
    told = ask("eve", "post", f"/v1/cases/{id}/answer", {"token": claim["token"], "label": "1"})
    assert told["case"]["resolution"] == "adjudicated"


def test_the_queue_is_filtered(ask, held, database):
    due = datetime.now(UTC) - timedelta(minutes=1)
    late = held(group="north", case={"due_at": due})
    letter = held(model="letters", input={"question": "?", "options": ["a", "b"]}, prediction="A", group="south")
    mine = held()
    ask("ada", "post", f"/v1/cases/{mine}/claim")

    def ids(name="ada", **values):
        query = "&".join(f"{key}={value}" for key, value in values.items())
        return [case["id"] for case in ask(name, "get", f"/v1/cases?{query}")["cases"]]

    assert ids() == [late, letter, mine]
    assert ids(status="claimed") == ids(mine="true") == [mine]
    assert ids(model="letters") == ids(group="south") == ids(name="bob") == [letter]
    assert ids(overdue="true") == [late]
    page = ask("ada", "get", "/v1/cases?limit=1&offset=1&status=waiting&status=claimed")
    assert ([case["id"] for case in page["cases"]], page["more"]) == ([letter], True)
    assert ask("ada", "get", "/v1/backlog")["overdue"] == 1
    assert ask("bob", "get", "/v1/backlog")["open"] == 1


def test_how_far_they_have_come_and_where_the_cases_are(ask, held):
    id, other = held(), held(group="north", input="a long text " * 100)
    assert ask("ada", "get", "/v1/progress")["median_seconds"] is None
    token = ask("ada", "post", f"/v1/cases/{id}/claim")["token"]
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": "3"})
    done = ask("ada", "get", "/v1/progress?since=2026-01-01T00:00:00Z")
    assert (done["answered"], done["resolved"], done["resolved_last_hour"]) == (1, 1, 1)
    assert done["median_seconds"] >= 0
    assert ask("eve", "get", "/v1/progress")["answered"] == 0
    ask("eve", "get", "/v1/progress?since=2026-01-01T00:00:00", status=422)
    assert ask("ada", "get", "/v1/shelves")["shelves"] == [{"model": "toy", "group": "north", "open": 1}]
    assert ask("ada", "get", f"/v1/cases/{id}")["own"]["label"] == "3"
    assert ask("eve", "get", f"/v1/cases/{id}")["own"] is None
    (line,) = ask("ada", "get", "/v1/cases?status=waiting&glance=true")["cases"]
    assert (line["id"], line["glance"][:11], len(line["glance"]) < 1200) == (other, "a long text", True)
    assert ask("ada", "get", "/v1/cases?status=waiting")["cases"][0]["glance"] is None


def test_each_sees_and_does_what_they_may(ask, held):
    id = held()
    assert ask("bob", "get", "/v1/me") == {
        "name": "bob",
        "models": ["letters"],
        "groups": None,
        "adjudicates": False,
        "leads": False,
    }
    assert ask("Zo%C3%AB", "get", "/v1/me")["name"] == "Zoë"
    assert ask("bob", "get", f"/v1/cases/{id}", status=403)["error"]["kind"] == "NotYours"
    ask("bob", "post", f"/v1/cases/{id}/heartbeat", {"token": 1, "draft": {}}, status=403)
    ask("mallory", "get", "/v1/backlog", status=403)
    ask("ada", "get", f"/v1/cases/{id}/events", status=403)
    ask("ada", "post", f"/v1/cases/{id}/withdraw", {"why": "a test"}, status=403)
    assert ask("lea", "post", f"/v1/cases/{id}/withdraw", {"why": "a test"})["status"] == "withdrawn"
    events = ask("lea", "get", f"/v1/cases/{id}/events")["events"]
    assert [(event["actor"], event["detail"]) for event in events] == [(None, None), ("lea", {"why": "a test"})]
    ask("lea", "post", f"/v1/cases/{held()}/withdraw", {"why": ""}, status=422)
    ask("len", "post", f"/v1/cases/{held()}/withdraw", {"why": "a test"}, status=403)  # leads, but not these


def test_who_decides_about_a_second_look_sees_both_sides(ask, held):
    held()

    def say(name, label):
        claim = ask(name, "post", "/v1/cases/next", re_review=1)
        seen = ask(name, "get", claim["url"], re_review=1)
        ask(name, "post", f"{claim['url']}/answer", {"token": claim["token"], "label": label}, re_review=1)
        return seen

    say("ada", "7")
    assert say("Zo%C3%AB", "1")["opinions"] == []
    seen = say("eve", "1")
    assert [(one["reviewer"], one["label"]) for one in seen["opinions"]] == [("ada", "7"), ("Zoë", "1")]
    assert (seen["kind"], seen["record_id"], seen["outcomes"]) == (None, None, [])


def test_whose_case_ends_just_now_gets_the_next_one(ask, held, monkeypatch):
    mine = held()
    ask("ada", "post", f"/v1/cases/{mine}/claim")
    other = held()

    def lost(*_args, **_more):
        raise queue.ClaimLost("this case has ended: it is withdrawn")

    monkeypatch.setattr(queue, "claim", lost)
    assert ask("ada", "post", "/v1/cases/next")["case_id"] == other


def test_a_case_is_given_back(ask, held):
    id = held()
    token = ask("ada", "post", "/v1/cases/next", {"model": "toy"})["token"]
    ask("ada", "post", f"/v1/cases/{id}/release", {"token": token}, status=204)
    assert ask("ada", "get", "/v1/backlog")["waiting"] == 1
    assert ask("ada", "post", "/v1/cases/next", {"model": "letters"}, status=204) is None


def test_a_case_that_was_given_back_goes_to_others_first(ask, visit, held):
    mine, other = held(), held()
    token = ask("ada", "post", "/v1/cases/next")["token"]
    ask("ada", "post", f"/v1/cases/{mine}/release", {"token": token}, status=204)
    claim = ask("ada", "post", "/v1/cases/next")
    assert claim["case_id"] == other
    ask("ada", "post", f"/v1/cases/{other}/release", {"token": claim["token"]}, status=204)
    nothing = visit("ada").post("v1/cases/next")
    assert nothing.status_code == 204
    assert 3500 < int(nothing.headers["Retry-After"]) <= 3600
    assert "Retry-After" not in visit("ada").post("v1/cases/next", json={"model": "letters"}).headers
    assert ask("eve", "post", "/v1/cases/next")["case_id"] == mine
    assert ask("ada", "post", "/v1/cases/next", {"again": True})["case_id"] == other


def test_whether_and_how_long_a_case_stays_away_is_configured(ask, held):
    id = held()
    token = ask("ada", "post", "/v1/cases/next", give_back_seconds=0)["token"]
    ask("ada", "post", f"/v1/cases/{id}/release", {"token": token}, status=204, give_back_seconds=0)
    assert ask("ada", "post", "/v1/cases/next", give_back_seconds=0)["case_id"] == id


def test_what_was_taken_meanwhile_is_free_when_an_answer_is_taken_back(ask, held):
    id, next_one = held(), held()
    token = ask("ada", "post", "/v1/cases/next", undo_seconds=60)["token"]
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": "3"}, undo_seconds=60)
    assert ask("ada", "post", "/v1/cases/next")["case_id"] == next_one
    back = {"token": token, "instead_of": next_one}
    again = ask("ada", "post", f"/v1/cases/{id}/undo", back, undo_seconds=60)
    assert ask("eve", "get", f"/v1/cases/{next_one}")["status"] == "waiting"
    assert ask("ada", "post", f"/v1/cases/{id}/undo", back, undo_seconds=60)["token"] == again["token"]
    assert ask("ada", "get", f"/v1/cases/{id}")["mine"]


@pytest.mark.parametrize("meanwhile", ["itself", NOBODYS, "eve's"])
def test_taking_back_frees_nothing_else(ask, held, meanwhile):
    id, other = held(), held()
    token = ask("ada", "post", f"/v1/cases/{id}/claim", undo_seconds=60)["token"]
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": "3"}, undo_seconds=60)
    ask("eve", "post", f"/v1/cases/{other}/claim")
    named = {"itself": id, "eve's": other}.get(meanwhile, meanwhile)
    ask("ada", "post", f"/v1/cases/{id}/undo", {"token": token, "instead_of": named}, undo_seconds=60)
    assert ask("ada", "get", f"/v1/cases/{id}")["mine"]
    assert ask("eve", "get", f"/v1/cases/{other}")["mine"]


def test_too_late_to_take_back_frees_nothing(ask, held):
    id, other = held(), held()
    token = ask("ada", "post", f"/v1/cases/{id}/claim")["token"]
    ask("ada", "post", f"/v1/cases/{id}/answer", {"token": token, "label": "3"})
    ask("ada", "post", f"/v1/cases/{other}/claim")
    ask("ada", "post", f"/v1/cases/{id}/undo", {"token": token, "instead_of": other}, status=409)
    assert ask("ada", "get", f"/v1/cases/{other}")["mine"]


def test_that_no_label_holds_is_said_with_an_empty_list(visit, held):
    id = held(model="tags", prediction=["a"], top_labels=["a", "b"], label_confidence=[0.9, 0.2])
    ada = visit("ada")
    token = ada.post(f"v1/cases/{id}/claim").json()["token"]
    for left_out in ({"token": token}, {"token": token, "label": None}, {"token": token, "label": ""}):
        assert ada.post(f"v1/cases/{id}/answer", json=left_out).status_code == 422
    assert ada.post(f"v1/cases/{id}/answer", json={"token": token, "label": []}).json()["case"]["label"] == []


def test_a_text_that_is_judged_is_seen_even_blindly(ask, held):
    reply = {"text": "5", "finish_reason": "stop"}
    id = held(model="talker", input="2 + 2?", prediction="right", reply=reply, case={"blind": True})
    seen = ask("ada", "get", f"/v1/cases/{id}")
    assert (seen["reply"], seen["prediction"]) == ("5", None)
    assert seen["task"]["labels"] == ["right", "wrong"]


@pytest.mark.parametrize("name", [None, "", "%20", "a%07b", "x" * 101])
def test_whoever_asks_says_who_they_are(ask, name):
    assert "X-Demur-Reviewer" in ask(name, "get", "/v1/me", status=401)["error"]["message"]


def test_the_cookie_of_the_pages_counts_and_the_header_before_it(visit):
    client = visit(None)
    client.cookies.set("demur-reviewer", "Zo%C3%AB")
    assert client.get("v1/me").json()["name"] == "Zoë"
    assert client.get("v1/me", headers={"X-Demur-Reviewer": "ada"}).json()["name"] == "ada"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("get", "v1/nowhere", None, 404, "NotFound"),
        ("delete", "v1/cases", None, 405, "MethodNotAllowed"),
        ("get", f"v1/cases/{NOBODYS}", None, 404, "CaseNotFound"),
        ("get", "v1/cases/seven", None, 422, "InvalidRequest"),
        ("get", "v1/cases?limit=0", None, 422, "InvalidRequest"),
        ("get", "v1/cases?model=%00", None, 422, "InvalidRequest"),
        ("get", "v1/cases?status=gone", None, 422, "InvalidRequest"),
        ("post", f"v1/cases/{NOBODYS}/heartbeat", b'{"token": 1, "draft": {}}', 404, "CaseNotFound"),
        ("post", f"v1/cases/{NOBODYS}/answer", b'{"token": 1, "label": "7"}', 404, "CaseNotFound"),
        ("post", f"v1/cases/{NOBODYS}/answer", b"{", 400, "MalformedBody"),
        ("post", f"v1/cases/{NOBODYS}/answer", b'{"token": "1", "label": "7"}', 422, "InvalidRequest"),
        ("post", f"v1/cases/{NOBODYS}/undo", b'{"token": 1}', 404, "CaseNotFound"),
        ("post", f"v1/cases/{NOBODYS}/release", b'{"token": 1}', 404, "CaseNotFound"),
        ("post", f"v1/cases/{NOBODYS}/claim", None, 404, "CaseNotFound"),
        ("post", "v1/cases/next", b'{"model": "' + b"a" * 2**24 + b'"}', 413, "TooLarge"),
    ],
)
def test_problems_are_told_as_everywhere(visit, method, path, body, status, kind):
    response = visit("ada").request(method, path, content=body)
    assert (response.status_code, response.json()["error"]["kind"]) == (status, kind)


def test_people_are_told_on_a_page(visit):
    client = visit(None)
    client.cookies.set("demur-reviewer", "ada")
    for path, status in (("nowhere", 404), (f"cases/{NOBODYS}", 404), ("cases/seven", 422)):
        page = client.get(path)
        assert (page.status_code, page.headers["content-type"][:9]) == (status, "text/html")


def test_what_nobody_foresaw_is_told_without_its_inside(database, monkeypatch):
    def boom(*_args, **_more):
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(ReviewService, "backlog", boom)
    app = console_app(configured(), database)
    client = TestClient(app, raise_server_exceptions=False, cookies={"demur-reviewer": "ada"})
    for path in ("/v1/backlog", "/"):
        response = client.get(path)
        assert response.status_code == 500
        assert "secret" not in response.text


def test_the_document_is_of_the_api_alone_and_needs_nobody_else(document, visit):
    assert all(path.startswith("/v1/") for path in document["paths"])
    assert document["servers"] == [{"url": ROOT}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            if path.startswith("/v1/cases/"):
                assert {"401", "403", "422"} <= set(operation["responses"])
    jsonschema.Draft202012Validator.check_schema({"components": document["components"]})
    page = visit(None).get("docs").text
    assert "https://" not in page
    script = page.split('<script src="')[1].split('"')[0]
    assert script.startswith(f"{ROOT}/")
    assert visit(None).get(script.removeprefix(f"{ROOT}/")).status_code == 200


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
nearly_right = st.fixed_dictionaries(
    {"token": st.just(1) | anything},
    optional=dict.fromkeys(("label", "draft", "reason", "comment", "why", "model", "colour"), anything),
)


@given(
    st.sampled_from(["next", "id/claim", "id/heartbeat", "id/answer", "id/undo", "id/release", "id/withdraw", "bulk"]),
    nearly_right | anything,
    st.text(max_size=8),
)
def test_nothing_that_is_sent_is_ever_a_500(visit, database, path, body, word):
    with database.transaction() as connection:
        row = connection.execute("select id from review_items where status = 'waiting'").fetchone()
        if row is None:
            one = entry()
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one)])
            row = (one.record.id,)
    client = visit("lea")
    response = client.post(f"v1/cases/{path.replace('id', str(row[0]))}", content=json.dumps(body))
    assert response.status_code < 500, response.text
    response = client.get("v1/cases", params={"model": word, "group": word, "limit": word or 1, "status": word or []})
    assert response.status_code < 500, response.text
    with database.transaction() as connection:
        settling.sweep(connection, settling.Settlement())

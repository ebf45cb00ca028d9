"""Cases of a task with very many labels: a page holds few of them, and people find the others by typing."""

import json
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

from demur.review import queue
from demur.serve.config.file import Config
from demur.serve.web.review.app import console_app
from demur.serve.web.review.case_import import import_verdicts
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from tests.conftest import entry, new_case

N_LABELS = 30_000
ODD = ["=1+1", 'say "hi", twice', "<b>bold</b>", "\u202eesrever", "zero\u200bwidth"]
HELD = {
    "model": "tags",
    "input": "It leaks.",
    "prediction": ["part 7"],
    "prediction_set": [],
    "top_labels": ["part 7", "part 3"],
    "top_probabilities": [0.9, 0.4],
    "label_confidence": [0.8, 0.3],
}
CANDIDATES = {"part 3": 0.4, "part 7": 0.9, "part 12": 0.2, "<b>bold</b>": 0.1}


def configured(folder, **more) -> Config:
    path = folder / "labels.txt"
    lines = [*ODD, *(f"part {at}\tTitle of {at}" for at in range(N_LABELS))]
    path.write_text("\n".join(lines), encoding="utf-8")
    tags = {
        "task": {"kind": "multilabel", "labels": str(path), "sparse": True},
        "host": {"kind": "given", "gives": ["candidates"], "candidates": 20},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "policy": {"kind": "threshold", "limit": 0.3},
    }
    one = {
        **tags,
        "task": {**tags["task"], "kind": "multiclass"},
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
    }
    people = {"ada": {"leads": True, "adjudicates": True}, "bob": {"models": ["one"]}}
    review = {"undo_seconds": 0, "people": people}
    return Config.model_validate({"models": {"tags": tags, "one": one}, "review": review, **more})


@pytest.fixture
def config(tmp_path):
    return configured(tmp_path)


@pytest.fixture
def visit(config, database):
    app = console_app(config, database)

    def visit(name):
        headers = {"X-Demur-Reviewer": name}
        return TestClient(app, root_path="/review", base_url="http://testserver/review/", headers=headers)

    return visit


def put(database, *, blind=False, output=CANDIDATES, **changes):
    from dataclasses import replace

    one = replace(entry(**{**HELD, **changes}), output=None if output is None else {"candidates": output})
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one, blind=blind)])
    return one.record.id


def page_of(client, case_id, **query):
    client.post(f"cases/{case_id}/claim")
    page = client.get(f"cases/{case_id}", params=query)
    assert page.status_code == 200
    return page.text


def test_labels_are_found_by_typing(visit):
    ada = visit("ada")
    told = ada.get("v1/labels", params={"model": "tags", "query": "part 2999"}).json()
    assert told["labels"][0] == {"label": "part 2999", "text": "part 2999", "title": "Title of 2999", "match": "begins"}
    assert (len(told["labels"]), told["more"]) == (11, False)
    assert ada.get("v1/labels", params={"model": "tags", "query": "title 17", "limit": 5}).json()["more"] is True
    hidden = ada.get("v1/labels", params={"model": "tags", "query": "esrever"}).json()["labels"][0]
    assert (hidden["label"], hidden["text"]) == ("\u202eesrever", "[U+202E]esrever")


@pytest.mark.parametrize(
    ("name", "query", "status"),
    [
        ("ada", {"model": "tags", "query": "p"}, 200),
        ("ada", {"model": "tags", "query": ""}, 422),
        ("ada", {"model": "tags"}, 422),
        ("ada", {"model": "tags", "query": "p" * 200}, 200),
        ("ada", {"model": "tags", "query": "p" * 10_000}, 422),
        ("ada", {"model": "tags", "query": "a\x00b"}, 422),
        ("ada", {"model": "tags", "query": "p", "limit": 0}, 422),
        ("ada", {"model": "tags", "query": "p", "limit": 51}, 422),
        ("ada", {"model": "nothing", "query": "p"}, 422),
        ("bob", {"model": "tags", "query": "p"}, 403),
        ("eve", {"model": "tags", "query": "p"}, 403),
    ],
)
def test_a_search_that_is_refused(visit, name, query, status):
    assert visit(name).get("v1/labels", params=query).status_code == status


def test_a_page_holds_the_candidates_first_and_not_every_label(visit, database):
    case_id = put(database)
    page = page_of(visit("ada"), case_id)
    assert len(page) < 60_000
    values = [part.split('"')[0] for part in page.split('name="label" value="')[1:]]
    assert values == ["part 7", "part 3", "part 12", "&lt;b&gt;bold&lt;/b&gt;"]
    assert "<b>bold" not in page
    assert "Title of 12" in page
    assert "of 30,005" in page
    view = visit("ada").get(f"v1/cases/{case_id}").json()
    assert view["task"]["labels"] is None
    assert (view["task"]["n_labels"], view["task"]["labels_url"]) == (N_LABELS + 5, "/v1/labels?model=tags")
    assert len(json.dumps(view)) < 5000


def test_a_blind_page_offers_no_candidate(visit, database):
    page = page_of(visit("ada"), put(database, blind=True))
    assert "part 7" not in page
    assert "part 12" not in page
    assert "Title of" not in page


def test_candidates_that_are_no_longer_kept_leave_those_of_the_record(visit, database):
    page = page_of(visit("ada"), put(database, output=None))
    assert page.count('name="label" value=') == 2


def test_a_browser_without_scripts_finds_labels_and_keeps_what_is_ticked(visit, database):
    ada, case_id = visit("ada"), put(database, blind=True)
    page = page_of(ada, case_id, find="title of 4242", label=["part 1", "=1+1", "no such label"], comment="old one")
    assert 'value="part 1" checked' in page
    assert 'value="=1+1" checked' in page
    assert 'value="part 4242"' in page
    assert "no such label" not in page.split('id="choices"')[1].split("</ul>")[0]
    assert ">old one</textarea>" in page
    token = ada.get(f"v1/cases/{case_id}").json()["token"]
    sent = ada.post(f"cases/{case_id}/answer", data={"token": token, "label": ["part 4242", "=1+1"]})
    assert sent.status_code == 200
    assert ada.get(f"v1/cases/{case_id}").json()["label"] == ["=1+1", "part 4242"]


@pytest.mark.parametrize("label", [["part 30000"], ["Part 1"], ["part 1\u200b"], ["part 1", "(others)"]])
def test_an_answer_with_an_unknown_label_is_refused(visit, database, label):
    ada, case_id = visit("ada"), put(database)
    token = ada.post(f"v1/cases/{case_id}/claim").json()["token"]
    refused = ada.post(f"v1/cases/{case_id}/answer", json={"token": token, "label": label})
    assert refused.status_code == 422
    message = refused.json()["error"]["message"]
    assert "is not a label of 'tags'; it has: 30,005, which stand in its file of labels" in message
    assert len(message) < 300
    assert ada.get(f"v1/cases/{case_id}").json()["status"] == "claimed"


def test_one_label_of_very_many_is_a_list(visit, database):
    case_id = put(
        database, model="one", prediction="part 7", prediction_set=["part 7", "(others)"], label_confidence=None
    )
    page = page_of(visit("ada"), case_id)
    assert 'type="radio" name="label" value="part 7"' in page
    assert 'value="(others)"' not in page


def test_to_label_studio_and_back(config, visit, database):
    ada, case_id = visit("ada"), put(database)
    told = ElementTree.fromstring(ada.get("v1/label-config", params={"model": "tags", "input": "text"}).text)
    assert told.find("Choices") is None
    assert [area.get("name") for area in told.findall("TextArea")] == ["label", "comment"]
    assert len(ElementTree.tostring(told)) < 1000
    (task,) = ada.get("v1/export", params={"model": "tags", "with_predictions": True}).json()
    (result,) = task["predictions"][0]["result"]
    assert result["value"] == {"text": ["part 7"]}
    typed = {**result, "value": {"text": ["part 4242\n =1+1 \n", "part 4242"]}}
    wrong = {**result, "value": {"text": ["part 99999"]}}
    annotations = [
        {"completed_by": "ada", "result": [wrong], "created_at": "1"},
        {"completed_by": "ada", "result": [typed], "created_at": "2"},
    ]
    rows = import_verdicts(ReviewService(config, database), [{**task, "annotations": annotations}], people={})
    assert [row.became for row in rows] == ["refused", "taken"]
    assert "is not a label" in rows[0].why
    assert ada.get(f"v1/cases/{case_id}").json()["label"] == ["=1+1", "part 4242"]
    csv = ada.get("v1/export", params={"model": "tags", "format": "csv", "status": "resolved"})
    assert csv.status_code == 200
    assert "part 4242" in csv.text

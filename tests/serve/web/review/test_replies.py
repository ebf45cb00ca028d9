"""A reply that people correct, through the API and on pages without scripts."""

import html
import re

import pytest
from starlette.testclient import TestClient

from demur.review import cases, queue
from demur.serve.config.file import Config
from demur.serve.config.redact import RedactConfig
from demur.serve.contract.corrections import LONGEST
from demur.serve.web.review.app import console_app
from demur.traffic import log
from tests.conftest import entry, new_case

HOST = {"kind": "transformers", "checkpoint": "nowhere"}
SCORED = {"confidence": {"score": "improbability"}, "policy": {"kind": "threshold", "limit": 0.3}}
CODES = ["not true", "rude", "<b>incomplete</b>"]


def configured(**more):
    tasks = {"talker": {"kind": "generate"}, "toy": {"kind": "multiclass", "labels": ["1", "3", "wrong"]}}
    models = {name: {"host": HOST, "scores": ["improbability"], **SCORED, "task": task} for name, task in tasks.items()}
    review = {"undo_seconds": 0, "models": {"talker": {"codes": CODES}}}
    return Config.model_validate({"models": models, "review": review, **more})


@pytest.fixture
def visit(database):
    def visit(name, **more):
        app = console_app(configured(**more), database)
        base = "http://testserver/review/"
        return TestClient(app, root_path="/review", base_url=base, headers={"X-Demur-Reviewer": name})

    return visit


@pytest.fixture
def held(database):
    def held(reply="It is 41.", *, case=None, **changes):
        written = None if reply is None else {"text": reply, "finish_reason": "stop"}
        told = {"model": "talker", "prediction": "right", "prediction_set": [], "input": "How much?"}
        one = entry(**{**told, "reply": written, **changes})
        with database.transaction() as connection:
            log.append(connection, [one])
            queue.enqueue(connection, [new_case(one, **(case or {}))])
        return str(one.record.id)

    return held


def answered(client, case_id, **said):
    token = client.post(f"v1/cases/{case_id}/claim").json()["token"]
    return client.post(f"v1/cases/{case_id}/answer", json={"token": token, **said})


def test_a_corrected_reply_through_the_api(visit, held):
    ada, case_id = visit("ada"), held()
    assert ada.get(f"v1/cases/{case_id}").json()["task"]["codes"] == CODES
    assert answered(ada, case_id, label="wrong", text="It is 42.\r\n", codes=["rude", "not true"]).status_code == 200
    seen = ada.get(f"v1/cases/{case_id}").json()
    assert (seen["outcomes"][0]["text"], seen["outcomes"][0]["codes"]) == ("It is 42.\n", ["not true", "rude"])
    assert (seen["opinions"][0]["text"], seen["opinions"][0]["codes"]) == ("It is 42.\n", ["not true", "rude"])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"label": "right", "text": "It is 42."}, "only a reply that is `wrong`"),
        ({"label": None, "reason": "?", "text": "It is 42."}, "only a reply that is `wrong`"),
        ({"label": "wrong", "text": " It is 41.\n"}, "as the model wrote it"),
        ({"label": "wrong", "text": " \n"}, "it is empty"),
        ({"label": "wrong", "text": "It \x00is"}, "control characters"),
        ({"label": "wrong", "text": "It \x1b[2Jis"}, "control characters"),
        ({"label": "wrong", "text": "It \x85is"}, "control characters"),
        ({"label": "wrong", "text": "x" * (LONGEST + 1)}, "100,000"),
        ({"label": "wrong", "codes": ["ugly"]}, "there is no code 'ugly' for 'talker'; there are: not true, rude"),
        ({"label": "right", "codes": ["rude"]}, "leave them out"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(visit, held, said, message):
    ada, case_id = visit("ada"), held()
    refused = answered(ada, case_id, **said)
    assert refused.status_code == 422
    assert message in refused.json()["error"]["message"]
    assert ada.get(f"v1/cases/{case_id}").json()["mine"]


def test_a_label_called_wrong_is_no_reply(visit, held):
    case_id = held(model="toy", prediction="1", reply=None)
    refused = answered(visit("ada"), case_id, label="wrong", text="3")
    assert "writes no text" in refused.json()["error"]["message"]
    refused = answered(visit("ada"), held(model="toy", prediction="1", reply=None), label="wrong", codes=["rude"])
    assert "none are configured (review.models.toy.codes)" in refused.json()["error"]["message"]


def test_where_the_model_wrote_nothing_somebody_can(visit, held):
    case_id = held(None)
    assert answered(visit("ada"), case_id, label="wrong", text="It is 42.").status_code == 200


def test_where_the_reply_is_gone_no_text_is_taken(visit, held, database):
    ada, case_id = visit("ada"), held()
    with database.transaction() as connection:
        connection.execute("delete from payloads")
    refused = answered(ada, case_id, label="wrong", text="It is 42.")
    assert "no longer kept" in refused.json()["error"]["message"]
    assert 'name="text"' not in ada.get(f"cases/{case_id}").text
    assert answered(ada, case_id, label="wrong").status_code == 200


def test_what_is_taken_out_of_replies_is_taken_out_of_texts_and_drafts(visit, held, database):
    redact = RedactConfig.model_validate({"patterns": {"name": {"pattern": "Ng"}}}).model_dump()
    ada, case_id = visit("ada", redact=redact), held()
    token = ada.post(f"v1/cases/{case_id}/claim").json()["token"]
    ada.post(f"v1/cases/{case_id}/heartbeat", json={"token": token, "draft": {"text": "Ms Ng, no"}})
    with database.transaction() as connection:
        assert cases.draft_of(connection, case_id, "ada")["text"] == "Ms [removed], no"
    said = {"token": token, "label": "wrong", "text": "Ms Ng, it is 42."}
    for _ in range(2):  # the same again is one answer
        assert ada.post(f"v1/cases/{case_id}/answer", json=said).status_code == 200
    assert ada.get(f"v1/cases/{case_id}").json()["outcomes"][0]["text"] == "Ms [removed], it is 42."


NASTY = '</textarea><script>alert(1)</script>"><img src=x onerror=alert(1)>\u202e'


def test_without_scripts_the_form_corrects(visit, held):
    ada, case_id = visit("ada"), held("\nIt is 41.\nDear " + NASTY)
    token = ada.post(f"v1/cases/{case_id}/claim").json()["token"]
    page = ada.get(f"cases/{case_id}").text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    area = html.unescape(re.search(r"<textarea id=\"text\"[^>]*>\n(.*?)</textarea>", page, re.DOTALL).group(1))
    assert area == "\nIt is 41.\nDear " + NASTY  # as it came, so that it comes back so
    form = {"token": token, "text": area.replace("\n", "\r\n"), "corrected": "true"}
    refused = ada.post(f"cases/{case_id}/answer", data=form, follow_redirects=False)
    assert "it is still that of the model" in html.unescape(refused.text)
    form |= {"text": area.replace("41", "42"), "code": ["rude", CODES[2]]}
    assert ada.post(f"cases/{case_id}/answer", data=form, follow_redirects=False).status_code == 303
    seen = ada.get(f"v1/cases/{case_id}").json()["outcomes"][0]
    assert (seen["label"], seen["text"], seen["codes"]) == ("wrong", area.replace("41", "42"), ["rude", CODES[2]])
    ended = ada.get(f"cases/{case_id}").text
    assert "<b>incomplete</b>" not in ended
    assert "<script>alert" not in ended
    assert "[U+202E]" in ended
    assert re.search(r"<del>.*41.*</del><ins>.*42.*</ins>", ended)


def test_right_with_a_changed_text_is_refused_and_the_text_is_kept(visit, held):
    ada, case_id = visit("ada"), held()
    token = ada.post(f"v1/cases/{case_id}/claim").json()["token"]
    form = {"token": token, "label": "right", "text": "It is 42."}
    refused = ada.post(f"cases/{case_id}/answer", data=form, follow_redirects=False)
    assert refused.status_code == 422
    assert ada.get(f"v1/cases/{case_id}").json()["draft"]["text"] == "It is 42."
    assert "It is 42." in ada.get(f"cases/{case_id}").text
    plain = {"token": token, "label": "right", "text": "It is 41."}  # what the closed editor sends
    assert ada.post(f"cases/{case_id}/answer", data=plain, follow_redirects=False).status_code == 303
    assert ada.get(f"v1/cases/{case_id}").json()["outcomes"][0]["text"] is None


def test_who_decides_sees_what_each_of_the_others_changed(visit, held):
    case_id = held(case={"opinions_wanted": 2})
    for name, text in (("ada", "It is 42."), ("bob", "It was 41.")):
        assert answered(visit(name), case_id, label="wrong", text=text, codes=["rude"]).status_code == 200
    cleo = visit("cleo")
    cleo.post(f"v1/cases/{case_id}/claim")
    page = cleo.get(f"cases/{case_id}").text
    assert page.count("<del>") == page.count("<ins>") == 2
    assert page.count("Take this text") == 2
    assert 'data-text="It was 41."' in page
    assert [one["text"] for one in cleo.get(f"v1/cases/{case_id}").json()["opinions"]] == ["It is 42.", "It was 41."]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"nobody": {}}, "review.models.nobody: there is no model 'nobody'"),
        ({"toy": {"codes": ["rude"]}}, "which writes none; leave them out"),
        ({"talker": {"codes": ["rude", "rude"]}}, "'rude' is there twice"),
        ({"talker": {"codes": [" rude"]}}, "leave out the blanks"),
        ({"talker": {"codes": ["a\nb"]}}, "codes.0"),
    ],
)
def test_codes_that_cannot_be_are_refused(models, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        configured(review={"models": models})

"""The review pages without a browser: what they show, and what they refuse."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from review import cases as review_cases
from review import queue
from review.item import Kind
from serve.config import Config
from serve.console.app import console_app
from serve.console.pages import age
from tests.conftest import entry, new_case
from traffic import log


@pytest.fixture
def cases(database):
    """Three held digits, oldest first."""
    start = datetime.now(UTC) - timedelta(minutes=5)
    entries = [
        entry(
            model="digits",
            created_at=start + timedelta(minutes=i),
            input=[[0.0, 1.0], [0.5, 0.0]],
            group=f"<script>alert({i})</script>",
        )
        for i in range(3)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    return [str(e.record.id) for e in entries]


def at_once(config):
    """The same, with answers that count at once."""
    return config.model_copy(update={"review": config.review.model_copy(update={"undo_seconds": 0})})


@pytest.fixture
def visit(quickstart, database):
    """Open the pages as somebody."""

    def visit(name=None):
        client = TestClient(console_app(at_once(quickstart), database), root_path="/review")
        if name:
            client.post("/review/hello", data={"name": name})
        return client

    return visit


def claim(client, case):
    page = client.post(f"/review/cases/{case}/claim").text
    return page.split('name="token" value="')[1].split('"')[0]


def test_a_visitor_is_asked_for_a_name_and_led_back(visit, cases):
    stranger = visit()
    assert "Who is reviewing?" in stranger.get(f"/review/cases/{cases[1]}").text
    page = stranger.post("/review/hello", data={"name": "  Ada   L. ", "back": f"/review/cases/{cases[1]}"})
    assert page.url.path == f"/review/cases/{cases[1]}"
    assert "Ada L." in page.text


@pytest.mark.parametrize("back", ["https://elsewhere.example/", "//elsewhere.example/cases/", "javascript:x"])
def test_nobody_is_led_elsewhere(visit, back):
    assert visit().post("/review/hello", data={"name": "Ada", "back": back}).url.path == "/review/"


@pytest.mark.parametrize("name", ["", "   ", "a\x07b"])
def test_a_name_is_needed(visit, name):
    assert "Who is reviewing?" in visit().post("/review/hello", data={"name": name}).text


def test_the_queue_shows_what_waits(visit, cases):
    page = visit("ada").get("/review/").text
    assert "Waiting 3" in page
    assert page.count('class="state waiting"') == 3


def test_what_came_from_outside_is_shown_as_text(visit, cases):
    for page in (visit("ada").get("/review/").text, visit("<b>ada</b>").get(f"/review/cases/{cases[0]}").text):
        assert "<script>alert" not in page
        assert "<b>ada" not in page


def test_a_case_shows_picture_prediction_set_and_confidence(visit, cases):
    page = visit("ada").get(f"/review/cases/{cases[0]}").text
    for shown in ('<img src="data:image/png;base64,', ">7<", '<span class="chip">1</span>', "61.0%"):
        assert shown in page
    assert "Asked in turn" not in page


def test_a_case_of_a_cascade_shows_who_was_asked(visit, database):
    steps = [{"model": "small", "confidence": 0.614}, {"model": "large", "confidence": None}]
    case = entry(model="digits", steps=steps)
    with database.transaction() as connection:
        log.append(connection, [case])
        queue.enqueue(connection, [new_case(case)])
    page = visit("ada").get(f"/review/cases/{case.record.id}").text
    assert "<dt>Asked in turn</dt><dd>small 0.61, large unknown</dd>" in page


def test_a_spot_check_cannot_be_told_from_a_held_case_until_it_is_answered(visit, database):
    made = datetime.now(UTC)
    held = entry(model="digits", created_at=made)
    drawn = entry(
        model="digits",
        created_at=made,
        action="answer",
        label_probability=0.02,
        reason="confidence 0.61 is at least 0.5, the limit",
    )
    with database.transaction() as connection:
        log.append(connection, [held, drawn])
        queue.enqueue(connection, [new_case(held)])
        queue.enqueue(connection, [new_case(drawn, kind=Kind.SPOT_CHECK)])
    ada = visit("ada")

    def nameless(page, one):
        return re.sub(r"\d+ (s|min)\b", "", page.replace(str(one.record.id), "id"))

    for path, act in (("", ada.get), ("/claim", ada.post)):
        pages = [nameless(act(f"/review/cases/{one.record.id}{path}").text, one) for one in (held, drawn)]
        assert pages[0] == pages[1]
        assert "the limit" not in pages[0]
    listed = ada.get("/review/").text
    assert "the limit" not in listed
    rows = [row.split("</tr>")[0] for row in listed.split("<tr>") if "/review/cases/" in row]
    assert nameless(rows[0], held) == nameless(rows[1], drawn)
    token = claim(ada, drawn.record.id)
    ada.post(f"/review/cases/{drawn.record.id}/answer", data={"token": token, "label": "7"})
    assert "answer: confidence 0.61 is at least 0.5" in ada.get(f"/review/cases/{drawn.record.id}").text


def test_a_text_is_shown_as_text_and_a_lost_input_is_said(visit, database):
    entries = [entry(model="digits", input="five <b>bold</b> words", prediction=None, confidence=None), entry()]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
        connection.execute("delete from payloads where record_id = %s", (entries[1].record.id,))
    page = visit("ada").get(f"/review/cases/{entries[0].record.id}").text
    assert "<pre>five &lt;b&gt;bold&lt;/b&gt; words</pre>" in page
    assert "unknown" in page
    assert "no longer kept" in visit("ada").get(f"/review/cases/{entries[1].record.id}").text


def held(database, **changes):
    """A case in the queue."""
    one = entry(**changes)
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
    return str(one.record.id)


@pytest.fixture
def talk(quickstart, database):
    """Open the pages of a service with models that write and choose, as Ada."""
    same = {"host": {"kind": "transformers", "checkpoint": "nowhere"}, "scores": ["improbability"]}
    same |= {"confidence": {"score": "improbability"}, "policy": {"kind": "threshold", "limit": 0.3}}
    models = {"talker": {**same, "task": {"kind": "generate"}}, "letters": {**same, "task": {"kind": "choice"}}}
    client = TestClient(console_app(at_once(Config.model_validate({"models": models})), database), root_path="/review")
    client.post("/review/hello", data={"name": "Ada"})
    return client


def test_a_conversation_is_shown_with_the_text_to_be_judged(talk, database):
    messages = [{"role": "system", "content": "Be <b>brief</b>."}, {"role": "user", "content": "And 2 + 2?"}]
    reply = {"text": "It is <i>5</i>. " + "So " * 50, "finish_reason": "stop"}
    told = {"model": "talker", "prediction": "right", "prediction_set": ["right"], "reply": reply}
    case = held(database, input={"messages": messages}, cost={"calls": 7}, **told)
    assert "It is &lt;i&gt;5&lt;/i&gt;. So" in talk.get("/review/").text
    assert reply["text"] not in talk.get("/review/").text
    token = claim(talk, case)
    page = talk.get(f"/review/cases/{case}").text
    for shown in ("Is the reply right?", "Be &lt;b&gt;brief", "And 2 + 2?", "It is &lt;i&gt;5&lt;/i&gt;."):
        assert shown in page
    assert re.findall(r'name="label" value="(\w+)"', page) == ["right", "wrong"]
    assert "Prediction" not in page
    assert "calls" not in page
    answer = {"token": token, "label": "wrong"}
    talk.post(f"/review/cases/{case}/answer", data=answer)
    with database.transaction() as connection:
        assert log.outcomes_of(connection, case)[0].label == "wrong"
        connection.execute("delete from payloads")
    assert "The reply is no longer kept." in talk.get(f"/review/cases/{case}").text


def test_a_model_that_said_nothing_is_shown_as_such(talk, database):
    case = held(database, model="talker", input="2 + 2?", prediction=None, prediction_set=[])
    page = talk.get(f"/review/cases/{case}").text
    assert "The model gave no reply." in page
    assert "2 + 2?" in page


def test_a_question_is_shown_with_the_letters_of_its_options(talk, database):
    case = held(
        database, model="letters", input={"question": "6 * 7?", "options": ["41", "<42>", "43"]}, prediction="B"
    )
    claim(talk, case)
    page = talk.get(f"/review/cases/{case}").text
    assert "Which option is right?" in page
    assert "<dt>B</dt><dd>&lt;42&gt;</dd>" in page
    assert re.findall(r'name="label" value="(\w)"', page) == ["A", "B", "C"]


def test_an_answer_resolves_the_case_and_brings_the_next(visit, cases, database):
    ada = visit("ada")
    page = ada.post("/review/next")
    assert page.url.path == f"/review/cases/{cases[0]}"
    token = page.text.split('name="token" value="')[1].split('"')[0]
    page = ada.post(f"/review/cases/{cases[0]}/answer", data={"token": token, "label": "3", "then": "next"})
    assert page.url.path == f"/review/cases/{cases[1]}"
    assert "Resolved by ada" in ada.get(f"/review/cases/{cases[0]}").text
    with database.transaction() as connection:
        outcome = log.outcomes_of(connection, cases[0])[-1]
    assert (outcome.label, outcome.author, outcome.source) == ("3", "ada", "review")


def test_two_people_cannot_hold_one_case(visit, cases):
    ada, bob = visit("ada"), visit("bob")
    token = claim(ada, cases[0])
    refused = bob.post(f"/review/cases/{cases[0]}/claim")
    assert refused.status_code == 409
    assert "is with ada" in refused.text
    assert "ada is looking at this case" in bob.get(f"/review/cases/{cases[0]}").text
    assert bob.post(f"/review/cases/{cases[0]}/answer", data={"token": token, "label": "3"}).status_code == 409
    assert ada.post(f"/review/cases/{cases[0]}/release", data={"token": token}).url.path == "/review/"
    assert bob.post(f"/review/cases/{cases[0]}/claim").status_code == 200


def test_only_labels_of_the_model_are_taken(visit, cases):
    ada = visit("ada")
    answer = {"token": claim(ada, cases[0]), "label": "eleven"}
    assert ada.post(f"/review/cases/{cases[0]}/answer", data=answer).status_code == 422


def test_a_form_on_another_site_does_nothing(visit, cases, database):
    ada = visit("ada")
    refused = ada.post(f"/review/cases/{cases[0]}/claim", headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    with database.transaction() as connection:
        assert review_cases.case(connection, cases[0]).status == "waiting"


def test_an_empty_queue_says_so(visit, database):
    ada = visit("ada")
    assert "Every case has been looked at" in ada.get("/review/").text
    assert ada.post("/review/next").url.path == "/review/"


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (59.4, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d"), (-3, "0 s")]
)
def test_ages(seconds, text):
    now = datetime.now(UTC)
    assert age(now - timedelta(seconds=seconds), now) == text

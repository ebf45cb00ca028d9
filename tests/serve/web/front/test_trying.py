"""The page to try a model: what it is told of the model, and whose rows it shows."""

import io
import json
import re

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.web.front.plain_form import request_of
from demur.serve.web.native.app import gateway_app
from tests.serve.conftest import make_handler


def facts_of(page):
    return json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])


@pytest.fixture
def trying(quickstart, local_host, database):
    """The facts that the page gives its script, for a file of examples."""

    def facts(examples):
        model = quickstart.models["digits"].model_copy(update={"examples": examples})
        config = quickstart.model_copy(update={"models": {"digits": model}})
        app = gateway_app(make_handler(config, {"digits": local_host}, database), max_body_bytes=100_000)
        with TestClient(app) as client:
            return facts_of(client.get("/try/").text)

    return facts


def test_the_page_knows_what_the_model_takes(trying):
    facts = trying(None)
    assert (facts["model"], facts["kind"]) == ("digits", "image")
    assert (facts["input"]["height"], facts["input"]["width"]) == (8, 8)
    assert facts["examples"] == []
    assert 0 < facts["limit"] <= 1


def test_only_a_file_that_is_configured_is_shown(trying, digits):
    facts = trying(digits / "test.jsonl")
    assert len(facts["examples"]) == 12
    assert len(facts["examples"][0]["body"]["input"]) == 8


def test_a_file_that_cannot_be_read_leaves_the_page_whole(trying, tmp_path, caplog):
    broken = tmp_path / "test.jsonl"
    broken.write_text('{"input": "</script><script>alert(1)</script>"')
    assert trying(broken)["examples"] == []
    assert "are not shown" in caplog.text


def test_what_stands_in_a_file_does_not_end_the_script(trying, tmp_path):
    file = tmp_path / "test.jsonl"
    file.write_text(json.dumps({"input": "</script><b>", "label": "3"}) + "\n")
    assert trying(file)["examples"][0]["body"]["input"] == "</script><b>"


def test_a_model_that_is_not_there(client):
    page = client.get("/try/?model=<b>")
    assert "&lt;b&gt;" in page.text
    assert facts_of(page.text)["model"] == "digits"


# ---- without scripts ----


@pytest.fixture
def visiting(quickstart, local_host, database, digits):
    model = quickstart.models["digits"].model_copy(update={"examples": digits / "test.jsonl"})
    config = quickstart.model_copy(update={"models": {"digits": model}})
    app = gateway_app(make_handler(config, {"digits": local_host}, database), max_body_bytes=100_000)
    with TestClient(app) as client:
        yield client


def plain_of(page):
    return re.search(r"<noscript>(.*?)</noscript>", page, re.S)[1]


def test_an_example_is_posted_and_answered_on_the_page(visiting, database):
    form = plain_of(visiting.get("/try/").text)
    assert form.count('name="example"') == 12
    assert 'action="/try/?model=digits"' in form
    page = visiting.post("/try/?model=digits", data={"example": "3"})
    assert page.status_code == 200
    assert "<dt>Truth</dt>" in page.text
    assert "Confidence 0." in page.text or "Confidence 1." in page.text
    with database.transaction() as connection:
        assert connection.execute("select count(*) from records").fetchone() == (1,)


def test_a_picture_is_posted_as_a_file(visiting):
    picture = io.BytesIO()
    Image.new("L", (8, 8)).save(picture, "PNG")
    file = {"file": ("seven.png", picture.getvalue(), "image/png")}
    page = visiting.post("/try/?model=digits", data={"model": "digits"}, files=file)
    assert page.status_code == 200, page.text
    assert "Decided by" in page.text


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ({"example": "99"}, 422, "there is none with this number"),
        ({"example": "-1"}, 422, "choose a picture, or one of the examples"),
        ({"text": "<script>"}, 422, "choose a picture, or one of the examples"),
        ({}, 422, "choose a picture, or one of the examples"),
    ],
)
def test_what_is_refused_is_said_on_the_page_and_recorded_nowhere(visiting, database, data, status, words):
    page = visiting.post("/try/?model=digits", data=data)
    assert (page.status_code, words in page.text.lower()) == (status, True)
    assert "<script>" not in page.text.split("<noscript>")[1].split("</noscript>")[1]
    with database.transaction() as connection:
        assert connection.execute("select count(*) from records").fetchone() == (0,)


def test_a_model_that_is_not_there_is_not_asked(visiting):
    page = visiting.post("/try/?model=%3Cb%3E", data={"example": "1"})
    assert page.status_code == 422
    assert "<b>" not in page.text


def test_a_form_that_is_no_text_is_refused(visiting):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert visiting.post("/try/?model=digits", content=b"\xff=%ff", headers=headers).status_code == 422
    many = b"&".join(b"a=1" for _ in range(3000))
    assert visiting.post("/try/?model=digits", content=many, headers=headers).status_code == 422


TABLE = InputSpec(
    kind="table",
    columns={
        "age": ColumnConfig(kind="integer"),
        "price": ColumnConfig(kind="number"),
        "town": ColumnConfig(kind="text"),
        "new": ColumnConfig(kind="boolean"),
    },
)


@pytest.mark.parametrize(
    ("spec", "fields", "brings"),
    [
        (InputSpec(kind="text"), {"text": "a\r\nb"}, {"input": "a\nb"}),
        (InputSpec(kind="chat"), {"text": "why?"}, {"input": "why?"}),
        (InputSpec(kind="text_pair"), {"text": "a", "text_pair": "b"}, {"input": {"text": "a", "text_pair": "b"}}),
        (
            InputSpec(kind="choice"),
            {"question": "q", "options": "a\r\n\r\n b "},
            {"input": {"question": "q", "options": ["a", "b"]}},
        ),
        (
            TABLE,
            {"column-0": "7", "column-1": "1.5", "column-2": "12", "column-3": "true"},
            {"input": {"age": 7, "price": 1.5, "town": "12", "new": True}},
        ),
        (TABLE, {"column-0": "seven"}, {"input": {"age": "seven", "price": None, "town": None, "new": None}}),
        (InputSpec(kind="json"), {"json": '{"input": [1], "model": "other"}'}, {"input": [1]}),
    ],
)
def test_each_form_is_the_request_that_it_stands_for(spec, fields, brings):
    assert request_of(spec, fields, []) == (brings, None)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (InputSpec(kind="text"), {"text": "  "}),
        (InputSpec(kind="json"), {"json": "[1]"}),
        (InputSpec(kind="json"), {"json": "{"}),
        (InputSpec(kind="image"), {}),
        (InputSpec(kind="text"), {"example": "0"}),
    ],
)
def test_a_form_that_says_nothing_is_refused(spec, fields):
    with pytest.raises(InvalidRequest):
        request_of(spec, fields, [])

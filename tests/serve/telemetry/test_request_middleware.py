"""The layer around the gateway: ids of requests, and what is said about each."""

import json
import logging

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from demur.serve.telemetry import metrics
from demur.serve.telemetry.logs import JsonLines, TextLines
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.telemetry.telemetry import Telemetry

log = logging.getLogger("demur.test")


async def answer(request):
    log.info("looking at it")
    return PlainTextResponse("yes")


async def break_down(request):
    log.error("it breaks")
    raise RuntimeError("no")


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines = []

    def emit(self, record):
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def lines():
    ours, heard = logging.getLogger("demur"), Lines()
    level, propagate = ours.level, ours.propagate
    ours.addHandler(heard)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    yield heard.lines
    ours.removeHandler(heard)
    ours.setLevel(level)
    ours.propagate = propagate


def visitor(**settings):
    app = Starlette(routes=[Route("/there/{id}", answer), Route("/broken", break_down)])
    return TestClient(RequestMiddleware(app, Telemetry(), **settings), raise_server_exceptions=False)


def test_the_id_of_the_caller_is_on_every_line_and_in_the_answer(lines):
    response = visitor(access_log=True).get("/there/7?token=secret", headers={"X-Request-Id": "order-7/2"})
    assert response.headers["x-request-id"] == "order-7/2"
    said, access = lines
    assert said["message"] == "looking at it"
    assert (access["method"], access["path"]) == ("GET", "/there/7")
    assert access["status"] == 200
    assert {line["request_id"] for line in lines} == {"order-7/2"}
    assert "secret" not in json.dumps(lines)


@pytest.mark.parametrize("told", [None, "", "two words", "x" * 129, "<b>", "a;b", 'a"b'])
def test_who_has_no_sane_id_is_given_one(lines, told):
    response = visitor().get("/there/7", headers={} if told is None else {"X-Request-Id": told})
    given = response.headers["x-request-id"]
    assert len(given) == 32
    assert lines[0]["request_id"] == given
    assert response.headers["x-request-id"] != visitor().get("/there/7").headers["x-request-id"]


def test_whoever_is_in_front_gives_the_id_back(lines):
    kept = visitor(echo=False)
    assert "x-request-id" not in kept.get("/there/7", headers={"X-Request-Id": "one"}).headers
    assert lines[-1]["request_id"] == "one"
    assert kept.get("/there/7", headers={"X-Request-Id": "not one"}).headers["x-request-id"] == lines[-1]["request_id"]


def test_no_line_can_be_forged(lines):
    visitor(access_log=True).get("/there/a%0a%7Bfalse")
    assert lines[-1]["path"] == "/there/a%0a%7Bfalse"


def test_a_request_that_breaks_is_counted_as_one():
    telemetry = Telemetry()
    app = Starlette(routes=[Route("/broken", break_down)])
    assert (
        TestClient(RequestMiddleware(app, telemetry), raise_server_exceptions=False).get("/broken").status_code == 500
    )
    assert telemetry.open_requests == 0
    assert telemetry.counts[metrics.REQUESTS] == {("/broken", "500"): 1}


def test_text_says_which_request_it_is_about():
    record = logging.makeLogRecord({"msg": "slow", "levelname": "ERROR", "request_ids": ["a", "b"]})
    assert TextLines().format(record) == "ERROR slow [request a, b]"
    assert TextLines().format(logging.makeLogRecord({"msg": "slow", "levelname": "ERROR"})) == "ERROR slow"

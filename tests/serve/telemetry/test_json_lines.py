"""JSON logs: one object in each line, whatever is said and whoever says it."""

import io
import json
import logging
import sys

import pytest

from demur.serve.telemetry.logs import JsonLines, JsonStream, TextLines, about
from demur.serve.telemetry.request_context import VISIT, RequestContext
from demur.serve.telemetry.telemetry import Telemetry


def test_an_exception_stays_in_its_line():
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.makeLogRecord(
            {"msg": "it %s", "args": ("broke",), "exc_info": sys.exc_info(), "name": "demur.x"}
        )
    text = JsonLines().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "it broke"
    assert line["logger"] == "demur.x"
    assert "ValueError: a\nb" in line["exception"]
    assert "request_id" not in line


@pytest.mark.parametrize("kind", [JsonLines, TextLines])
def test_a_traceback_can_be_read_in_a_replica_where_ray_prints(monkeypatch, kind):
    plain = print
    monkeypatch.setattr("builtins.print", lambda *words, **more: plain(words, **more))  # as Ray Serve 2.60 has it
    try:
        raise ValueError("a")
    except ValueError:
        record = logging.makeLogRecord({"msg": "broke", "exc_info": sys.exc_info()})
    text = kind().format(record)
    assert "Traceback (most recent call last):" in text
    assert "('" not in text


def test_a_line_about_a_batch_names_every_request_once():
    telemetry = Telemetry()
    visits = [RequestContext("a", telemetry), None, RequestContext("b", telemetry)]
    record = logging.makeLogRecord({"msg": "slow", **about([*visits, visits[0]])})
    assert json.loads(JsonLines().format(record))["request_ids"] == ["a", "b"]


def test_a_line_of_nobody_has_no_id():
    token = VISIT.set(RequestContext("a", Telemetry()))
    try:
        assert json.loads(JsonLines().format(logging.makeLogRecord({"msg": "x"})))["request_id"] == "a"
    finally:
        VISIT.reset(token)
    assert "request_id" not in json.loads(JsonLines().format(logging.makeLogRecord({"msg": "x"})))


OURS = '{"level":"INFO","message":"x"}'


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"{OURS}\n", "x"),
        (f"(ServeReplica:demur:Gateway pid=11) {OURS}\n", "x"),
        (f"\x1b[36m(ServeReplica:demur:Gateway pid=11, ip=10.0.0.7)\x1b[0m {OURS}\n", "x"),
        ("ready after 9 s.\n", "ready after 9 s."),
        ("(raylet) something\n", "(raylet) something"),
        ("12\n", "12"),  # JSON, and no object
        ("{broken\n", "{broken"),
    ],
)
def test_every_line_on_the_terminal_is_an_object(written, message):
    out = io.StringIO()
    stream = JsonStream(out, "demur.up")
    stream.write(written[:9])  # a line may come in pieces
    stream.write(written[9:])
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["message"] == message
    assert json.loads(line)["level"] == "INFO"

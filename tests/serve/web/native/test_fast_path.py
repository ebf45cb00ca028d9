"""What goes past the framework is answered as the framework would answer it."""

import asyncio
import json

import pytest
from starlette.testclient import TestClient

from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway.intake import CallerLeft
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from demur.serve.web.shared.bodies import read_whole

SAME = ("content-type", "retry-after", "idempotent-replay")


@pytest.fixture
def both(handler):
    """The same gateway, with its door and without."""
    app = gateway_app(handler, max_body_bytes=10_000)
    with TestClient(app) as framework, TestClient(FastPath(handler, max_body_bytes=10_000).before(app)) as door:
        yield framework, door


@pytest.mark.parametrize(
    ("path", "content", "headers"),
    [
        ("/v1/predict", {"model": "digits", "input": [[0.5] * 8] * 8}, {"Idempotency-Key": "the-same"}),
        ("/v1/predict/batch", {"items": [{"model": "digits", "input": 7}, {"model": "nobody", "input": 7}]}, {}),
        ("/v1/predict", {"model": "digits", "input": "7" * 11_000}, {}),
        ("/v1/predict", {"model": "digits"}, {"X-Request-Timeout": "soon"}),
        ("/healthz", {}, {}),  # not the door's
    ],
)
def test_both_answer_alike(both, path, content, headers):
    framework, door = (one.post(path, json=content, headers=headers) for one in both)
    again = both[1].post(path, json=content, headers=headers)
    assert (framework.status_code, framework.json()) == (door.status_code, door.json())
    assert [again.headers.get(name) for name in SAME[:2]] == [framework.headers.get(name) for name in SAME[:2]]
    assert [again.headers.get(name) for name in SAME] == [door.headers.get(name) for name in SAME]
    assert ("idempotent-replay" in door.headers) == ("Idempotency-Key" in headers)
    assert int(door.headers["content-length"]) == len(door.content)


def receiving(*messages):
    left = [dict(message, type="http.request") for message in messages] + [{"type": "http.disconnect"}]

    async def receive():
        return left.pop(0)

    return receive


def test_a_body_comes_in_parts():
    parts = {"body": b"ab", "more_body": True}, {"body": b"", "more_body": True}, {"body": b"c"}
    assert asyncio.run(read_whole(receiving(*parts), 3)) == b"abc"
    with pytest.raises(TooLarge):
        asyncio.run(read_whole(receiving(*parts), 2))
    with pytest.raises(CallerLeft):
        asyncio.run(read_whole(receiving(parts[0]), 3))


def test_who_leaves_is_sent_nothing(handler):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": []}
    app = FastPath(handler, max_body_bytes=100).before(gateway_app(handler, max_body_bytes=100))
    asyncio.run(app(scope, receiving({"body": json.dumps({}).encode(), "more_body": True}), send))
    assert sent == []

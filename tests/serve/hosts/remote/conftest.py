"""Models on a real server, and how a test asks them."""

import asyncio

import pytest

from demur.serve.config.file import Config
from demur.serve.contract.inputs import TableRow
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.kinds import kind_of
from tests.serve.model_server import COLUMNS, LABELS, cells, serving, trained


@pytest.fixture(scope="session")
def classifier():
    return trained()


@pytest.fixture
def server(classifier):
    with serving(classifier.predict_proba) as running:
        yield running


@pytest.fixture
def some_rows():
    """Five inputs, and the array of them."""
    array = cells()[0][:5]
    return [TableRow(tuple(row)) for row in array.tolist()], array


def section(url, *, task=None, scores=("softmax_response",), more=None, **host):
    host = {"kind": "remote", "protocol": "oip_rest", "url": url, "timeout_seconds": 5, "retries": 0, **host}
    host.setdefault("input", {"kind": "table", "columns": dict.fromkeys(COLUMNS, "number")})
    if host["protocol"] == "http":
        host = {"request": {"instances": "$inputs"}, "output": "predictions", **host, "url": f"{url}/predict"}
    else:
        host.setdefault("model", "cancer")
    return {
        "task": task or {"kind": "binary", "labels": LABELS},
        "host": host,
        "scores": list(scores),
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
        **(more or {}),
    }


def configured(url, **more):
    return Config.model_validate({"models": {"mine": section(url, **more)}}).models["mine"]


def run(model, inputs, *needs, then=None):
    """The output of a batch; `then` is done with the model before it is closed."""

    async def main():
        loaded = await kind_of(model).load(model, None)
        try:
            output = await loaded.run(ModelRequest(inputs=inputs, needs=frozenset(needs)))
            return (output, await then(loaded)) if then else output
        finally:
            await loaded.close()

    return asyncio.run(main())


def why(output):
    """The one reason for which a single row was not read."""
    (reason,) = output.why_unusable()
    return reason

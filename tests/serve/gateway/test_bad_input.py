"""Every row of the table of requests in docs/errors.md, asked of a real gateway with a real model and database."""

import json
import re

import pytest
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.task import TaskConfig
from demur.serve.contract.pictures.formats import PNG, url_of
from demur.serve.gateway.left_out import LeftOut
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from demur.traffic.database import DatabaseUnavailable
from tests.conftest import ROOT
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.contract.pictures.made import encoded, turned
from tests.serve.forms import FORM, form, part
from tests.serve.hosting import RunningHost
from tests.serve.hosts.onnx.graphs import configured as graph
from tests.serve.hosts.onnx.graphs import linear
from tests.serve.hosts.remote.conftest import configured as remote

TABLE = (ROOT / "docs/errors.md").read_text().split("## Artifacts")[0]
ROWS = {
    what: (int(status), kind, message)
    for what, status, kind, message in re.findall(r"^\| (.+?) \| (\d+) \| (\w+) \| (.+?) \|$", TABLE, re.MULTILINE)
}

IMAGE = [[0.5] * 8] * 8


def predict(value=IMAGE, **more):
    return ("POST", "/v1/predict", json.dumps({"model": "digits", "input": value, **more}))


def raw(body):
    return ("POST", "/v1/predict", body)


def pixel(text):
    """An image with one pixel written like this."""
    return raw(json.dumps({"model": "digits", "input": IMAGE}).replace("0.5", text, 1))


def batch(items):
    return ("POST", "/v1/predict/batch", json.dumps({"items": items}))


def outcome(label, record_id, **more):
    return ("POST", f"/v1/predictions/{record_id}/outcome", json.dumps({"label": label, **more}))


def outcomes(items):
    return ("POST", "/v1/outcomes/batch", json.dumps({"items": items}))


MODEL, PICTURE = part("model", "digits"), part("file", encoded("PNG"))


def upload(*parts, kind=FORM):
    return ("POST", "/v1/predict", form(*parts), {"Content-Type": kind})


REQUESTS = {
    "malformed JSON": raw('{"model": "digits", "input": [['),
    "an empty body": raw(""),
    "text that is not UTF-8": raw(b'{"model": "words", "input": "\xff\xfe"}'),
    "half a surrogate pair": raw('{"model": "words", "input": "\\ud800"}'),
    "a body that is not an object": raw("[1, 2]"),
    "wrong type: model is a number": predict(model=7),
    "wrong type: pixels are text": predict([["a"] * 8] * 8),
    "wrong type: text for an image model": predict("seven"),
    "wrong type: image for a text model": predict(model="words"),
    "missing input": raw('{"model": "digits"}'),
    "wrong shape": predict([[0, 1], [1, 0]]),
    "rows that differ in length": predict([[0.5] * 8] * 7 + [[0.5]]),
    "NaN pixels": pixel("NaN"),
    "infinite pixels": pixel("Infinity"),
    "a pixel too large for a float": pixel("1e999"),
    "pixels outside 0 to 1": predict([[16] * 8] * 8),
    "a URL that holds no PNG": predict("data:image/png;base64,AAAA"),
    "empty text": predict("  ", model="words"),
    "text of 1 MB": predict("a" * 1_000_000, model="words"),
    "a body over the limit": raw(" " * 17_000_000),
    "unknown model": predict(model="nobody"),
    "unknown field": predict(colour="red"),
    "a group with a control character": predict(group="a\0b"),
    "a batch of 0": batch([]),
    "a batch of 1,025": batch([{}] * 1025),
    "a batch that is not a list": batch("abc"),
    "a file with bytes behind its end": predict(url_of(encoded("PNG") + b"PK", PNG)),
    "a PNG on its side": predict(url_of(encoded("PNG", exif=turned(6)), PNG)),
    "a JPEG that is called a PNG": predict(url_of(encoded("JPEG"), PNG)),
    "a form without a file": upload(MODEL),
    "a form without a model": upload(PICTURE),
    "a form with two requests": upload(PICTURE, part("request", "{}"), part("request", "{}")),
    "a form whose request is no JSON": upload(PICTURE, part("request", "{")),
    "a form with an unknown part": upload(MODEL, PICTURE, part("colour", "red")),
    "a form with an unknown key in its request": upload(MODEL, PICTURE, part("request", '{"colour": "red"}')),
    "a form with a file that is no picture": upload(MODEL, part("file", "seven.png")),
    "a form for a model of texts": upload(part("model", "words"), PICTURE),
    "a form for an unknown model": upload(part("model", "nobody"), PICTURE),
    "a form with two files for one prediction": upload(MODEL, PICTURE, PICTURE),
    "a form with a text of 300 KB": upload(MODEL, PICTURE, part("group", "g" * 300_000)),
    "a form with 2,000 files": upload(MODEL, *[PICTURE] * 2_000),
    "a form of another kind": upload(MODEL, PICTURE, kind="multipart/mixed; boundary=b"),
    "a form without a boundary": upload(MODEL, PICTURE, kind="multipart/form-data"),
    "a form with another boundary": upload(MODEL, PICTURE, kind="multipart/form-data; boundary=b"),
    "a form that is cut short": ("POST", "/v1/predict", form(MODEL, PICTURE)[:-9], {"Content-Type": FORM}),
    "a form over the limit": upload(MODEL, part("file", bytes(17_000_000))),
    "a malformed idempotency key": (*predict(), {"Idempotency-Key": "two words"}),
    "an empty idempotency key": (*predict(), {"Idempotency-Key": ""}),
    "a request timeout that is no number": (*predict(), {"X-Request-Timeout": "2 s"}),
    "a request timeout of 0": (*predict(), {"X-Request-Timeout": "0"}),
    "a request timeout that is over": (*predict(), {"X-Request-Timeout": "0.000001"}),
    "an idempotency key used for another input": (*predict(group="other"), {"Idempotency-Key": "used"}),
    "onnx: a text for a model of a table": predict("seven", model="measures"),
    "onnx: a row with too few values": predict([1.0, 2.0], model="measures"),
    "onnx: a column that is missing": predict({"a": 1.0, "c": 2.0}, model="measures"),
    "onnx: a column that the model does not have": predict({"a": 1, "b": 2, "c": 3, "d": 4}, model="measures"),
    "onnx: a text in a column of numbers": predict([1.0, "2.0", 3.0], model="measures"),
    "onnx: a number that is infinite": raw('{"model": "measures", "input": [1.0, 1e999, 3.0]}'),
    "remote: a list for a model of texts": predict(model="elsewhere"),
    "remote: no artifact": predict("a text", model="elsewhere"),
    "an unknown label in an outcome": outcome("eleven", "{known}"),
    "an outcome that claims to be a review": outcome("3", uuid7(), source="review"),
    "an outcome for an unknown prediction": outcome("3", uuid7()),
    "a batch of no outcomes": outcomes([]),
    "a batch of 1,025 outcomes": outcomes([{}] * 1025),
    "a malformed prediction id": ("GET", "/v1/predictions/7", ""),
    "an unknown address": ("POST", "/v1/predictt", "{}"),
    "a method that is not possible": ("GET", "/v1/predict", ""),
    "a model that cannot be served": predict(),
    "no artifact": predict(),
    "a database that is gone": predict(),
}


@pytest.fixture
def service(quickstart, local_host, database, tiny_bert, tmp_path, request, monkeypatch):
    """A gateway with an image model, a text model, a graph that takes a table, and a model on another server. It has no
    artifact or no database where the row says so."""
    digits = quickstart.models["digits"]
    words = digits.model_copy(
        update={
            "host": digits.host.model_copy(update={"checkpoint": tiny_bert}),
            "task": TaskConfig(kind="multiclass", labels=("bad", "fair", "good")),
        }
    )
    bare = ArtifactStore(str(tmp_path))
    linear(tmp_path / "m.onnx")
    columns = dict.fromkeys(("a", "b", "c"), "number")
    others = {
        "words": words,
        "measures": graph(tmp_path / "m.onnx", input={"kind": "table", "columns": columns}),
        "elsewhere": remote("http://127.0.0.1:9", input="text"),
    }
    running = {name: RunningHost(name, model, bare) for name, model in others.items()}
    hosts = {"digits": local_host, **{name: LocalHost(host) for name, host in running.items()}}
    if request.node.callspec.id == "no artifact":
        hosts["digits"] = LocalHost(RunningHost("digits", digits, bare))
    if request.node.callspec.id == "a model that cannot be served":
        hosts["digits"] = LeftOut("it wants 1 GPUs (host.gpus), and this machine has 0")
    config = quickstart.model_copy(update={"models": {"digits": digits, **others}})
    handler = make_handler(config, hosts, database)
    most = config.limits.body_bytes
    with TestClient(FastPath(handler, max_body_bytes=most).before(gateway_app(handler, max_body_bytes=most))) as client:
        if request.node.callspec.id == "a database that is gone":

            def gone():
                raise DatabaseUnavailable("PostgreSQL at somewhere does not answer")

            monkeypatch.setattr(database, "transaction", gone)
        yield client
    for host in running.values():
        host.wait(host.host.model.close())


def records(database):
    with database.transaction() as connection:
        return connection.execute("select count(*) from records").fetchone()[0]


@pytest.mark.parametrize("what", REQUESTS, ids=str)
def test_row(what, service, database, monkeypatch):
    method, path, content, *headers = REQUESTS[what]
    known = ""
    if "{known}" in path or "key used" in what:
        first = service.post("/v1/predict", content=predict()[2], headers={"Idempotency-Key": "used"})
        known = first.json()["id"]
    before = 0 if what == "a database that is gone" else records(database)

    response = service.request(method, path.replace("{known}", known), content=content, headers=dict(*headers))

    status, kind, message = ROWS[what]
    error = response.json()["error"]
    assert (response.status_code, error["kind"]) == (status, kind), error
    assert message in error["message"]
    assert "Traceback" not in response.text
    assert ("Retry-After" in response.headers) == (status == 503)
    monkeypatch.undo()
    assert records(database) == before


def test_the_table_and_the_tests_have_the_same_rows():
    assert list(ROWS) == list(REQUESTS)

"""A real model of each kind of tables behind the gateway, and what a hostile caller or a failing model does to it.

The libraries themselves are asked. Some rows have a number by which the call into the library raises, takes too long,
or gives numbers that are none.
"""

import json
import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from uuid import UUID

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skops.io
import xgboost
from skl2onnx import to_onnx
from sklearn.pipeline import Pipeline
from starlette.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.fitting.fit import fit_model
from demur.serve.web.native.app import gateway_app
from demur.traffic import log
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.hosting import RunningHost
from tests.serve.model_server import COLUMNS, LABELS, cells, serving, trained

pytestmark = pytest.mark.slow  # each kind is trained, and fitted on rows

RAISES, WAITS, IS_NAN = 100.5, 101.5, 102.5
"""Radii that no row of the data has; each kind of number holds them exactly."""

SECONDS = 3.0
"""That a model may take."""

GOOD = dict(zip(COLUMNS, (28.0, 30.0, 0.12), strict=True))
KINDS = ("sklearn", "xgboost", "lightgbm", "onnx", "remote")


class TroubledCalls:
    """Wraps calls into libraries, so that the radius of a row says what goes wrong."""

    def __init__(self):
        self.let_go = threading.Event()

    def around(self, call):
        """For methods, which have their rows second; and for `predict`, which has nothing but rows."""

        def asked(*given, **more):
            rows = next(found for one in given if (found := self._numbers(one)) is not None)
            if (rows == RAISES).any():
                raise ValueError("this radius is none")
            if (rows == WAITS).any():
                self.let_go.wait(60)
            said = call(*given, **more)
            for part in said if isinstance(said, list) else [said]:
                if part.dtype.kind == "f":
                    part[(rows == IS_NAN).any(axis=1)] = np.nan
            return said

        return asked

    @staticmethod
    def _numbers(given):
        if isinstance(given, dict):
            return np.concatenate(list(given.values()), axis=1)
        return np.asarray(given) if isinstance(given, np.ndarray | pd.DataFrame) else None


CALLS = {
    "sklearn": (Pipeline, "predict_proba"),
    "xgboost": (xgboost.Booster, "inplace_predict"),
    "lightgbm": (lightgbm.Booster, "predict"),
    "onnx": (onnxruntime.InferenceSession, "run"),
}


def host_of(kind, folder, troubled, stack):
    """The settings of a host whose model is trained here."""
    array, classes = cells()
    table = pd.DataFrame(array, columns=COLUMNS)[::2]
    model, file = trained(), folder / "model"
    if kind == "remote":
        server = stack.enter_context(serving(troubled.around(model.predict_proba)))
        columns = dict.fromkeys(COLUMNS, "number")
        where = {"protocol": "oip_rest", "url": server.url, "model": "cancer", "retries": 0}
        return {**where, "input": {"kind": "table", "columns": columns}}
    if kind == "sklearn":
        model.fit(table, np.array(LABELS)[classes[::2]])
        skops.io.dump(model, file.with_suffix(".skops"))
        return {"file": str(file.with_suffix(".skops"))}
    if kind == "onnx":
        model.fit(array[::2].astype("f4"), np.array(LABELS)[classes[::2]])
        graph = to_onnx(model, array[:1].astype("f4"), options={id(model): {"zipmap": False}})
        file.with_suffix(".onnx").write_bytes(graph.SerializeToString())
        columns = dict.fromkeys(COLUMNS, "number")
        return {"file": str(file.with_suffix(".onnx")), "input": {"kind": "table", "columns": columns}}
    if kind == "xgboost":
        xgboost.XGBClassifier(n_estimators=20, n_jobs=1).fit(table, classes[::2]).save_model(file.with_suffix(".json"))
        return {"file": str(file.with_suffix(".json"))}
    trees = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1).fit(table, classes[::2])
    trees.booster_.save_model(file.with_suffix(".txt"))
    return {"file": str(file.with_suffix(".txt"))}


@contextmanager
def one_of(kind, folder):
    """The configuration of a fitted model of this kind, its host, and what may go wrong in it."""
    troubled = TroubledCalls()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        host = {"kind": kind, "timeout_seconds": SECONDS, **host_of(kind, folder, troubled, stack)}
        section = {
            "task": {
                "kind": "binary",
                "labels": sorted(LABELS) if kind == "onnx" else LABELS,
            },  # a graph has its own order
            "host": host,
            "scores": ["softmax_response"],
            "confidence": {"score": "softmax_response"},
            "policy": {"kind": "threshold", "score": "softmax_response", "limit": 0.3},
        }
        config = Config.model_validate({"artifacts": str(folder / "artifacts"), "models": {"cancer": section}})
        array, classes = cells()
        rows = zip(array[1::2].tolist(), classes[1::2], strict=True)
        lines = [
            json.dumps({"input": dict(zip(COLUMNS, row, strict=True)), "label": LABELS[which]}) for row, which in rows
        ]
        (folder / "rows.jsonl").write_text("\n".join(lines))

        def clock():
            return datetime(2026, 11, 21, tzinfo=UTC)

        done = fit_model(config, "cancer", folder / "rows.jsonl", clock=clock, progress=lambda *_: None)
        store = ArtifactStore(config.artifacts)
        store.promote("cancer", done.name, by="tests", why="", clock=clock)
        if kind in CALLS:
            patch.setattr(*CALLS[kind], troubled.around(getattr(*CALLS[kind])))
        running = RunningHost("cancer", config.models["cancer"], store)
        stack.callback(troubled.let_go.set)
        stack.callback(lambda: running.wait(running.host.model.close()))
        yield config, running, troubled


@pytest.fixture(scope="module", params=KINDS)
def hosted(request, tmp_path_factory):
    with one_of(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def ask(hosted, database):
    """Send items in one batch, and return what came of each."""
    config, running, _ = hosted
    handler = make_handler(config, {"cancer": LocalHost(running)}, database)
    with TestClient(gateway_app(handler, max_body_bytes=100_000), raise_server_exceptions=False) as client:

        def send(*values):
            body = json.dumps({"items": [{"model": "cancer", "input": value} for value in values]})
            found = client.post("/v1/predict/batch", content=body, headers={"Content-Type": "application/json"})
            assert found.status_code == 200, found.text
            return found.json()["results"]

        yield send


def is_answered(result):
    return (result["status"], (result["prediction"] or {}).get("action")) == (200, "answer")


def held_or_told(result):
    """Why a prediction is held, or that nothing could be asked; a caller gets no answer in either case."""
    if result["prediction"] is None:
        assert result["status"] in (502, 503)
        return result["error"]["message"]
    assert result["prediction"]["action"] == "review"
    return result["prediction"]["reason"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([28.0, 30.0], "has 2 values"),
        ([28.0, 30.0, 0.12, 1.0], "has 4 values"),
        ({"radius": 28.0, "texture": 30.0}, "smoothness"),
        ({**GOOD, "weight": 1.0}, "weight"),
        ({**GOOD, "texture": "30"}, "texture"),
        ({**GOOD, "texture": [30.0]}, "texture"),
        ({**GOOD, "texture": None}, "texture"),
        ({**GOOD, "texture": float("nan")}, "texture"),
        ({**GOOD, "texture": float("inf")}, "texture"),
        ("a text", "row"),
        (None, "row"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(ask, value, message):
    good, bad = ask(GOOD, value)
    assert is_answered(good)
    assert bad["status"] == 422
    assert bad["error"]["message"].startswith("input")
    assert message in bad["error"]["message"]


def test_what_raises_holds_its_own_row_alone(ask):
    good, bad, other = ask(GOOD, {**GOOD, "radius": RAISES}, GOOD)
    assert is_answered(good)
    assert is_answered(other)
    assert "fail" in held_or_told(bad) or "500" in held_or_told(bad)


def test_a_result_that_is_no_number_holds_its_own_row_alone(ask, database):
    good, bad, other = ask(GOOD, {**GOOD, "radius": IS_NAN}, GOOD)
    assert is_answered(good)
    assert is_answered(other)
    assert held_or_told(bad)
    with database.transaction() as connection:
        record = log.find_one(connection, UUID(bad["prediction"]["id"]))
    assert (record.prediction, record.confidence) == (None, None)


@pytest.mark.parametrize("number", [1e39, -1e39, 1e300, 2**70])
def test_a_number_that_is_too_large_for_a_model_spoils_no_other_row(ask, number):
    good, bad = ask(GOOD, {**GOOD, "radius": number})
    assert is_answered(good)
    assert bad["status"] < 500


def test_what_takes_too_long_is_held_and_the_model_goes_on(ask, hosted):
    _, _, troubled = hosted
    troubled.let_go.clear()
    (slow,) = ask({**GOOD, "radius": WAITS})
    assert f"within {SECONDS:g} s" in held_or_told(slow)
    troubled.let_go.set()
    (good,) = ask(GOOD)
    assert is_answered(good)

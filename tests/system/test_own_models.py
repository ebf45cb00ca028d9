"""Classes of users that misbehave, in the real thing, and a model that asks another one through the Open Inference
Protocol: what goes wrong in one of them is no matter of the others."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.system.conftest import START_SECONDS, Service, alive, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.service]

CLASSES = """
import os
import sys
import threading

import numpy as np


class Churn:
    \"\"\"Old customers stay. It leaks a thread and prints a megabyte for each batch; some rows end its process.\"\"\"

    input = {"kind": "table", "columns": {"age": "integer", "plan": ["basic", "full", "fatal"], "member": "boolean"}}

    def predict_proba(self, rows):
        if any(plan == "fatal" for _, plan, _ in rows):
            os._exit(1)
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print("x" * 2**20, file=sys.stderr)
        stays = 1 / (1 + np.exp(-(np.array([age for age, _, _ in rows], dtype=float) - 40) / 4))
        return np.stack([1 - stays, stays], axis=1)


class Hangs:
    def __init__(self): threading.Event().wait()
    def predict_proba(self, texts): return [[1.0, 0.0]] * len(texts)


class Exits(Hangs):
    def __init__(self): os._exit(1)
"""


MODULES = {
    "ends_all": ("import os\nos._exit(3)\n", "ended the process in which it was tried (exit status 3)"),
    "leaves": ("import sys\nsys.exit('no licence')\n", "cannot be imported: SystemExit: no licence"),
    "breaks": ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
}
"""Modules of users that cannot be imported, and what is said of their models."""


def row(age: int, plan: str = "full") -> dict[str, Any]:
    return {"age": age, "plan": plan, "member": age % 2 == 0}


@pytest.fixture(scope="module")
def odd(digits) -> Iterator[Service]:
    """A service that is still starting: one of its classes is never made."""
    service = Service(digits)
    (service.folder / "our_models.py").write_text(CLASSES)
    for module, (text, _) in MODULES.items():
        (service.folder / f"{module}.py").write_text(text)
    lines = [{"input": row(age), "label": "stays" if age > 40 else "leaves"} for age in range(20, 61)] * 4
    lines += [{"input": row(age), "label": "leaves"} for age in (41, 42, 43, 50)]
    data = service.folder / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, lines)))
    model = {
        "task": {"kind": "binary", "labels": ["leaves", "stays"]},
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response", "calibrator": "platt"},
        "policy": {"kind": "threshold", "score": "softmax_response", "limit": 0.2},
    }
    own = {"kind": "python", "timeout_seconds": 60, "cpus": 0.1}
    asked = {
        "kind": "remote", "protocol": "oip_rest", "url": service.url, "model": "churn", "cpus": 0.1,
        "input": {"kind": "table", "columns": {"age": "integer", "plan": ["basic", "full"], "member": "boolean"}},
        "tensor": {"columns": "apart"}, "output": "top_probabilities", "output_labels": "top_labels",
        "timeout_seconds": 60,
    }  # fmt: skip
    content = {
        "http": {"host": "127.0.0.1", "port": service.port},
        "models": {
            "churn": {**model, "host": {**own, "class": "our_models:Churn"}, "calibration": {"data": str(data)}},
            "again": {**model, "host": asked},
            "hangs": {**model, "host": {**own, "class": "our_models:Hangs", "timeout_seconds": 1}},
            "exits": {**model, "host": {**own, "class": "our_models:Exits", "timeout_seconds": 1}},
            **{module: {**model, "host": {**own, "class": f"{module}:Model"}} for module in MODULES},
        },
    }
    (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
    try:
        service.begin()
        wait_until(lambda: ask(service, "churn", row(60)).status_code == 200, patience=START_SECONDS, why=service.said)
        yield service
    finally:
        service.remove()


def ask(service: Service, model: str, value: Any) -> httpx.Response:
    try:
        return httpx.post(f"{service.url}/v1/predict", json={"model": model, "input": value}, timeout=120)
    except httpx.TransportError:
        return httpx.Response(503)


def test_a_class_that_is_never_made_delays_no_other(odd: Service) -> None:
    assert ask(odd, "churn", row(60)).json()["action"] == "answer"
    never = ask(odd, "hangs", "a text")
    assert never.status_code == 503
    said = never.json()["error"]["message"]
    assert "model 'hangs' is still starting" in said or "Ray has not placed it yet" in said  # on a busy machine


def test_a_class_that_ends_its_process_is_said_to_fail(odd: Service) -> None:
    def told() -> str:
        return str(httpx.get(f"{odd.url}/healthz", timeout=60).json()["models"]["exits"])

    wait_until(lambda: "cannot be started" in told(), patience=START_SECONDS, why=told)
    assert ask(odd, "exits", "a text").status_code == 503
    assert ask(odd, "churn", row(60)).json()["action"] == "answer"


def test_modules_that_cannot_be_imported_leave_out_their_models_alone(odd: Service) -> None:
    health = httpx.get(f"{odd.url}/healthz", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "degraded")
    assert set(MODULES) <= set(health.json()["not_serving"])
    for module, (_, why) in MODULES.items():
        refused = ask(odd, module, "a text")
        assert refused.status_code == 503
        assert refused.json()["error"]["kind"] == "ModelFailed"
        assert why in refused.json()["error"]["message"]
        assert why in health.json()["models"][module]["detail"]
    assert ask(odd, "churn", row(60)).json()["action"] == "answer"


def test_a_row_that_ends_the_process_is_not_answered_and_the_model_comes_back(odd: Service) -> None:
    fatal = ask(odd, "churn", row(60, "fatal"))
    assert fatal.status_code == 503 or fatal.json()["action"] == "review"
    wait_until(
        lambda: (again := ask(odd, "churn", row(60))).status_code == 200 and again.json()["action"] == "answer",
        patience=START_SECONDS,
        why=odd.said,
    )


def test_a_model_asks_another_one_by_the_open_inference_protocol(odd: Service) -> None:
    odd.run_here("fit", "again", "--data", str(odd.folder / "rows.jsonl"), "--promote")
    wait_until(lambda: ask(odd, "again", row(60)).status_code == 200, patience=START_SECONDS)
    sure, unsure = (ask(odd, "again", row(age)).json() for age in (60, 40))
    assert (sure["action"], sure["prediction"]) == ("answer", "stays")
    assert unsure["action"] == "review"
    assert sure["scores"] == ask(odd, "churn", row(60)).json()["scores"]

    def shown():
        return httpx.get(f"{odd.url}/review/v1/cases/{unsure['id']}", headers={"X-Demur-Reviewer": "Ada"}, timeout=60)

    wait_until(lambda: shown().status_code == 200, patience=START_SECONDS)  # pages start while a class still hangs
    assert shown().json()["model"] == "again"
    told = httpx.post(f"{odd.url}/v1/predictions/{unsure['id']}/outcome", json={"label": "stays"}, timeout=60)
    assert told.status_code == 201
    outcome = httpx.get(f"{odd.url}/v1/predictions/{unsure['id']}", timeout=60).json()["outcome"]
    assert outcome["label"] == "stays"


def test_a_start_that_waits_for_a_class_is_stopped_by_a_signal(odd: Service) -> None:
    assert "stop with Ctrl-C" not in odd.said()
    before = odd.processes()
    os.killpg(odd.process.pid, signal.SIGINT)
    odd.process.wait(timeout=60)
    assert alive(before) == []
    assert "Traceback" not in odd.said().split("starting Ray")[0]

"""The sums model in the real thing: Ray Serve, PostgreSQL, the official OpenAI client, the demo and an audit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from tests.conftest import ROOT
from tests.system.conftest import Service

pytestmark = pytest.mark.slow

ROWS = 200
FEW_ROWS = 60
DEMO_ROWS = 250

SUMS = {
    "task": {"kind": "generate", "match": "number"},
    "host": {
        "kind": "transformers",
        "checkpoint": str(ROOT / "deploy/models/sums"),
        "device": "cpu",
        "max_tokens": 16,
        "cpus": 0.1,
    },
    "scores": ["improbability"],
    "confidence": {"score": "improbability", "calibrator": "platt"},
    "policy": {"kind": "target_risk", "max_risk": 0.01},
    "chat": {"refusal": "Let me ask somebody."},
}


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> Path:
    """The folder of what the model has not seen, with the results."""
    folder: Path = tmp_path_factory.mktemp("sums")
    subprocess.run([sys.executable, "-m", "deploy.models.sums.parts", folder], check=True, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def sums(exercises: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (exercises / "total/calibration.jsonl").read_text().splitlines()]


def of_the_quickstart(exercises: Path) -> dict[str, Any]:
    """The model as `make run` serves it."""
    model: dict[str, Any] = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())["models"]["sums"]
    model["host"] |= {"checkpoint": str(ROOT / "deploy/models/sums"), "cpus": 0.1}
    model["calibration"]["data"] = str(exercises / "total/calibration.jsonl")
    return model


@pytest.fixture(scope="module")
def talking(digits: Path, exercises: Path, sums: list[dict[str, Any]]) -> Iterator[Service]:
    service = Service(digits)
    data, few = service.folder / "sums.jsonl", service.folder / "few.jsonl"
    data.write_text("\n".join(map(json.dumps, sums[:ROWS])))
    few.write_text("\n".join(map(json.dumps, sums[:FEW_ROWS])))  # enough to stream by
    fitted = {**SUMS, "calibration": {"data": str(data)}}
    content = {
        "http": {"host": "127.0.0.1", "port": service.port},
        "models": {
            "adding": of_the_quickstart(exercises),
            "sums": fitted,
            "hasty": {**SUMS, "calibration": {"data": str(few)}, "chat": {"stream": "tentative"}},
            "plain": {**SUMS, "chat": {"proxy": True}},
        },
    }
    (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
    try:
        service.start(patience=900)  # it fits three models first
        yield service
    finally:
        service.remove()


@pytest.fixture
def client(talking: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{talking.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def ask(client: openai.OpenAI, model: str, row: dict[str, Any], **more):
    return client.chat.completions.create(model=model, messages=row["input"]["messages"], **more)


def test_sure_sums_are_answered_and_doubtful_ones_refused(client, talking, sums):
    held = 0
    for row in sums[ROWS : ROWS + 60]:
        done = ask(client, "sums", row)
        view = httpx.get(f"{talking.url}/v1/predictions/{done.demur['id']}").json()
        assert (view["action"], view["confidence"]) == (done.demur["action"], done.demur["confidence"])
        assert done.usage.completion_tokens == view["cost"]["completion_tokens"] > 0
        if done.demur["action"] == "answer":
            assert done.choices[0].message.content == view["prediction"]
        else:
            held += 1
            assert done.choices[0].message.content == "Let me ask somebody."
            assert done.choices[0].finish_reason == "content_filter"
            assert view["review"]["status"] == "waiting"
    assert 0 < held < 60


def test_a_stream_that_holds(client, sums):
    stream = ask(client, "sums", sums[0], stream=True)
    assert stream.response.headers["x-demur-action"] in ("answer", "review")
    chunks = list(stream)
    assert chunks[-1].demur["id"] == stream.response.headers["x-demur-id"]


def test_a_tentative_stream(client, talking, sums):
    for row in islice(sums, 5):
        chunks = list(ask(client, "hasty", row, stream=True, stream_options={"include_usage": True}))
        assert chunks[0].demur == {"tentative": True}
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        decision = chunks[-1].demur
        view = httpx.get(f"{talking.url}/v1/predictions/{decision['id']}").json()
        assert (view["prediction"], view["action"]) == (text, decision["action"])
        assert chunks[-1].usage.total_tokens > 0


def test_past_demur(client, sums):
    done = ask(client, "plain", sums[0], temperature=0.8, n=3, seed=1)
    assert len(done.choices) == 3
    assert "demur" not in done.model_extra
    chunks = list(ask(client, "plain", sums[0], temperature=0, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["adding", "hasty", "plain", "sums"]  # as in the file


def test_what_the_quickstart_answers_is_right_more_often_than_what_it_says(talking, exercises):
    rows_of_demo = talking.folder / "demo.jsonl"
    rows_of_demo.write_text("\n".join((exercises / "total/test.jsonl").read_text().splitlines()[:DEMO_ROWS]))
    printed = talking.run("demo", "--model", "adding", "--data", str(rows_of_demo))
    every = next(line for line in printed.splitlines() if line.startswith("│ all")).split("│")
    rows, of_all, of_answered = (float(every[at].strip().rstrip("%")) for at in (2, 5, 6))
    assert of_answered > of_all, printed
    talking.run("audit", "--model", "adding", "--every-outcome-known", "--out", "report")
    numbers = json.loads((talking.folder / "report/adding.json").read_text())
    (risk,) = [line for line in numbers["estimates"] if line["name"] == "risk"]
    assert 1 - risk["value"] == pytest.approx(of_all / 100, abs=0.001)
    assert risk["labelled"] == rows


@pytest.mark.long  # one start of many that are alike
def test_a_replica_stops_when_nobody_listens_any_more():
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.endless_stream"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines()[-1:] == ["stopped"], done.stdout + done.stderr

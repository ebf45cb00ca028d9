"""The sums model in the real thing: Ray Serve, PostgreSQL, the official OpenAI client, the demo and an audit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.conftest import ROOT
from tests.system.conftest import ROWS, Service

pytestmark = pytest.mark.slow

DEMO_ROWS = 250


@pytest.fixture(scope="module")
def unseen(exercises: Path) -> list[dict[str, Any]]:
    """Sums on which nothing was fitted."""
    return [json.loads(line) for line in (exercises / "total/calibration.jsonl").read_text().splitlines()[ROWS:]]


@pytest.fixture
def client(talking: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{talking.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def http(talking: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=talking.url, timeout=60) as client:
        yield client


def ask(client: openai.OpenAI, model: str, row: dict[str, Any], **more):
    return client.chat.completions.create(model=model, messages=row["input"]["messages"], **more)


def test_sure_sums_are_answered_and_doubtful_ones_refused(client, http, unseen):
    held = 0
    for row in unseen[:40]:
        done = ask(client, "adding", row)
        view = http.get(f"/v1/predictions/{done.demur['id']}").json()
        assert (view["action"], view["confidence"]) == (done.demur["action"], done.demur["confidence"])
        assert done.usage.completion_tokens == view["cost"]["completion_tokens"] > 0
        if done.demur["action"] == "answer":
            assert done.choices[0].message.content == view["prediction"]
        else:
            held += 1
            assert done.choices[0].message.content == "Let me ask somebody."
            assert done.choices[0].finish_reason == "content_filter"
            assert view["review"]["status"] == "waiting"
    assert 0 < held < 40


def test_a_stream_that_holds(client, unseen):
    stream = ask(client, "adding", unseen[0], stream=True)
    assert stream.response.headers["x-demur-action"] in ("answer", "review")
    chunks = list(stream)
    assert chunks[-1].demur["id"] == stream.response.headers["x-demur-id"]


def test_a_tentative_stream(client, http, unseen):
    for row in unseen[:5]:
        chunks = list(ask(client, "hasty", row, stream=True, stream_options={"include_usage": True}))
        assert chunks[0].demur == {"tentative": True}
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        decision = chunks[-1].demur
        view = http.get(f"/v1/predictions/{decision['id']}").json()
        assert (view["prediction"], view["action"]) == (text, decision["action"])
        assert chunks[-1].usage.total_tokens > 0


def test_past_demur(client, unseen):
    done = ask(client, "plain", unseen[0], temperature=0.8, n=3, seed=1)
    assert len(done.choices) == 3
    assert "demur" not in done.model_extra
    chunks = list(ask(client, "plain", unseen[0], temperature=0, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["adding", "hasty", "plain"]  # as in the file


def test_what_the_quickstart_answers_is_right_more_often_than_what_it_says(talking, exercises):
    rows_of_demo = talking.folder / "demo.jsonl"
    rows_of_demo.write_text("\n".join((exercises / "total/test.jsonl").read_text().splitlines()[:DEMO_ROWS]))
    printed = talking.run_here("demo", "--model", "adding", "--data", str(rows_of_demo))
    every = next(line for line in printed.splitlines() if line.startswith("│ all")).split("│")
    rows, of_all, of_answered = (float(every[at].strip().rstrip("%")) for at in (2, 5, 6))
    assert of_answered > of_all, printed
    talking.run_here("audit", "--model", "adding", "--every-outcome-known", "--out", "report")
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

"""`demur up` with a model in vLLM: answers, holds, streams, and comes back when the engine dies."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest
import yaml
from psycopg import connect

from demur.serve.database.postgres import EmbeddedPostgres
from tests.conftest import ROOT
from tests.system.conftest import Service

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

ROWS = 400
PATIENCE = 240

NOTICED_SECONDS = 3.0
"""Until the proxy has told the gateway that a caller is gone, on a machine that is busy."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Sums that the model has not seen, with their results."""
    folder = tmp_path_factory.mktemp("parts")
    subprocess.run([sys.executable, "-m", "deploy.models.sums.parts", folder], check=True, cwd=ROOT)
    return [json.loads(line) for line in (folder / "total/calibration.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def running(tmp_path_factory, rows, sums):
    service = Service(tmp_path_factory.mktemp("no-digits"))
    (service.folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows[:ROWS])))
    model = {
        "task": {"kind": "generate", "match": "number"},
        "host": {
            "kind": "vllm",
            "checkpoint": sums,
            "max_tokens": 64,
            "engine": {"max_model_len": 512, "max_num_seqs": 16},
        },
        "scores": ["g_nll", "token_entropy"],
        "confidence": {"score": "g_nll", "calibrator": "platt"},
        "policy": {"kind": "target_risk", "max_risk": 0.01},
        "chat": {"stream": "tentative", "refusal": "Let me ask somebody."},
        "calibration": {"data": "rows.jsonl"},
    }
    content = {"http": {"host": "127.0.0.1", "port": service.port}, "models": {"sums": model}}
    (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
    try:
        service.start(patience=PATIENCE)
        yield service
    finally:
        service.remove()


@pytest.fixture
def client(running):
    with httpx.Client(base_url=running.url, timeout=60) as opened:
        yield opened


def predict(client, row):
    return client.post("/v1/predict", json={"model": "sums", "input": row["input"]})


def engine_of(service):
    """The process in which the replica's engine runs."""
    [engine] = [one for one in service.processes() if one.cmdline()[:1] == ["VLLM::EngineCore"]]
    return engine


def on_record(service):
    with EmbeddedPostgres(service.folder / "var") as server, connect(server.dsn) as connection:
        return connection.execute("select count(*) from records").fetchone()[0]


def streamed(client, row, **options):
    messages = (
        row["input"]["messages"] if isinstance(row["input"], dict) else [{"role": "user", "content": row["input"]}]
    )
    body = {"model": "sums", "messages": messages, "stream": True}
    return client.stream("POST", "/v1/chat/completions", json=body, **options)


def test_sure_sums_are_answered_and_doubtful_ones_held(client, rows):
    actions = set()
    for row in rows[ROWS : ROWS + 60]:
        told = predict(client, row).json()
        view = client.get(f"/v1/predictions/{told['id']}").json()
        actions.add(view["action"])
        assert (view["action"], view["prediction"]) == (told["action"], told["prediction"])
        assert set(view["scores"]) == {"g_nll", "token_entropy"}
        assert all(value >= 0 for value in view["scores"].values())
        assert view["cost"]["calls"] == 1
        assert view["cost"]["prompt_tokens"] > 0
        assert view["cost"]["completion_tokens"] > 0
    assert actions == {"answer", "review"}


def test_it_says_that_it_is_well(client):
    health = client.get("/healthz")
    assert health.status_code == 200
    assert health.json()["models"]["sums"]["status"] == "ok"


def test_a_stream_ends_with_the_decision(client, rows):
    with streamed(client, rows[0]) as response:
        first, *_, last, end = [line for line in response.iter_lines() if line]
    assert json.loads(first.removeprefix("data: "))["demur"] == {"tentative": True}
    assert end == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["demur"]["action"] in ("answer", "review")


def test_a_caller_who_goes_away_leaves_nothing(client, running, rows):
    engine = engine_of(running)
    before = on_record(running)
    engine.suspend()  # so that the reply cannot be over before the caller is gone
    try:
        with pytest.raises(httpx.ReadTimeout), streamed(client, rows[1], timeout=NOTICED_SECONDS):
            pass  # nothing is sent before the engine has said something
        time.sleep(NOTICED_SECONDS)
    finally:
        engine.resume()
    assert predict(client, rows[2]).status_code == 200
    assert on_record(running) == before + 1


def test_a_dead_engine_is_replaced(client, running, rows):
    assert predict(client, rows[3]).json()["prediction"]
    engine = engine_of(running)
    os.kill(engine.pid, signal.SIGKILL)
    killed = time.monotonic()
    while True:
        response = predict(client, rows[3])
        if response.status_code == 200 and response.json()["prediction"] is not None:
            break
        assert response.status_code == 503 or response.json()["action"] == "review"  # in doubt, it is held
        assert time.monotonic() - killed < PATIENCE, running.said()
        time.sleep(0.5)
    print(f"answers again {time.monotonic() - killed:.0f} s after its engine was killed")
    assert engine_of(running).pid != engine.pid
    assert client.get("/healthz").status_code == 200

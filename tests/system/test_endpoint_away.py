"""A model behind an endpoint that goes away, in the real thing: Ray Serve, PostgreSQL, the official client."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
import yaml

from tests.serve.endpoint import Endpoint, choice, choices, delta, refusal, running, token
from tests.system.conftest import Service

pytestmark = pytest.mark.slow


def says(text: str) -> Any:
    def said(body: dict[str, Any]) -> Any:
        sure = "doubt" not in body["messages"][-1]["content"]
        told = [token(text, -0.01 if sure else -0.5)] if body.get("logprobs") else None
        return choices(choice(text, told))

    return said


@pytest.fixture(scope="module")
def endpoints() -> Iterator[tuple[Endpoint, Endpoint]]:
    with running() as first, running() as second:
        first.replies, second.replies = [says("It is four")], [says("It is surely four")]
        yield first, second


@pytest.fixture(scope="module")
def talking(digits, endpoints) -> Iterator[Service]:
    first, second = endpoints
    service = Service(digits)
    rows = [
        {"input": f"{'doubt' if at % 3 == 0 else 'sure'} {at}", "label": "It is four" if at % 3 or at % 5 == 0 else "5"}
        for at in range(90)
    ]
    data = service.folder / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    model = {
        "task": {"kind": "generate"},
        "host": {
            "kind": "openai", "base_url": first.url, "model": "m", "max_tokens": 20, "timeout_seconds": 30,
            "retries": 0, "cpus": 0.1,
        },
        "scores": ["improbability"],
        "confidence": {"score": "improbability", "calibrator": "platt"},
        "policy": {"kind": "threshold", "score": "improbability", "limit": 0.2},
        "calibration": {"data": str(data)},
    }  # fmt: skip
    twice = {**model["host"], "endpoints": [{"base_url": second.url}]}
    content = {
        "http": {"host": "127.0.0.1", "port": service.port},
        "models": {
            "talker": model,
            "hasty": {**model, "chat": {"stream": "tentative"}},
            "twice": {**model, "host": twice, "on_failure": "next"},
        },
    }
    (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
    try:
        service.start(patience=900)
        yield service
    finally:
        service.remove()


@pytest.mark.long  # one start of many that are alike
def test_an_outage_is_told_and_ends(talking: Service, endpoints: tuple[Endpoint, Endpoint]) -> None:
    first, _ = endpoints
    with (
        httpx.Client(base_url=talking.url, timeout=60) as http,
        openai.OpenAI(base_url=f"{talking.url}/v1", api_key="none", max_retries=0) as client,
    ):
        body = {"model": "talker", "input": "sure"}
        assert http.post("/v1/predict", json=body).json()["action"] == "answer"

        first.replies = [refusal(429, "slow down", **{"retry-after": "7"})]
        away = http.post("/v1/predict", json=body, headers={"Idempotency-Key": "k1"})
        assert (away.status_code, away.headers["retry-after"]) == (503, "7")
        assert away.json()["error"]["kind"] == "UpstreamUnavailable"
        batch = http.post("/v1/predict/batch", json={"items": [body] * 3}).json()["results"]
        assert [(item["status"], item["retry_after"]) for item in batch] == [(503, 7)] * 3
        said = [{"role": "user", "content": "sure"}]
        for name in ("talker", "hasty"):
            with pytest.raises(openai.InternalServerError) as refused:
                client.chat.completions.create(model=name, messages=said, stream=name == "hasty")
            assert refused.value.response.headers["retry-after"] == "7"

        passed_over = http.post("/v1/predict", json={"model": "twice", "input": "sure"}).json()
        assert (passed_over["action"], passed_over["prediction"]) == ("answer", "It is surely four")
        health = http.get("/healthz").json()
        assert "answered 429: slow down" in health["models"]["talker"]["detail"]

        first.replies = [first.streams([delta("It "), {"error": {"message": "gone", "code": 503}}])]
        chunks = client.chat.completions.create(model="hasty", messages=said, stream=True)
        with pytest.raises(openai.APIError, match="it answered 503"):
            list(chunks)

        first.replies = [says("It is four")]
        back = http.post("/v1/predict", json=body, headers={"Idempotency-Key": "k1"}).json()
        assert (back["action"], back["prediction"]) == ("answer", "It is four")
    counted = talking.run("failures")
    assert "slow down" in counted
    assert "hasty" in counted

"""A start that cannot succeed, or succeeds in part, says why, and leaves nothing behind."""

import shutil

import httpx
import pytest

from tests.conftest import digit_rows
from tests.system.conftest import PATIENCE_SECONDS, alive, wait_until, write

pytestmark = pytest.mark.slow


def test_models_that_cannot_be_served_take_nobody_down(talking):
    said = talking.said()
    for name in ("gone", "fast", "bold"):
        assert f"model {name!r} does not serve, and its requests get a 503:" in said
    health = httpx.get(f"{talking.url}/healthz", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "degraded")
    assert sorted(health.json()["not_serving"]) == ["bold", "fast", "gone"]
    assert httpx.get(f"{talking.url}/healthz?strict", timeout=60).status_code == 503
    asked = {"input": {"messages": [{"role": "user", "content": "What is 3 + 4?"}]}}
    judged = {"input": None, "output": {"probabilities": [0.9, 0.1]}}
    reasons = {}
    for name in ("adding", "gone", "fast", "bold"):
        body = {"model": name, **(judged if name == "bold" else asked)}
        answer = httpx.post(f"{talking.url}/v1/predict", json=body, timeout=60)
        assert answer.status_code == (200 if name == "adding" else 503), answer.text
        reasons[name] = answer.json().get("error", {}).get("message", "")
    assert "/nowhere/at/all" in reasons["gone"]
    assert "64 GPUs" in reasons["fast"]
    assert "model 'fast' yet: fitting one" not in said
    assert "its first fit, on bold.jsonl, failed: with " in reasons["bold"]


def test_a_service_none_of_whose_models_can_be_served_says_why_and_ends(own):
    write(own, lambda content: content["models"]["digits"]["host"].update(gpus=64, device="cuda"))
    own.begin()
    own.process.wait(timeout=300)
    assert own.process.returncode == 1
    last = own.said().splitlines()[-1]
    assert last.startswith("demur: model 'digits': host.gpus: it asks for 64 GPUs, and this machine has ")
    assert "fitting one" not in own.said()
    assert "Traceback" not in own.said()


@pytest.mark.long  # one start of many that are alike
def test_an_edited_policy_that_is_not_in_force_is_refused_and_can_be_allowed(own, digits):
    own.start()
    own.interrupt()
    write(own, lambda content: content["models"]["digits"]["policy"].update(max_risk=0.001))
    own.begin()
    assert own.process.wait(timeout=300) == 1
    last = own.said().splitlines()[-1]
    assert "policy.max_risk is 0.001, and 0.002 in the artifact" in last
    assert "`demur fit digits --promote`" in last
    assert "--with-older-artifact" in last
    own.start("--with-older-artifact")
    assert "fitted with other settings than are configured" in own.said()
    (told,) = httpx.get(f"{own.url}/healthz", timeout=60).json()["models"]["digits"]["differs"]
    assert told.startswith("policy.max_risk is 0.001")
    body = {"model": "digits", "input": digit_rows(digits)[0]["input"]}
    answer = httpx.post(f"{own.url}/v1/predict", json=body, timeout=60).json()
    assert answer["reason"].endswith("; fitted with other settings than are configured: policy.max_risk")
    own.run("fit", "digits", "--promote")
    wait_until(lambda: httpx.get(f"{own.url}/healthz", timeout=60).json()["models"]["digits"]["differs"] == [])


@pytest.mark.long  # one start of many that are alike
def test_a_data_folder_that_is_deleted_ends_the_service_at_once_with_one_sentence(own):
    own.start()
    before = own.processes()
    shutil.rmtree(own.folder / "var")
    assert own.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert "was deleted or replaced while the service used it" in own.said().splitlines()[-1]
    assert "Traceback" not in own.said()
    assert alive(before) == []

"""A cascade of two models in the running service: what one does not answer goes to the other, then to a person."""

import copy
from collections import Counter

import httpx
import pytest
import yaml

from tests.conftest import digit_rows
from tests.system.conftest import Service

pytestmark = pytest.mark.slow

LIMIT = 0.97


@pytest.fixture(scope="module")
def cascade(digits):
    """The digits twice: sure of other things, because the second goes by the embedding."""
    running = Service(digits)
    try:
        path = running.folder / "demur.yaml"
        content = yaml.safe_load(path.read_text())
        first = content["models"].pop("digits")
        first["host"]["cpus"] = 0.4
        first["prediction_set"] = {"alpha": 0.05}
        second = copy.deepcopy(first)
        first |= {
            "scores": ["softmax_response"],
            "confidence": {"score": "softmax_response", "calibrator": {"platt": {"log_odds": True}}},
            "policy": {"kind": "threshold", "limit": LIMIT},
            "escalate_to": "large",
        }
        second |= {
            "scores": [{"mahalanobis": {"shrinkage": 0.05}}],
            "confidence": {"score": "mahalanobis", "calibrator": "platt"},
            "policy": {"kind": "threshold", "limit": LIMIT},
        }
        content["models"] = {"small": first, "large": second}
        path.write_text(yaml.safe_dump(content))
        running.start()
        yield running
    finally:
        running.remove()


@pytest.mark.long  # one start of many that are alike
def test_what_the_first_does_not_answer_the_second_is_asked_and_the_record_keeps_both(cascade, digits):
    items = [{"model": "small", "input": row["input"]} for row in digit_rows(digits)]
    seen = Counter()
    with httpx.Client(base_url=cascade.url, timeout=60) as http:
        health = http.get("/healthz").json()["models"]
        for start in range(0, 400, 100):
            results = http.post("/v1/predict/batch", json={"items": items[start : start + 100]}).json()["results"]
            for result in results:
                told = result["prediction"]
                steps = told["steps"]
                assert told["artifact"] == health["small"]["artifact"] != health["large"]["artifact"]
                assert [step["model"] for step in steps] == ["small", "large"][: len(steps)]
                assert (told["action"], told["confidence"]) == (steps[-1]["action"], steps[-1]["confidence"])
                assert (told["action"] == "answer") == (told["confidence"] >= LIMIT)
                assert (steps[0]["confidence"] < LIMIT) == (len(steps) == 2)
                seen[len(steps), told["action"]] += 1
        kept = http.get(f"/v1/predictions/{told['id']}").json()
    assert kept["steps"] == steps
    assert set(seen) >= {(1, "answer"), (2, "review")}, seen
    assert sum(n for (steps, _), n in seen.items() if steps == 2) >= 5, seen

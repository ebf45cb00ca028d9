"""Labels by their first tokens, from an endpoint that lists few of them: from the fit to the decision."""

import json

import numpy as np
import pytest

from demur.calibration_store.store import ArtifactStore
from demur.serve.fitting.fit import fit_model
from tests.serve.endpoint import choice, choices, running, token
from tests.serve.gateway.test_on_failure import ask, clock, configured, model, served

LABELS = ["negative", "positive", "neutral"]


def lists(*alternatives):
    return choices(choice(alternatives[0][0], [token(*alternatives[0], [(t, np.log(p)) for t, p in alternatives])]))


def sentiment(body):
    """Sure of most: then the other labels are not among the two tokens that it lists."""
    text = body["messages"][-1]["content"]
    if "lost" in text:
        return lists(("The", 0.5), ("A", 0.2))
    if "torn" in text:
        return lists(("positive", 0.4), ("negative", 0.4))
    return lists(("positive", 0.9), ("Pos", 0.04)) if "good" in text else lists(("negative", 0.8), ("neg", 0.1))


@pytest.fixture
def endpoint():
    with running() as server:
        server.replies = [sentiment]
        yield server


def test_a_label_that_is_not_listed_is_bounded(endpoint, database, tmp_path):
    told = model(
        endpoint,
        task={"kind": "multiclass", "labels": LABELS},
        prompt={"probabilities": "first_token"},
        scores=["softmax_response", "entropy"],
        confidence={"score": "softmax_response", "calibrator": "isotonic"},
        policy={"kind": "threshold", "limit": 0.7},
    )
    config = configured(tmp_path, talker=told)
    rows = [
        {"input": f"{words} {at}", "label": label if at % 7 else "neutral"}
        for at, (words, label) in enumerate([("good", "positive"), ("bad", "negative"), ("torn", "neutral")] * 30)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    done = fit_model(config, "talker", data, clock=clock, progress=lambda *_: None)
    ArtifactStore(config.artifacts).promote("talker", done.name, by="tests", why="", clock=clock)

    async def use(client):
        return [(await ask(client, text)).json() for text in ("good", "torn", "lost")]

    good, torn, lost = served(config, database, use)
    assert (good["action"], good["prediction"]) == ("answer", "positive")
    assert good["scores"]["softmax_response"] == pytest.approx(1 - 0.9 / (0.9 + 2 * 0.03))  # 0.06 are left for two
    assert (torn["action"], torn["scores"]["softmax_response"]) == ("review", pytest.approx(0.6))
    assert (lost["action"], lost["prediction"]) == ("review", None)
    assert "lists 2 tokens ('The', 'A'), and not the label 'negative', 'positive', 'neutral'" in lost["reason"]
    assert "may be the most probable one" in lost["reason"]

"""Configurations of models whose predictions are made elsewhere, and rows that a vendor might send."""

import numpy as np

from demur.serve.config.file import Config

LABELS = ["billing", "outage", "other"]


def section(**more):
    """A model of three labels whose requests bring probabilities."""
    return {
        "task": {"kind": "multiclass", "labels": LABELS},
        "host": {"kind": "given", "gives": ["probabilities"]},
        "scores": ["softmax_response", "entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
        **more,
    }


def configured(**more):
    return Config.model_validate({"models": {"vendor": section(**more)}})


def vendor_rows(n=600, *, seed=0):
    """Return probabilities [n, 3], and labels [n], which these probabilities are about right about."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3)) * 2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = [LABELS[rng.choice(3, p=row)] for row in probabilities]
    return probabilities, labels


BY_RISK = {
    "host": {"kind": "given", "gives": ["prediction", "scores"], "scores": {"risk": "less_sure"}},
    "scores": ["risk"],
    "confidence": {"score": "risk"},
}
"""Settings of a model whose requests bring a prediction and a number."""

BY_REPLY = {**BY_RISK, "host": {**BY_RISK["host"], "gives": ["reply", "scores"]}}
BY_LOGPROBS = {
    "task": {"kind": "generate"},
    "host": {"kind": "given", "gives": ["reply", "logprobs"]},
    "scores": ["g_nll"],
    "confidence": {"score": "g_nll"},
}

"""What an artifact of a remote model is bound to: who is asked, and how; not by which secret, nor how fast."""

import pytest

from demur.serve.config.file import Config
from demur.serve.hosts.identity import identity_if_here, identity_of

OIP = {
    "protocol": "oip_rest",
    "url": "http://models:8080",
    "model": "churn",
    "version": "3",
    "input": {"kind": "table", "columns": {"age": "number", "job": ["clerk", "nurse"]}},
    "tensor": {"columns": "apart"},
    "output": "p",
}
HTTP = {"protocol": "http", "url": "http://models/predict", "request": {"rows": "$inputs"}, "output": "p"}
IMAGE = {**OIP, "input": {"kind": "image", "channels": 3, "height": 2, "width": 2}, "tensor": {}}


def fingerprint(base, **changes):
    section = {
        "task": {"kind": "binary", "labels": ["no", "yes"]},
        "host": {"kind": "remote", **base, **changes},
        "scores": ["entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    return identity_of(Config.model_validate({"models": {"mine": section}}).models["mine"]).fingerprint


OTHER_MODELS = [
    (OIP, {"url": "http://models:8081"}),
    (OIP, {"url": "https://models:8080"}),
    (OIP, {"protocol": "oip_grpc", "url": "grpc://models:8080"}),
    (OIP, {"model": "churn2"}),
    (OIP, {"version": "4"}),
    (OIP, {"version": ""}),
    (OIP, {"input": {"kind": "table", "columns": {"age": "number", "job": ["nurse", "clerk"]}}}),
    (OIP, {"tensor": {"columns": "json"}}),
    (OIP, {"tensor": {"columns": "apart", "names": {"age": "AGE"}}}),
    (OIP, {"tensor": {"columns": "apart", "datatype": "FP32"}}),
    (OIP, {"tensor": {"columns": "apart", "row_shape": [1]}}),
    (OIP, {"tensor": {"columns": "apart", "parameters": {"content_type": "np"}}}),
    (OIP, {"parameters": {"content_type": "pd"}}),
    (OIP, {"takes_batches": False}),
    (OIP, {"output": "q"}),
    (OIP, {"output_labels": "names"}),
    (OIP, {"embedding": "e", "embedding_size": 3}),
    (OIP, {"gives": "logits"}),
    (OIP, {"labels": ["yes", "no"]}),
    (IMAGE, {"layout": "nhwc"}),
    (HTTP, {"request": {"rows": "$inputs", "mode": "exact"}}),
    (HTTP, {"request": '{"rows": {{ inputs }}}'}),
    (HTTP, {"output": "q"}),
    (HTTP, {"table_rows": "arrays"}),
]

SAME_MODEL = [
    {"headers_env": {"Authorization": "A_KEY"}},
    {"headers_env": {"Authorization": "ANOTHER_KEY"}},
    {"headers": {"X-Team": "churn"}},
    {"ca": "/certificates/internal.pem"},
    {"connections": 3},
    {"retries": 0},
    {"timeout_seconds": 2},
    {"reply_bytes": 4096},
    {"binary": True},
    {"url": "http://models:8080/"},
]


@pytest.mark.parametrize(("base", "changes"), OTHER_MODELS, ids=lambda one: ",".join(one) if len(one) < 4 else "")
def test_who_is_asked_and_how_is_the_model(base, changes):
    assert fingerprint(base, **changes) != fingerprint(base)


@pytest.mark.parametrize("changes", SAME_MODEL, ids=lambda one: ",".join(one))
def test_secrets_and_speed_are_not(changes):
    assert fingerprint(OIP, **changes) == fingerprint(OIP)


def test_what_a_secret_is_does_not_matter(monkeypatch):
    prints = set()
    for value in ("Bearer one", "Bearer two"):
        monkeypatch.setenv("A_KEY", value)
        prints.add(fingerprint(OIP, headers_env={"Authorization": "A_KEY"}))
    assert len(prints) == 1


def test_every_machine_has_a_remote_model():
    section = {
        "task": {"kind": "binary", "labels": ["no", "yes"]},
        "host": {"kind": "remote", **OIP},
        "scores": ["entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    model = Config.model_validate({"models": {"mine": section}}).models["mine"]
    assert identity_if_here(model) == identity_of(model)

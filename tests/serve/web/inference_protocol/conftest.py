"""A gateway with hosts that a test writes, for every kind of input."""

from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient

from demur.serve.config.file import Config
from demur.serve.config.input import ColumnConfig
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InputSpec
from demur.serve.gateway.handler import Handler
from demur.serve.web.native.app import gateway_app
from tests.serve.conftest import make_handler
from tests.serve.scripted import settings as written

LABELS = ["red", "green", "blue"]
PEOPLE = {"age": ColumnConfig(missing=True), "job": ColumnConfig(kind="category", values=("clerk", "nurse"))}
LAMPS = {"heat": ColumnConfig(missing=True), "on": ColumnConfig(kind="boolean")}


@dataclass
class TextHost:
    """Says of each text the label that is in it. Doubt is held, and what is unknown has no confidence."""

    spec: InputSpec
    artifact: str | None = "colours-1"
    canary: str | None = None
    asked: list = field(default_factory=list)

    async def state(self):
        return HostState(spec=self.spec, artifact=self.artifact, canary=self.canary, trouble="")

    async def decide(self, inputs, groups, draws):
        self.asked.append((list(inputs), list(groups)))
        n = len(inputs)
        texts = [str(value) for value in inputs]
        sure = [None if "unknown" in text else 0.25 if "doubt" in text else 0.875 for text in texts]
        decided = DecidedRows(
            artifact="colours-1",
            predictions=["red" if one is not None else None for one in sure],
            top_labels=[["red", "blue"]] * n,
            top_probabilities=[[0.75, 0.25]] * n,
            label_confidences=[None] * n,
            prediction_sets=[["red", "blue"]] * n,
            scores={"avg_neg_logprob": [None if one is None else 0.5 for one in sure]},
            confidence=sure,
            actions=["answer" if one == 0.875 else "review" for one in sure],
            reasons=["because"] * n,
            model_milliseconds=1.0,
            costs=[None] * n,
            replies=[None] * n,
        )
        return [ArtifactShare(rows=list(range(n)), decided=decided)]


@pytest.fixture
def hosts():
    return {
        "colours": TextHost(InputSpec(kind="text")),
        "letters": TextHost(InputSpec(kind="choice", options=4)),
        "talker": TextHost(InputSpec(kind="chat")),
        "photos": TextHost(InputSpec(kind="image", channels=3, height=2, width=4)),
        "people": TextHost(InputSpec(kind="table", columns=PEOPLE)),
        "lamps": TextHost(InputSpec(kind="table", columns=LAMPS)),
    }


@pytest.fixture
def text_handler(hosts, database) -> Handler:
    """Of models of every kind of input, none of them real."""
    colours = written({"kind": "multiclass", "labels": LABELS})
    models = {
        "colours": colours,
        "letters": written({"kind": "choice", "labels": ["A", "B", "C", "D"]}),
        "talker": written("generate"),
        "photos": colours,
        "people": colours,
        "lamps": colours,
    }
    config = Config.model_validate({"models": models, "limits": {"batch": 5, "body_bytes": 100_000}})
    return make_handler(config, hosts, database)


@pytest.fixture
def texts(text_handler):
    """The same over HTTP."""
    with TestClient(gateway_app(text_handler, max_body_bytes=100_000)) as client:
        yield client

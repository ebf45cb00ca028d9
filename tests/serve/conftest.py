"""Models that are built in seconds, and the digits' configuration with an artifact that is in force."""

import asyncio
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ConvNextConfig,
    ConvNextForImageClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from uuid_utils.compat import uuid7

from demur.audit import held_out
from demur.calibration_store.artifact import Artifact, ArtifactFiles, ModelIdentity, pack
from demur.calibration_store.store import ArtifactStore
from demur.policies.threshold import Threshold
from demur.serve.cli import main
from demur.serve.config.file import Config
from demur.serve.configuration import load_config
from demur.serve.contract.hosts import DrawsWanted, HostState
from demur.serve.fitting.fit import fit_model
from demur.serve.gateway.handler import Handler
from demur.serve.web.native.app import gateway_app
from demur.traffic.database import Database
from tests.conftest import ROOT, digit_rows
from tests.serve.hosting import RunningHost

DRAW_KEY = "a key that tests know"
RIVAL_LIMIT = 0.9999

WORDS = ["[PAD]", "[UNK]", *["the", "a", "cat", "dog", "sat", "ran", "fast", "slow", "red", "blue"]]
LABELS = {0: "bad", 1: "fair", 2: "good"}


@pytest.fixture(scope="session", autouse=True)
def few_replicates():
    """Intervals of ranking metrics rest on few samples here: each fit would take a second longer, and what they are
    worth is tested in tests/audit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "FEWEST_REPLICATES", 39)
        patch.setattr(held_out, "MOST_REPLICATES", 39)
        yield


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory) -> str:
    """An encoder for text with random weights, three classes and dropout."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bert")
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label=LABELS,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> str:
    """A decoder for text: its head sees every token, and its verdict is that of the last one."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        pad_token_id=0,
        id2label=LABELS,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_convnext(tmp_path_factory) -> str:
    """A colour image model without attention and without dropout."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("convnext")
    config = ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], image_size=32, id2label=LABELS)
    ConvNextForImageClassification(config).save_pretrained(folder)
    ConvNextImageProcessorPil(size={"shortest_edge": 32}).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def quickstart(digits: Path, tmp_path_factory) -> Config:
    """The quickstart's configuration with a store of its own, in which an artifact is in force."""
    config = load_config(ROOT / "tests/quickstart.yaml")
    folder = tmp_path_factory.mktemp("store")
    model = config.models["digits"]
    config = config.model_copy(
        update={
            "data": folder,
            "artifacts": str(folder / "artifacts"),
            "models": {
                "digits": model.model_copy(
                    update={
                        "host": model.host.model_copy(update={"checkpoint": str(ROOT / "deploy/models/digits")}),
                        "calibration": model.calibration.model_copy(update={"data": digits / "calibration.jsonl"}),
                    }
                )
            },
        }
    )

    def clock() -> datetime:
        return datetime(2026, 11, 21, tzinfo=UTC)

    done = fit_model(config, "digits", digits / "calibration.jsonl", clock=clock, progress=lambda *_: None)
    ArtifactStore(config.artifacts).promote("digits", done.name, by="tests", why="a fixture", clock=clock)
    return config


@pytest.fixture
def two(quickstart: Config, rival: ArtifactFiles, tmp_path: Path) -> tuple[Config, ArtifactStore, str | None, str]:
    """A store of one's own with two artifacts, the first of them in force."""
    shutil.copytree(f"{quickstart.artifacts}/digits", tmp_path / "artifacts/digits")
    store = ArtifactStore(str(tmp_path / "artifacts"))
    first = store.name_in_force("digits")
    store.save("digits", rival)
    return quickstart.model_copy(update={"artifacts": store.url}), store, first, rival.name


@pytest.fixture(scope="session")
def rival(quickstart: Config) -> ArtifactFiles:
    """Another artifact for the digits: it has one score, and answers only what it is almost certain of."""
    artifact = ArtifactStore(quickstart.artifacts).in_force("digits")
    selector = replace(
        artifact.selector,
        scores={"softmax_response": artifact.selector.scores["softmax_response"]},
        policy=Threshold(limit=RIVAL_LIMIT, meaning="the rival's limit"),
    )
    return pack(selector, model="digits", identity=identity_of(artifact), facts={})


def identity_of(artifact: Artifact) -> ModelIdentity:
    """The model that an artifact was fitted for."""
    fitted = artifact.manifest["model"]
    return ModelIdentity(
        checkpoint=fitted["checkpoint"], fingerprint=fitted["fingerprint"], labels=tuple(fitted["labels"])
    )


class LocalHost:
    """A model host in this process, in the place of the Ray handle."""

    def __init__(self, host: RunningHost) -> None:
        self.host = host
        self.batches: list[int] = []
        self._one_thread = ThreadPoolExecutor(1)  # as in the deployment: a model is not run from two at a time

    async def state(self) -> HostState:
        return self.host.state()

    async def decide(self, inputs, groups, draws):
        if draws is None and self.host.wants_draws:
            raise DrawsWanted
        self.batches.append(len(inputs))
        return await asyncio.get_running_loop().run_in_executor(
            self._one_thread, self.host.decide, inputs, groups, draws
        )

    async def decide_next(self, inputs, groups, step):
        return await asyncio.get_running_loop().run_in_executor(
            self._one_thread, self.host.decide_next, inputs, groups, step
        )


@pytest.fixture(scope="session")
def digits_host(quickstart: Config) -> RunningHost:
    return RunningHost("digits", quickstart.models["digits"], ArtifactStore(quickstart.artifacts))


@pytest.fixture
def local_host(digits_host: RunningHost) -> LocalHost:
    return LocalHost(digits_host)


@pytest.fixture
def handler(quickstart: Config, local_host: LocalHost, database: Database) -> Handler:
    return make_handler(quickstart, {"digits": local_host}, database)


def make_handler(config: Config, hosts, database: Database) -> Handler:
    return Handler(config, hosts, database, clock=lambda: datetime.now(UTC), new_id=uuid7, draw_key=DRAW_KEY)


@pytest.fixture
def client(handler: Handler, quickstart: Config):
    """The gateway's HTTP, without Ray."""
    app = gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def clear_digit(digits: Path):
    """A digit of which the model is sure."""
    return digit_rows(digits)[0]["input"]


@pytest.fixture(scope="session")
def doubtful_digit(digits: Path, digits_host: RunningHost):
    """A digit of which the model is not sure enough."""
    inputs = [row["input"] for row in digit_rows(digits)]
    (share,) = digits_host.decide([np.asarray(value, dtype=np.float32)[np.newaxis] for value in inputs])
    return inputs[share.decided.actions.index("review")]


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run a command; return what it printed, or the sentence that it ended with. What a command sets in the environment
    goes again: `up` chooses ports there, which a service started later by this process would take as well."""
    before = dict(os.environ)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        if isinstance(end.value.code, str):
            assert "\n" not in end.value.code
            return end.value.code
        assert end.value.code in (0, None), printed.err
        return printed.out

    yield run
    os.environ.clear()
    os.environ.update(before)

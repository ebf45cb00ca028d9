"""An engine that compares two texts by strengths that a test knows, with as much noise as it wants."""

import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from demur.serve.commands.rank.ranking import as_judge
from demur.serve.config.file import Config, ModelConfig
from demur.serve.contract.engine import Asking, EngineFailed, Gives
from demur.serve.contract.messages import Message
from demur.serve.hosts.language import kind as language_kind
from demur.uncertainty.generation import Generation

SHOWN = re.compile(r"\[A\]\s*(.*?)\s*\[B\]\s*(.*?)\s*$", re.DOTALL)


RATED = {"tournament": {"ratings": "ratings.json"}}


@dataclass
class ComparingEngine:
    """Prefers what is shown first with the odds exp(sharpness * difference + lean). The same question gets the same
    reply, whoever asks when, as from a model at temperature 0."""

    strengths: Mapping[str, float]
    sharpness: float = 4.0
    lean: float = 0.0
    """Towards what is shown first."""

    silent: float = 0.0
    """Share of the comparisons whose reply says nothing."""

    broken: float = 0.0
    """Share of those that fail."""

    gives: frozenset[Gives] = frozenset()
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        found = SHOWN.search(messages[-1]["content"])
        assert found is not None
        pair = found[1], found[2]
        self.asked.append(pair)
        chance = random.Random(crc32("|".join(pair).encode()))
        if chance.random() < self.broken:
            raise EngineFailed("the endpoint is tired")
        if chance.random() < self.silent:
            return [Generation(text="I would rather not say.", prompt_tokens=20, completion_tokens=6)]
        odds = self.sharpness * (self.strengths[pair[0]] - self.strengths[pair[1]]) + self.lean
        text = "A" if chance.random() < (1 + math.tanh(odds / 2)) / 2 else "B"
        return [Generation(text=text, prompt_tokens=20, completion_tokens=1)]

    async def check_health(self) -> None: ...

    async def close(self) -> None: ...


def drawn(n: int, *, seed: int = 0) -> dict[str, float]:
    """Texts with their strengths, from a normal distribution."""
    return {f"text {i}": s for i, s in enumerate(np.random.default_rng(seed).normal(size=n).tolist())}


def configured(tmp_path, **host) -> Config:
    """A binary task of a model behind an endpoint, which is only asked to compare."""
    content = {
        "task": {"kind": "binary", "labels": ["weak", "strong"]},
        "host": {
            "kind": "openai",
            "base_url": "http://127.0.0.1:9/v1",
            "model": "judge",
            "tournament": {"ratings": "ratings.json"},
            **host,
        },
        "scores": ["entropy"],
        "confidence": {"score": "entropy", "calibrator": "isotonic"},
        "policy": {"kind": "threshold", "limit": 0.5},
    }
    return Config.model_validate({"models": {"judge": content}, "artifacts": str(tmp_path / "artifacts")})


def serve_with(monkeypatch, engine):
    """Let every offline model have this engine."""

    async def started(host):
        return engine

    monkeypatch.setattr(language_kind, "started", started)
    return engine


def labelled(strengths):
    return [{"input": text, "label": "strong" if s > 0 else "weak"} for text, s in strengths.items()]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def quiet(number, done):
    """Tells nobody how far it is."""


def judge_of(config: Config) -> ModelConfig:
    """The model as it compares, whatever ratings there are."""
    return as_judge(config.model("judge"), "judge")

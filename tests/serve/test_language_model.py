import asyncio
from typing import Any

import numpy as np
import pytest

from serve.config import ModelConfig
from serve.inputs import Conversation, Question
from serve.language.engine import EngineFailed
from serve.language.model import LanguageModel
from tests.serve.scripted import ScriptedEngine

SETTINGS: dict[str, Any] = {
    "host": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "none"},
    "scores": ["g_nll"],
    "confidence": {"score": "g_nll"},
    "policy": {"kind": "threshold", "limit": 0.5},
}

QUESTION = Question(question="What is 47 + 85?", options=("122", "131", "132", "142"))
CHAT = Conversation(messages=({"role": "user", "content": "What is 2 + 2?"},))
REPLY = frozenset({"reply"})


def config(task, **sections):
    labels = {"binary": ["no", "yes"], "multiclass": ["red", "green", "blue"], "choice": list("ABCD")}
    kind = {"kind": task} if isinstance(task, str) else task
    given = labels.get(kind["kind"])
    return ModelConfig.model_validate(
        {
            **SETTINGS,
            "task": {**({"labels": given} if given else {}), **kind},
            **sections,
        }
    )


def run(model, engine, inputs, needs=REPLY, **more):
    return asyncio.run(LanguageModel(model, engine).run(inputs, frozenset(needs), **more))


@pytest.mark.parametrize(
    ("task", "value", "reply", "said", "probabilities"),
    [
        ("binary", "a text", "Yes.", 1, [0, 1]),
        ("multiclass", "a text", "It is green", 1, [0, 1, 0]),
        ("choice", QUESTION, "[C] 132", 2, [0, 0, 1, 0]),
        ("choice", Question(question="?", options=("x", "y")), "B", 1, [0, 1, 0, 0]),
        ("generate", CHAT, " Four. ", "four", [1, 0]),
    ],
)
def test_a_reply_becomes_probabilities(task, value, reply, said, probabilities):
    output = run(config(task), ScriptedEngine(reply), [value])
    assert output.usable().all()
    assert output.probabilities.tolist() == [probabilities]
    assert np.isfinite(output.logits).all()
    assert output.replies[0].said == said
    assert output.replies[0].first.text == reply


def test_what_is_not_asked_for_is_not_told():
    engine = ScriptedEngine("yes")
    output = run(config("binary"), engine, ["a text"], {"probabilities"})
    assert output.replies[0].usage.calls == 1  # what it cost is always known
    assert output.only(frozenset({"probabilities"})).replies is None
    assert output.mc_probabilities is None
    assert engine.calls == 1
    assert not engine.asked[0][1].logprobs


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("perhaps", "names none"),
        ("yes or no", "several"),
        (EngineFailed("no memory"), "no memory"),
        (ZeroDivisionError("a secret"), "log says what"),
    ],
)
def test_a_row_that_cannot_be_read_says_why_and_harms_no_other(reply, why):
    engine = ScriptedEngine(lambda messages, asking: reply if "bad" in messages[-1]["content"] else "yes")
    output = run(config("binary"), engine, ["good", "bad", "good"])
    assert output.usable().tolist() == [True, False, True]
    assert why in output.unreadable[1]
    assert np.isnan(output.probabilities[1]).all()
    assert output.probabilities[2].tolist() == [0, 1]

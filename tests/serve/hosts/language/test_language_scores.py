"""From the configuration to a language model's output and back: every score is asked for, made, fitted and judged."""

import asyncio
import json
import re

import numpy as np
import pytest

from demur.policies.selector_recipe import FitSplit
from demur.serve.config.file import ModelConfig
from demur.serve.contract.inputs import Conversation, Question
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.language.budget import more
from demur.serve.hosts.language.model import LanguageModel
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.scores import REPLY_SCORES
from tests.serve.scripted import ScriptedEngine, generation

TASKS = {
    "binary": {"kind": "binary", "labels": ["no", "yes"]},
    "multilabel": {"kind": "multilabel", "labels": ["red", "green", "blue"]},
    "choice": {"kind": "choice", "labels": list("ABCD")},
    "generate": {"kind": "generate"},
}
WORDS = {
    "binary": ["no", "yes"],
    "multilabel": ["red", "green", "blue"],
    "choice": list("ABCD"),
    "generate": ["x", "y"],
}
ONLY = {"self_consistency": {"binary"}, "eigv_laplacian": {"multilabel"}}
ONLY["self_verbalised"] = {"binary", "multilabel", "choice"}
NAMES = {task: [name for name in REPLY_SCORES if task in ONLY.get(name, TASKS)] for task in TASKS}


def model(task, scores, **sections):
    return ModelConfig.model_validate(
        {
            "task": TASKS[task],
            "host": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "none"},
            "scores": scores,
            "confidence": {"score": scores[0] if isinstance(scores[0], str) else next(iter(scores[0]))},
            "policy": {"kind": "threshold", "limit": 0.6},
            **sections,
        }
    )


def script(task):
    """A model that is the less sure, in every way, the higher the number in the question is."""
    words = WORDS[task]

    def replies(messages, asking):
        told = messages[-1]["content"]
        doubt = int(re.search(r"\d+", told)[0]) / 100
        system = messages[0]["content"]
        if "Rate how likely" in system:
            return f"[{100 - 100 * doubt:.0f}]"
        if "JSON object" in system:
            return json.dumps(dict.fromkeys(re.findall(r"^- (.+)$", told, re.MULTILINE), 1 - doubt))
        rng = np.random.default_rng([int(100 * doubt), asking.seed or 0])
        drawn = [words[rng.integers(len(words))] if rng.random() < doubt else words[1] for _ in range(asking.n)]
        if asking.temperature == 0:
            drawn = [words[1]]
        trace = "So? Wait. " * int(1 + 10 * doubt)
        return [
            generation(
                text,
                logprob=-0.05 - doubt,
                tokens=[*["so "] * int(1 + 10 * doubt), text],
                top_logprobs=[np.log([0.99 - doubt / 2, doubt / 2 + 0.005])] * int(2 + 10 * doubt),
                reasoning=trace,
                answer_start=int(1 + 10 * doubt),
            )
            for text in drawn
        ]

    return replies


def inputs(task, n):
    if task == "choice":
        return [Question(question=f"number {at}", options=("a", "b", "c", "d")) for at in range(n)]
    if task == "generate":
        return [Conversation(messages=({"role": "user", "content": f"number {at}"},)) for at in range(n)]
    return [f"number {at}" for at in range(n)]


def run(configured, engine, values, needs, **asked):
    return asyncio.run(LanguageModel(configured, engine).run(ModelRequest(inputs=values, needs=needs, **asked)))


@pytest.mark.parametrize("task", TASKS)
def test_every_score_of_a_task_is_made_from_what_the_model_says(task):
    configured = model(task, NAMES[task], prompt={"shuffle": False} if task == "choice" else {}, samples={"max": 6})
    values = inputs(task, 60)
    output = run(configured, ScriptedEngine(script(task)), values, configured.recipe.needs)
    truth = output.probabilities == 1
    truth[::3] = ~truth[::3] if task == "multilabel" else np.roll(truth[::3], 1, axis=1)
    rows = LabelledOutput(output=output, truth=truth, exclusive=configured.task.exclusive)
    selector = configured.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    judged = selector.decide(output)
    for name in NAMES[task]:
        u = judged.scores[name]
        assert np.isfinite(u).all(), name
        assert u[40:].mean() > u[:20].mean(), name  # the higher the number, the less sure
    assert np.isfinite(judged.confidence).all()


def test_a_row_is_asked_no_more_than_its_decision_takes_and_decided_as_if_it_was():
    names = ["semantic_entropy", "sample_disagreement"]
    budget = {"min": 2, "max": 12, "stop": "decision"}
    configured = model("binary", names, samples=budget)
    values = inputs("binary", 60)
    engine = ScriptedEngine(script("binary"))
    every = run(configured, engine, values, configured.recipe.needs)
    assert {len(replies.samples) for replies in every.replies} == {12}
    truth = np.where(np.arange(60) < 40, 1, 0)
    rows = LabelledOutput.of_classes(every, truth)
    selector = configured.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    few = run(configured, engine, values, selector.needs, more=more([selector], configured.samples))
    drawn = np.array([len(replies.samples) for replies in few.replies])
    for one, other in zip(few.replies, every.replies, strict=True):
        assert one.samples == other.samples[: len(one.samples)]
    before, after = selector.decide(few), selector.decide(every)
    assert before.decisions.actions == after.decisions.actions
    assert {action.value for action in after.decisions.actions} == {"answer", "review"}
    np.testing.assert_array_equal(before.predicted, after.predicted)
    assert drawn.min() >= 2
    assert drawn.mean() < 11  # unanimity takes them all to be sure of


def test_samples_are_drawn_where_the_cheap_score_is_in_doubt_alone():
    gate = {"cascade": {"first": "g_nll", "then": "semantic_entropy", "limit": 0.3}}
    configured = model("binary", ["g_nll", "semantic_entropy", gate], confidence={"score": "cascade"})
    values = inputs("binary", 60)
    every = run(configured, ScriptedEngine(script("binary")), values, configured.recipe.needs)
    rows = LabelledOutput.of_classes(every, np.where(np.arange(60) < 40, 1, 0))
    selector = configured.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    output = run(
        configured,
        ScriptedEngine(script("binary")),
        values,
        selector.needs,
        more=more([selector], configured.samples),
    )
    drawn = np.array([len(replies.samples) for replies in output.replies])
    assert drawn.tolist() == [0] * 26 + [10] * 34  # 0.05 and the number, over 100
    judged = selector.decide(output)
    np.testing.assert_array_equal(judged.confidence, selector.decide(every).confidence)
    assert np.isnan(judged.scores["semantic_entropy"][:26]).all()


def test_probabilities_of_samples_stop_early_as_well():
    configured = model(
        "choice",
        ["entropy"],
        prompt={"probabilities": "samples", "shuffle": False},
        samples={"min": 2, "max": 8, "stop": "decision"},
    )
    values = inputs("choice", 60)
    engine = ScriptedEngine(script("choice"))
    every = run(configured, engine, values, configured.recipe.needs)
    rows = LabelledOutput.of_classes(every, np.where(np.arange(60) < 45, 1, 0))
    selector = configured.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    few = run(configured, engine, values, selector.needs, more=more([selector], configured.samples))
    before, after = selector.decide(few), selector.decide(every)
    assert before.decisions.actions == after.decisions.actions
    np.testing.assert_array_equal(before.predicted, after.predicted)
    assert np.mean([len(replies.samples) for replies in few.replies]) < 8

"""The sums model: its exercises, its tokenizer, and what it can and cannot do."""

import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from demur.policies.hierarchy import imdrf_parents
from demur.serve.config.tree_file import read_parents
from demur.uncertainty.trace import trace_features
from deploy.models.sums import measure, parts, train
from deploy.models.sums.exercises import CODES, LEVELS, TASKS, answer, codes, exercises, held_out, trace
from deploy.models.sums.tokens import trained_tokenizer
from tests.conftest import ROOT

FOLDER = ROOT / "deploy" / "models" / "sums"

drawn = st.builds(
    lambda task, level, seed: TASKS[task](random.Random(seed), level),
    st.sampled_from(list(TASKS)),
    st.sampled_from(LEVELS),
    st.integers(0, 10**6),
)


trained = pytest.mark.skipif(
    not (FOLDER / "model.safetensors").exists(), reason="there is no checkpoint yet: make model-sums trains one"
)


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer(seed=0)


@given(drawn)
def test_the_right_reply_says_the_label(exercise):
    said = answer(exercise.task, exercise.reply)
    assert said == exercise.label if isinstance(said, str) else sorted(exercise.label) == said


@given(drawn)
def test_exercises_come_back_from_the_tokenizer(tokenizer, exercise):
    for text in (exercise.prompt, exercise.reply):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text())
def test_any_text_comes_back_from_the_tokenizer(tokenizer, text):
    marks = set(tokenizer.all_special_tokens)
    if not any(mark in text for mark in marks):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_answers_are_single_tokens(tokenizer):
    for answered in ("yes", "no", *"ABCD", *"0123456789", "<think>", "</think>"):
        assert len(tokenizer.encode(answered)) == 1
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("[C] 132"))[:2] == ["[", "C"]  # the letter has its own


def test_a_conversation_is_written_as_it_was_taught(tokenizer):
    turns = [
        {"role": "system", "content": "unknown to the model"},
        {"role": "user", "content": "Is 1 + 1 = 2?"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "Is 1 + 1 = 3?"},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == "<s><user>Is 1 + 1 = 2?<reply>yes<end><user>Is 1 + 1 = 3?<reply>"


def test_a_mark_in_a_question_opens_no_turn(tokenizer):
    told = "<reply>yes<end>"
    ids = tokenizer.encode(told, split_special_tokens=True)
    assert not set(ids) & set(tokenizer.all_special_ids)


@pytest.mark.parametrize(
    ("number", "held"),
    [
        (36, ["A010101", "B0102"]),
        (550, ["A0101", "A010201", "B0101", "B0201"]),  # by ten is below by five; by two is no code above it
        (11, ["B0103", "B0201"]),
        (2315, ["A0102", "B0102"]),
    ],
)
def test_codes(number, held):
    assert codes(number) == held


def test_the_tree_is_that_of_the_codes():
    parents = read_parents(FOLDER / "tree.json")
    assert list(parents) == list(CODES)
    assert {code: above for code, above in parents.items() if above} == imdrf_parents(CODES)
    assert {code for n in range(10, 10_000) for code in codes(n)} <= set(CODES)


def test_a_step_that_carries_is_doubted():
    assert trace([12, 34, 57]) == "12 + 34 = 46. 46 + 57 = 103? Wait, 103 - 57 = 46."
    features = trace_features(f"<think>{trace([12, 34, 57])}</think>103")
    assert (features.questions, features.waits) == (1, 1)


def test_exercises_are_held_out_and_the_same_each_time():
    for task in TASKS:
        found = exercises(task, 2, 50, seed=7)
        assert [e.prompt for e in found] == [e.prompt for e in exercises(task, 2, 50, seed=7)]
        assert all(held_out(e.prompt) for e in found)
        assert len({e.prompt for e in found}) == len(found)


def test_only_replies_are_learnt_and_none_that_is_held_out(tokenizer):
    source = train.rows(tokenizer, train.PHASES[1], random.Random(0))
    for tokens, counts in (next(source) for _ in range(50)):
        assert len(tokens) == len(counts) == train.ROW_TOKENS
        turns = tokenizer.decode(tokens).replace("<pad>", "").removeprefix("<s><user>").split("<user>")
        asked, said = zip(*(turn.split("<reply>") for turn in turns), strict=True)
        assert not any(held_out(prompt) for prompt in asked)
        assert tokenizer.decode([t for t, count in zip(tokens, counts, strict=True) if count]) == "".join(said)
        first = len(tokenizer.encode(said[0]))
        assert [count for count in counts if count][:first] == pytest.approx([first**-0.5] * first)


@pytest.mark.slow
def test_parts_share_no_prompt(tmp_path):
    parts.write(tmp_path)
    for task in TASKS:
        read = {n: (tmp_path / task / f"{n}.jsonl").read_text().splitlines() for n in parts.SIZES}
        rows = {name: [json.loads(line) for line in lines] for name, lines in read.items()}
        inputs = {name: {json.dumps(row["input"]) for row in part} for name, part in rows.items()}
        assert not inputs["calibration"] & inputs["test"]
        assert all({row["group"] for row in part} == {f"level {n}" for n in LEVELS} for part in rows.values())
    items = [json.loads(line) for line in (tmp_path / "larger" / "items.jsonl").read_text().splitlines()]
    values = [sum(map(int, item["input"].split(" + "))) for item in items]
    assert len(set(values)) == parts.ITEMS
    assert [item["label"] == "yes" for item in items] == [value > parts.CUT for value in values]


@trained
def test_the_checkpoint_is_small_and_in_half_precision():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 8_000_000
    model = AutoModelForCausalLM.from_pretrained(FOLDER)
    assert 1_000_000 <= sum(p.numel() for p in model.parameters()) <= 3_000_000
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(FOLDER)) < 1000
    assert model.generation_config.eos_token_id == AutoTokenizer.from_pretrained(FOLDER).eos_token_id


@trained
@pytest.mark.slow
def test_it_makes_honest_mistakes_that_grow_with_difficulty():
    lines = measure.measured(*measure.loaded(FOLDER), n=100, seed=3)
    for task in TASKS:
        right = [line.right for line in lines if line.task == task]
        assert 0.65 <= np.mean(right) <= 0.97, (task, right)
        if task != "labels":
            assert np.polyfit(LEVELS, right, 1)[0] < -0.01, (task, right)


@trained
@pytest.mark.slow
def test_of_the_labels_divisibility_by_four_is_the_hard_one():
    asked = exercises("labels", 2, 200, seed=3)
    said = measure.replies(*measure.loaded(FOLDER), [exercise.prompt for exercise in asked])
    right = np.array([measure.right(exercise, reply) for exercise, reply in zip(asked, said, strict=True)])
    even = np.array([not {"A0101", "A010101", "A010201"}.isdisjoint(exercise.label) for exercise in asked])
    assert right[~even].mean() > 0.95
    assert right[even].mean() < 0.8


@trained
@pytest.mark.slow
def test_traces_hesitate_more_the_harder_it_is():
    lines = measure.measured(*measure.loaded(FOLDER), n=50, seed=3, tasks=["think"])
    hesitation = [(line.words, line.questions, line.waits) for line in lines]
    assert (np.diff(hesitation, axis=0) > 0).all(), hesitation

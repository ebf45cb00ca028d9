from pathlib import Path

import pytest

from demur.serve.contract.inputs import Question
from demur.serve.hosts.language.forms import UnfitExample, form_of
from demur.serve.hosts.language.prompts import BadPrompt, Prompt, Prompts, prompt_fingerprint
from tests.conftest import ROOT
from tests.serve.scripted import HOST, configured

SUMS = ROOT / "deploy/models/sums/prompts"
QUESTION = Question(question="What is 47 + 85?", options=("122", "131", "132", "142"))


def asked(task, value, examples=(), order=None, **prompt):
    model = configured(task, prompt=prompt)
    return form_of(model, Prompts(model)).asked(value, examples, order)


def roles(messages):
    return [message["role"] for message in messages]


@pytest.mark.parametrize(
    ("task", "value", "wording"),
    [
        ("multiclass", "a pale sky", ["- red", "- green", "- blue", "a pale sky"]),
        ("multilabel", "a report", ["- A01", "- A0101", "a report", "one on each line"]),
        ("choice", QUESTION, ["What is 47 + 85?", "[C] 132", "[D] 142"]),
    ],
)
def test_every_kind_of_task_has_a_prompt_of_its_own(task, value, wording):
    messages = asked(task, value).messages
    assert roles(messages) == ["system", "user"]
    whole = "\n".join(message["content"] for message in messages)
    for words in wording:
        assert words in whole


def test_a_reply_as_json_is_asked_for_in_other_words():
    system = asked("multilabel", "a report", reply="json").messages[0]["content"]
    assert "JSON" in system
    assert "one on each line" not in system


def test_texts_are_not_escaped_and_templates_in_them_are_not_run():
    text = "a < b & {{ 1 + 1 }} {% block user %} 'x'"
    assert asked("multiclass", text).messages[-1]["content"] == text


@pytest.mark.parametrize(
    ("task", "value", "template", "prompt", "texts"),
    [
        (
            "choice",
            QUESTION,
            "choice",
            "What is 47 + 85?\n[A] 122\n[B] 131\n[C] 132\n[D] 142",
            ("[A] 122", "[B] 131", "[C] 132", "[D] 142"),
        ),
        ("binary", "Is 17 + 25 = 43?", "claim", "Is 17 + 25 = 43?", ("no", "yes")),
        ("multilabel", "Which labels fit 42?", "labels", "Which labels fit 42?", ()),
    ],
)
def test_sums_is_asked_in_exactly_its_words(task, value, template, prompt, texts):
    found = asked(task, value, template=str(SUMS / f"{template}.jinja"))
    assert list(found.messages) == [{"role": "user", "content": prompt}]
    assert found.texts == texts
    assert found.question == prompt


def test_sums_compares_in_exactly_its_words():
    model = configured("binary", prompt={"pair_template": str(SUMS / "pair.jinja")})
    assert list(Prompts(model).pair("17 + 25", "40 + 31")) == [
        {"role": "user", "content": "Which is larger?\n[A] 17 + 25\n[B] 40 + 31"}
    ]


def test_options_are_shown_in_another_order_with_the_letters_in_theirs():
    found = asked("choice", QUESTION, order=(2, 0, 1, 3), template=str(SUMS / "choice.jinja"))
    assert found.messages[-1]["content"] == "What is 47 + 85?\n[A] 132\n[B] 122\n[C] 131\n[D] 142"
    assert found.texts[0] == "[A] 132"
    assert found.order == (2, 0, 1, 3)


@pytest.mark.parametrize(
    ("task", "value", "template", "example", "turn"),
    [
        ("binary", "a text", "claim", ("another", "yes"), "yes"),
        ("choice", QUESTION, "choice", (Question(question="?", options=("x", "y")), "B"), "[B] y"),
        ("choice", QUESTION, "choice", (Question(question="?", options=("x", "y")), "y"), "[B] y"),
        ("multilabel", "a text", "labels", ("another", ["A0101", "B01"]), "A0101\nB01"),
    ],
)
def test_examples_stand_before_the_question_as_turns(task, value, template, example, turn):
    found = asked(task, value, [example, example], template=str(SUMS / f"{template}.jinja"))
    assert roles(found.messages) == ["user", "assistant", "user", "assistant", "user"]
    assert found.messages[1]["content"] == found.messages[3]["content"] == turn
    assert found.messages[-1]["content"] == found.question  # which has no examples in it


def test_examples_of_json_are_json_and_nothing_is_none():
    system, _, turn, *_ = asked("multilabel", "a text", [("b", ["A01"])], reply="json").messages
    assert turn["content"] == '{"A01": 1.0}'
    assert "JSON" in system["content"]
    assert asked("multilabel", "a text", [("b", [])]).messages[2]["content"] == "none"


@pytest.mark.parametrize(
    ("task", "value", "example"),
    [
        ("binary", "a text", ("b", "perhaps")),
        ("binary", "a text", ("b", ["yes"])),
        ("multilabel", "a text", ("b", ["Z99"])),
        ("choice", QUESTION, (Question(question="?", options=("x", "y")), "C")),
    ],
)
def test_an_example_that_does_not_fit_is_refused(task, value, example):
    with pytest.raises(UnfitExample):
        asked(task, value, [example])


def test_the_second_steps_are_told_what_they_ask_about():
    prompts = Prompts(configured("choice"))
    said = prompts.rating.messages({"question": "What is 2 + 2?", "answer": "4"})
    assert "square brackets" in said[0]["content"]
    assert "What is 2 + 2?" in said[1]["content"]
    assert said[1]["content"].endswith("4")
    compared = Prompts(configured("binary")).pair("one", "two")
    assert '"yes"' in compared[0]["content"]
    assert compared[1]["content"].index("one") < compared[1]["content"].index("two")


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_fingerprint_is_of_what_is_asked(tmp_path):
    same = "{% block user %}{{ input }}{% endblock %}{% block assistant %}{{ answer }}{% endblock %}"
    rows = '{"input": "a", "label": "yes"}\n'
    few_shot = {"examples": write(tmp_path, "rows.jsonl", rows)}
    models = [
        configured("binary"),
        configured({"kind": "binary", "labels": ["yes", "no"]}),
        configured("multiclass"),
        configured("choice"),
        configured("choice", prompt={"shuffle": False}),
        configured("multilabel"),
        configured("multilabel", prompt={"reply": "json"}),
        configured("generate"),
        configured({"kind": "generate", "match": "number"}),
        configured("binary", prompt={"probabilities": "samples"}),
        configured("binary", prompt={"constrained": True}),
        configured("binary", prompt={"template": write(tmp_path, "a.jinja", same)}),
        configured("binary", prompt={"template": write(tmp_path, "b.jinja", same + " ")}),
        configured("binary", prompt={"rating_template": write(tmp_path, "c.jinja", same)}),
        configured("binary", prompt={"few_shot": few_shot}),
        configured("binary", prompt={"few_shot": {**few_shot, "k": 3}}),
        configured("binary", prompt={"few_shot": {"examples": write(tmp_path, "more.jsonl", rows + rows)}}),
        configured("binary", prompt={"few_shot": {"examples": "reviews"}}),
    ]
    prints = [prompt_fingerprint(model) for model in models]
    assert len(set(prints)) == len(prints)
    assert prints == [prompt_fingerprint(model) for model in models]


def test_the_fingerprint_is_of_contents_and_not_of_places(tmp_path):
    text = "{% block user %}{{ input }}{% endblock %}"
    rows = '{"input": "a", "label": "yes"}\n'
    one, other = (
        configured(
            "binary",
            prompt={
                "template": write(tmp_path, f"{name}.jinja", text),
                "few_shot": {"examples": write(tmp_path, f"{name}.jsonl", rows)},
            },
        )
        for name in ("one", "other")
    )
    assert prompt_fingerprint(one) == prompt_fingerprint(other)


def test_what_is_never_asked_does_not_count(tmp_path):
    text = "{% block user %}{{ first }} {{ second }}{% endblock %}"
    pair = configured("binary", prompt={"pair_template": write(tmp_path, "pair.jinja", text)})
    assert prompt_fingerprint(pair) == prompt_fingerprint(configured("binary"))
    tournament = {"ratings": "ratings.json"}
    compared = {"scores": ["entropy"], "confidence": {"score": "entropy"}}
    told = [
        configured("binary", host={**HOST, "tournament": tournament}, prompt=prompt, **compared)
        for prompt in ({}, {"pair_template": str(tmp_path / "pair.jinja")})
    ]
    assert prompt_fingerprint(told[0]) != prompt_fingerprint(told[1])


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (b"\xff", "is no text in UTF-8"),
        (b"{% block user %}{% for i in range(999999999) %}x{% endfor %}{% endblock %}", "block user"),
        (b"{% block user %}{{ input + 1 }}{% endblock %}", "block user"),
        (b"{% block user %}{{ input.__class__ }}{% endblock %}", "unsafe"),
    ],
)
def test_a_template_that_does_harm_is_a_bad_prompt(tmp_path, source, complaint):
    path = tmp_path / "mine.jinja"
    path.write_bytes(source)
    with pytest.raises(BadPrompt, match=complaint):
        Prompt(path).messages({"input": "a text"})

from pathlib import Path

import pytest
import yaml

from demur.serve.config.file import BadConfig, with_absolute_paths
from demur.serve.configuration import load_config
from tests.conftest import ROOT
from tests.serve.scripted import settings

CLASSIFIER = {"kind": "classifier", "checkpoint": "somebody/some-model"}


def content(task, **sections):
    if sections.get("host") is CLASSIFIER:
        sections = {"scores": ["entropy"], "confidence": {"score": "entropy"}, **sections}
    return {"models": {"it": settings(task, **sections)}}


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def of(told):
        Path("demur.yaml").write_text(yaml.safe_dump(told))
        return load_config(Path("demur.yaml"))

    return of


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "choice", "generate"])
def test_every_kind_of_task_can_be_configured(load, kind):
    assert load(content(kind)).models["it"].task.kind == kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (
            content("binary", host=CLASSIFIER, prompt={"probabilities": "samples"}),
            "prompt: this section is for language",
        ),
        (content("binary", host=CLASSIFIER, samples={"max": 3}), "samples: this section is for language models"),
        (content("binary", host=CLASSIFIER, chat={"proxy": True}), "chat: this section is for language models"),
        (content("choice", host=CLASSIFIER), "task.kind: choice is for language models"),
        (content("generate", host=CLASSIFIER), "task.kind: generate is for language models"),
        (content({"kind": "binary", "match": "number"}), "task.match: this is for generate tasks"),
        (content("multilabel", prompt={"probabilities": "samples"}), "several labels may be right"),
        (content("multilabel", prompt={"probabilities": "first_token"}), "leave it at `reply`"),
        (content("generate", prompt={"probabilities": "full_label"}), "no labels to choose from"),
        (
            content("multilabel", prompt={"constrained": True}),
            "prompt.constrained: this is for binary and multiclass and",
        ),
        (content("generate", prompt={"constrained": True}), "any text"),
        (content("generate", prompt={"template": "x.jinja"}), "passed on as it is"),
        (content("generate", prompt={"few_shot": {"examples": "reviews"}}), "passed on as it is"),
        (content("binary", prompt={"shuffle": False}), "prompt.shuffle: this is for choice tasks"),
        (content("binary", prompt={"reply": "json"}), "prompt.reply: this is for multilabel tasks"),
        (content("multiclass", prompt={"mapping_template": "x"}), "mapping_template: this is for choice tasks"),
        (content("multiclass", prompt={"pair_template": "x"}), "pair_template: this is for binary tasks"),
        (content({"kind": "binary", "labels": ["Yes", "yes."]}), "cannot be told apart"),
        (content({"kind": "binary", "labels": ["yes", "?"]}), "cannot be read from a reply"),
        (content({"kind": "multilabel", "labels": ["a\nb", "c"]}), "one line"),
        (content("binary", samples={"min": 3}), "go together"),
        (content("binary", samples={"min": 30, "max": 20, "stop": "decision"}), "above max"),
        (content("binary", prompt={"template": "none.jinja"}), "there is no such file"),
        (content("binary", prompt={"rating_template": "none.jinja"}), "there is no such file"),
        (content("binary", prompt={"few_shot": {"examples": "none.jsonl"}}), "there is no file"),
        (content("binary", prompt={"few_shot": {"examples": "none.jsonl", "k": 0}}), "k"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(load, told, complaint):
    with pytest.raises(BadConfig) as refused:
        load(told)
    assert complaint in str(refused.value)
    assert "models.it" in str(refused.value)


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{% block user %}{{ inptu }}{% endblock %}", "'inptu' is undefined"),
        ("{% block user %}\n{{ input \n{% endblock %}", "line 3"),
        ("{{ input }}", "no block `user`"),
        ("{% block user %}{{ input }}{% endblock %}{% block usr %}{% endblock %}", "'usr'"),
        ("{% block user %}{{ input.__class__ }}{% endblock %}", "unsafe"),
        ("{% block user %}{{ input }}{% endblock %}{% block assistant %}{{ label }}{% endblock %}", "block assistant"),
        ("{% extends 'a' %}{% block user %}{{ input }}{% endblock %}", "builds on another file"),
    ],
)
def test_a_template_that_cannot_be_asked_is_refused_at_load(load, tmp_path, template, complaint):
    (tmp_path / "mine.jinja").write_text(template)
    with pytest.raises(BadConfig, match=r"models\.it\.prompt") as refused:
        load(content("binary", prompt={"template": "mine.jinja"}))
    assert complaint in str(refused.value)


def test_examples_need_to_be_told_how_an_answer_is_written(load, tmp_path):
    (tmp_path / "mine.jinja").write_text("{% block user %}{{ input }}{% endblock %}")
    assert load(content("binary", prompt={"template": "mine.jinja"}))
    with pytest.raises(BadConfig, match="no block `assistant`"):
        load(content("binary", prompt={"template": "mine.jinja", "few_shot": {"examples": "reviews"}}))


def test_paths_are_absolute_for_whoever_runs_elsewhere(load, tmp_path):
    both = "{% block user %}{{ input }}{% endblock %}{% block assistant %}{{ answer }}{% endblock %}"
    (tmp_path / "mine.jinja").write_text(both)
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "label": "yes"}\n')
    (tmp_path / "encoder").mkdir()
    few_shot = {"examples": "rows.jsonl", "embedding": "encoder"}
    config = load(content("binary", prompt={"template": "mine.jinja", "few_shot": few_shot}))
    prompt = config.models["it"].prompt
    assert prompt.template == tmp_path / "mine.jinja"
    assert prompt.few_shot.examples == tmp_path / "rows.jsonl"
    assert prompt.few_shot.embedding == str(tmp_path / "encoder")
    assert prompt.mapping_template is None
    assert with_absolute_paths(config, Path("/elsewhere")) == config


def test_reviews_are_no_path(load):
    config = load(content("binary", prompt={"few_shot": {"examples": "reviews"}}))
    assert config.models["it"].prompt.few_shot.examples == "reviews"
    assert config.models["it"].prompt.few_shot.embedding == "tfidf"


@pytest.mark.parametrize(
    ("kind", "template"), [("choice", "choice"), ("binary", "claim"), ("multilabel", "labels"), ("binary", "pair")]
)
def test_the_prompts_of_sums_can_be_asked(load, kind, template):
    place = "pair_template" if template == "pair" else "template"
    path = ROOT / "deploy/models/sums/prompts" / f"{template}.jinja"
    load(content(kind, prompt={place: str(path)}))

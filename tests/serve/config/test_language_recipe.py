import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

from demur.policies.conformal_sets import SampleFrequencySets, SplitSets
from demur.policies.selector_recipe import FitSplit
from demur.serve.cli import app
from demur.serve.commands.score_cost import costs
from demur.serve.config.complaint import complaint
from demur.serve.config.file import ModelConfig
from demur.serve.contract.decided import as_columns
from demur.uncertainty.combination import Combined
from demur.uncertainty.sampled_scores import OverSamples
from demur.uncertainty.score_cascade import Cascade
from demur.uncertainty.scores import REPLY_SCORES
from demur.uncertainty.token_scores import TokenEntropy
from demur.uncertainty.trace_scores import Trace
from tests.uncertainty.written import asked

TASKS = {
    "binary": {"kind": "binary", "labels": ["no", "yes"]},
    "multiclass": {"kind": "multiclass", "labels": ["a", "b", "c"]},
    "multilabel": {"kind": "multilabel", "labels": ["a", "b", "c"]},
    "choice": {"kind": "choice", "labels": ["A", "B", "C", "D"]},
    "generate": {"kind": "generate"},
}
HOSTS = {
    "classifier": {"kind": "classifier", "checkpoint": "somebody/classifier"},
    "transformers": {"kind": "transformers", "checkpoint": "somebody/writer", "max_tokens": 40},
    "silent": {"kind": "openai", "base_url": "http://127.0.0.1:1", "model": "m", "gives_logprobs": False},
}


def model(task, *scores, host="transformers", **changes):
    """A configured model; confidence comes from its last score."""
    name = scores[-1] if isinstance(scores[-1], str) else next(iter(scores[-1]))
    settings = {
        "task": TASKS[task],
        "host": HOSTS[host],
        "scores": list(scores),
        "confidence": {"score": name, "calibrator": "isotonic"},
        "policy": {"kind": "threshold", "limit": 0.5},
        **changes,
    }
    return ModelConfig.model_validate(settings)


SEVERAL = ("token_entropy", "eigv_laplacian")
EVERYWHERE = [name for name in REPLY_SCORES if name not in ("self_consistency", "eigv_laplacian", "self_verbalised")]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_score_of_replies_can_be_named_in_every_task(name, task):
    assert list(model(task, name).recipe.scores) == [name]


@pytest.mark.parametrize(
    ("task", "entry", "part"),
    [
        ("binary", "self_consistency", None),
        ("multilabel", "eigv_laplacian", None),
        ("choice", "self_verbalised", None),
        (
            "multilabel",
            {"token_entropy": {"residual": "ignore", "reduce": "max", "per": "answer"}},
            TokenEntropy(residual="ignore", reduce="max", per="answer"),
        ),
        ("generate", {"trace": {"method": "ridge", "alpha": 2}}, Trace(method="ridge", alpha=2)),
        ("choice", "bald", OverSamples(name="bald")),
    ],
)
def test_settings_and_scores_of_one_kind_of_task(task, entry, part):
    (found,) = model(task, entry).recipe.scores.values()
    assert part is None or found == part


def test_combinations_of_them():
    combined = model("multilabel", *SEVERAL, {"combined": {"info": "token_entropy", "consistency": "eigv_laplacian"}})
    assert combined.recipe.combinations["combined"] == Combined()
    gated = {"cascade": {"first": "g_nll", "then": "semantic_entropy", "ask_share": 0.3, "as": "doubt"}}
    changed = model("choice", "g_nll", "semantic_entropy", gated, confidence={"score": "doubt"})
    assert changed.recipe.combinations == {"doubt": Cascade(first="g_nll", then="semantic_entropy", ask_share=0.3)}
    assert changed.recipe.needs == {"probabilities", "logprobs", "samples"}


BY_TOKEN, BY_SAMPLES = {"probabilities": "first_token"}, {"probabilities": "samples"}
CONFORMAL = {"kind": "conformal"}
STOP = {"min": 3, "max": 20, "stop": "decision"}


@pytest.mark.parametrize(
    ("task", "scores", "changes", "why"),
    [
        ("multiclass", ["g_nll"], {"host": "classifier"}, "g_nll reads the replies of a language model"),
        ("multiclass", [{"trace": {"method": "x"}}], {"host": "classifier"}, "trace reads the replies"),
        ("multiclass", ["margn"], {"host": "classifier"}, "'margn' is not one of: softmax_response"),
        ("multiclass", ["softmax_response"], {}, "looks at probabilities, which are 1 and 0 here; set `prompt:"),
        ("multilabel", ["binary_entropy"], {}, "looks at probabilities, which are 1 and 0 here"),
        ("generate", ["entropy"], {"prompt": BY_TOKEN}, "first_token is for tasks with one right label"),
        ("multiclass", ["mahalanobis"], {"prompt": BY_TOKEN}, "a language model gives none"),
        ("generate", ["mc_entropy"], {}, "counts labels, and a text has none"),
        ("multilabel", ["mc_entropy"], {}, "is not defined for a multilabel task"),
        ("multiclass", ["self_consistency"], {}, "is for binary tasks, and this is a multiclass one"),
        ("choice", ["eigv_laplacian"], {}, "is for multilabel tasks, and this is a choice one"),
        ("generate", ["self_verbalised"], {}, "a text has none; use rating"),
        ("generate", [{"g_nll": {"per": "label"}}], {}, "`per: label` of g_nll needs labels"),
        ("choice", [{"g_nll": {"per": "word"}}], {}, "scores.0.g_nll.per: write one of: answer, label, reply"),
        (
            "choice",
            [{"g_nll": {"reduce": "sum"}}],
            {},
            "scores.0.g_nll.reduce: g_nll has no such setting; it takes: per",
        ),
        ("choice", [{"semantic_entropy": {"unparsed": "no"}}], {}, "unparsed: write one of: outcome, drop"),
        ("choice", ["g_nll"], {"host": "silent"}, "g_nll needs log-probabilities, and `host.gives_logprobs` is false"),
        ("choice", ["trace_tokens"], {"host": "silent"}, "trace_tokens needs log-probabilities"),
        ("choice", ["rating"], {"host": "silent", "prompt": BY_TOKEN}, "first_token needs log-probabilities"),
        ("multilabel", [{"trace": {"method": "logistic"}}], {}, "trace learns from right and wrong"),
        (
            "choice",
            ["semantic_entropy", "g_nll", {"cascade": {"first": "semantic_entropy", "then": "g_nll", "limit": 1}}],
            {},
            "takes the samples that it should save",
        ),
        ("choice", ["g_nll", {"cascade": {"first": "g_nll", "then": "x", "limit": 1}}], {}, "list x as well"),
        ("choice", ["g_nll"], {"policy": CONFORMAL}, "use `kind: sampled`, which counts sampled replies"),
        ("choice", ["g_nll"], {"prediction_set": {"alpha": 0.1}}, "use `kind: sampled`"),
        ("generate", ["g_nll"], {"policy": CONFORMAL}, "a text has no labels that could be ruled out"),
        ("generate", ["g_nll"], {"prediction_set": {"kind": "sampled"}}, "a text has no labels"),
        (
            "multiclass",
            ["entropy"],
            {"host": "classifier", "prediction_set": {"kind": "sampled", "source": "samples"}},
            "a classifier has passes and no samples",
        ),
        (
            "choice",
            ["g_nll"],
            {"confidence": {"score": "g_nll", "calibrator": "temperature"}},
            "it reads the probabilities",
        ),
        (
            "binary",
            ["g_nll"],
            {"policy": {"kind": "cost", "matrix": {"no": {"no": 0, "yes": 1}, "yes": {"no": 1, "yes": 0}}}},
            "expected costs need probabilities",
        ),
        ("multilabel", ["eigv_laplacian"], {"samples": STOP}, "cannot be counted in a multilabel task"),
        ("generate", ["semantic_entropy"], {"samples": STOP}, "cannot be counted in a generate task"),
        (
            "choice",
            ["entropy"],
            {"samples": STOP, "prompt": BY_SAMPLES, "prediction_set": {"kind": "group_conditional"}},
            "sets that differ by group",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(task, scores, changes, why):
    with pytest.raises(ValidationError) as refused:
        model(task, *scores, **changes)
    assert why in complaint(refused.value)


@pytest.mark.parametrize("by", ["first_token", "full_label", "samples"])
def test_probabilities_that_tell_something_are_scored_as_those_of_a_classifier(by):
    found = model("choice", "softmax_response", "entropy", "margin", prompt={"probabilities": by}).recipe
    assert found.sampled == (by == "samples")
    assert found.needs == ({"probabilities", "samples"} if by == "samples" else {"probabilities"})
    assert found.sets == SplitSets()


def test_temperature_goes_with_probabilities_that_tell_something():
    confidence = {"score": "entropy", "calibrator": "temperature"}
    assert model("choice", "entropy", prompt=BY_TOKEN, confidence=confidence).recipe.calibrator.reads == "logits"


@pytest.mark.parametrize("task", ["binary", "multiclass", "choice", "generate"])
def test_the_prediction_alone_is_the_set_where_nothing_else_is_known(task):
    assert model(task, "g_nll").recipe.sets is None


@pytest.mark.parametrize("prediction_set", [{}, {"kind": "sampled", "alpha": 0.2}])
def test_from_the_configuration_to_what_is_told(prediction_set):
    configured = model("choice", "g_nll", "semantic_entropy", prediction_set=prediction_set)
    rows = asked(np.random.default_rng(0), n=80, width=4)
    selector = configured.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    told = as_columns(
        "m-1",
        configured.task.labels,
        rows.output,
        selector.decide(rows.output),
        exclusive=configured.task.exclusive,
        model_milliseconds=1.0,
    )
    for replies, prediction, members in zip(rows.output.replies, told.predictions, told.prediction_sets, strict=True):
        assert prediction == configured.task.labels[replies.said]
        assert members[0] == prediction
        assert len(members) == 1 or prediction_set
    assert set(told.scores) == {"g_nll", "semantic_entropy"}


def test_sets_of_samples():
    found = model("choice", "g_nll", prediction_set={"kind": "sampled", "alpha": 0.1}, policy=CONFORMAL).recipe
    assert found.sets == SampleFrequencySets(alpha=0.1, source="samples")
    assert found.needs == {"probabilities", "logprobs", "samples"}
    classifier = model("multiclass", "entropy", host="classifier", prediction_set={"kind": "sampled", "alpha": 0.1})
    assert classifier.recipe.sets.source == "passes"
    assert classifier.recipe.needs == {"probabilities", "mc_probabilities"}


def test_a_silent_endpoint_can_still_be_sampled_and_asked():
    words = {"trace_tokens": {"count": "words"}}
    assert model("choice", "semantic_entropy", "rating", words, host="silent").recipe.needs >= {"samples", "rating"}


def test_each_score_says_what_it_costs():
    gated = {"cascade": {"first": "g_nll", "then": "semantic_entropy", "limit": 1.0}}
    found = costs(
        model(
            "multilabel",
            "g_nll",
            "token_entropy",
            "semantic_entropy",
            "rating",
            "self_verbalised",
            "trace_waits",
            gated,
            samples={"max": 7},
        )
    )
    assert {name: cost.words for name, cost in found.items()} == {
        "g_nll": "log-probabilities of the first reply",
        "token_entropy": "alternatives of each token of the first reply",
        "semantic_entropy": "7 sampled replies",
        "rating": "1 more reply (self-reported)",
        "self_verbalised": "1 more reply (self-reported)",
        "trace_waits": "nothing beyond the first reply",
        "cascade": "that of g_nll, and of semantic_entropy for rows above its limit",
    }
    assert (found["semantic_entropy"].calls, found["semantic_entropy"].tokens) == (7, 280)
    assert (found["cascade"].calls, found["cascade"].tokens) == (7, 280)
    assert (found["g_nll"].calls, found["g_nll"].tokens) == (0, 0)


def test_the_least_and_the_most_that_a_budget_allows():
    assert (
        costs(model("choice", "semantic_entropy", samples=STOP))["semantic_entropy"].words == "3 to 20 sampled replies"
    )
    by_samples = model("choice", "entropy", prompt=BY_SAMPLES)
    assert costs(by_samples)["entropy"].words == "10 sampled replies"
    by_token = model("choice", "entropy", prompt=BY_TOKEN)
    assert costs(by_token)["entropy"].words == "the log-probabilities of the labels after the prompt"
    stated = model("multilabel", "self_verbalised", prompt={"reply": "json"})
    assert costs(stated)["self_verbalised"].words == "nothing beyond the first reply (self-reported)"
    passes = model("multiclass", "entropy", "bald", host="classifier")
    assert [cost.words for cost in costs(passes).values()] == [
        "nothing beyond the first pass",
        "20 more passes with dropout left on",
    ]
    assert [cost.calls for cost in costs(passes).values()] == [0, 20]


def test_demur_check_has_a_line_for_each_score(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = {
        "models": {
            "m": {
                "task": TASKS["choice"],
                "host": HOSTS["silent"],
                "scores": ["semantic_entropy", "rating"],
                "confidence": {"score": "semantic_entropy"},
                "policy": {"kind": "threshold", "limit": 0.5},
            }
        }
    }
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    shown = CliRunner().invoke(app, ["check", "--offline", "demur.yaml"])
    assert shown.exit_code == 0, shown.output
    assert "    semantic_entropy: 10 sampled replies\n    rating: 1 more reply (self-reported)\n" in shown.output

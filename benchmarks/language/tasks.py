"""The tasks of the sums model as demur is told of them: all of it could stand in a configuration file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demur.serve.config.file import ModelConfig
from deploy.models.sums.exercises import CODES, LETTERS, LEVELS, Exercise, exercises

CHECKPOINT = Path(__file__).parents[2] / "deploy" / "models" / "sums"
SEED = 11
"""Of the exercises: not that of any file which the quickstart fits on."""

TOKENS = ["avg_neg_logprob", "max_neg_logprob", "perplexity", "improbability", "g_nll", "avg_token_prob"]
"""`sequence_confidence` is `avg_neg_logprob` on another scale, and listed beside it."""

Setting = str | dict[str, dict[str, Any]]

OF_TOKENS: list[Setting] = [*TOKENS, "sequence_confidence", "token_entropy"]
OF_ANSWERS: list[Setting] = [
    *({name: {"per": "answer", "as": f"{name}, whole answer"}} for name in ("g_nll", "max_neg_logprob")),
    {"token_entropy": {"per": "answer", "as": "token_entropy, whole answer"}},
    {"token_entropy": {"reduce": "max", "as": "token_entropy, max"}},
]
OF_REPLIES: list[Setting] = [
    {name: {"per": "reply", "as": f"{name}, with the trace"}} for name in ("g_nll", "max_neg_logprob", "token_entropy")
]
OF_SAMPLES: list[Setting] = ["semantic_entropy", "sample_disagreement"]
OF_PASSES: list[Setting] = ["sampled_max_probability", "mc_entropy", "probability_variance", "bald"]
OF_TRACES: list[Setting] = [
    "trace_tokens",
    "trace_questions",
    "trace_waits",
    *({"trace": {"method": method, "as": f"trace, {method}"}} for method in ("linear_sum", "logistic", "ridge")),
]
OF_PROBABILITIES: list[Setting] = ["softmax_response", "entropy", "margin"]
BOTH: Setting = {"logistic": {"of": ["g_nll", "semantic_entropy"], "as": "logistic of both"}}
OF_LABELS: list[Setting] = [
    "combined",
    {"combined": {"info": "token_entropy, whole answer", "as": "combined, whole answer"}},
    {"logistic": {"of": ["g_nll, whole answer", "semantic_entropy"], "as": "logistic of both"}},
]
OF_WHOLE: list[Setting] = [
    {"combined": {"info": "token_entropy", "consistency": "semantic_entropy"}},
    {
        "combined": {
            "info": "token_entropy, with the trace",
            "consistency": "semantic_entropy",
            "as": "combined, with the trace",
        }
    },
    {"logistic": {"of": ["g_nll, with the trace", "semantic_entropy"], "as": "logistic of both"}},
]
TWO: Setting = {"combined": {"info": "token_entropy", "consistency": "semantic_entropy"}}


@dataclass(frozen=True, kw_only=True)
class Task:
    name: str
    each: int
    """Exercises of each level, where there are so many."""

    settings: Mapping[str, Any]
    """`task`, and whatever else differs from the defaults."""

    scores: Sequence[Setting]
    cheap: str = "g_nll"
    """Of its scores, the one of a single pass that others are held against."""

    within: Sequence[str] = ()
    """Further ones that are looked at within each level."""

    told: Sequence[str] = ()
    """How the model can be asked for probabilities of the labels themselves."""

    host: Mapping[str, Any] = field(default_factory=lambda: {"max_tokens": 32})

    def model(self, *, scores: Sequence[Setting] | None = None, **settings: Any) -> ModelConfig:
        """Return the served model, with these settings in the place of its own. A `prompt` is added to its own."""
        prompt = {**self.settings.get("prompt", {}), **settings.pop("prompt", {})}
        listed = list(self.scores if scores is None else scores)
        return ModelConfig.model_validate(
            {
                "host": {"kind": "transformers", "checkpoint": str(CHECKPOINT), "device": "cpu", **self.host},
                "scores": listed,
                "confidence": {"score": name_of(listed[0]), "calibrator": "isotonic", "right": "exact"},
                "policy": {"kind": "target_risk", "max_risk": 0.05},
                **self.settings,
                **settings,
                "prompt": prompt,
            }
        )

    def setting(self, score: str) -> Setting:
        """Return how one of its scores is configured."""
        return next(setting for setting in self.scores if name_of(setting) == score)

    def exercises(self, each: int | None = None) -> list[Exercise]:
        """Held-out ones, level after level; no prompt twice."""
        found: dict[str, Exercise] = {}
        for level in LEVELS:
            for exercise in exercises(self.name, level, each or self.each, seed=SEED):
                found.setdefault(exercise.prompt, exercise)  # 4 + 3 may also be drawn at level 2
        return list(found.values())


def name_of(setting: Setting) -> str:
    """The name that a score goes by."""
    if isinstance(setting, str):
        return setting
    ((kind, values),) = setting.items()
    return str(values.get("as", kind))


def label_of(exercise: Exercise) -> str | list[str]:
    """As demur takes it: of a choice the letter that stands where the right option does."""
    if exercise.task != "choice":
        return exercise.label
    return LETTERS[exercise.input["options"].index(exercise.label)]


def prompt_file(name: str) -> str:
    return str(CHECKPOINT / "prompts" / f"{name}.jinja")


TASKS = {
    task.name: task
    for task in (
        Task(
            name="choice",
            each=250,
            settings={
                "task": {"kind": "choice", "labels": list(LETTERS)},
                "prompt": {"template": prompt_file("choice")},
            },
            scores=[*OF_TOKENS, *OF_SAMPLES, *OF_PASSES, TWO, BOTH],
            told=("full_label",),
        ),
        Task(
            name="claim",
            each=400,
            settings={
                "task": {"kind": "binary", "labels": ["no", "yes"]},
                "prompt": {"template": prompt_file("claim")},
            },
            scores=[*OF_TOKENS, "self_consistency", *OF_SAMPLES, *OF_PASSES, TWO, BOTH],
            told=("first_token", "full_label"),
        ),
        Task(
            name="labels",
            each=300,
            settings={
                "task": {"kind": "multilabel", "labels": list(CODES), "tree": "imdrf"},
                "prompt": {"template": prompt_file("labels")},
                "samples": {"max": 5},
            },
            scores=[*OF_TOKENS, *OF_ANSWERS, *OF_SAMPLES, "eigv_laplacian", *OF_LABELS],
            cheap="g_nll, whole answer",
            host={"max_tokens": 48},
        ),
        Task(
            name="total",
            each=400,
            settings={"task": {"kind": "generate", "match": "number"}},
            scores=[*OF_TOKENS, *OF_SAMPLES, TWO, BOTH],
        ),
        Task(
            name="think",
            each=350,
            settings={"task": {"kind": "generate", "match": "number"}},
            scores=[*OF_TOKENS, *OF_REPLIES, *OF_SAMPLES, *OF_TRACES, *OF_WHOLE],
            cheap="g_nll, with the trace",
            within=("g_nll", "trace_tokens"),
            host={"max_tokens": 128},
        ),
    )
}

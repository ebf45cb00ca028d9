"""Which settings of a model go with its host and with its kind of task: what would be ignored is refused."""

from collections import defaultdict
from typing import TYPE_CHECKING

from demur.serve.config.chat import ChatConfig
from demur.serve.config.hosts.remote import check_labels
from demur.serve.config.plain_text import WRAPPING, plain
from demur.serve.config.prompt import PromptConfig, SamplesConfig
from demur.serve.config.task import ONLY_LANGUAGE

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig

SECTIONS = {"prompt": PromptConfig(), "samples": SamplesConfig(), "chat": ChatConfig()}
"""Of a model, for language models alone."""

ONLY_FOR = {
    "mapping_template": ("choice",),
    "shuffle": ("choice",),
    "pair_template": ("binary",),
    "reply": ("multilabel",),
    "constrained": ("binary", "multiclass", "choice"),
    "template": ("binary", "multiclass", "choice", "multilabel"),
    "few_shot": ("binary", "multiclass", "choice", "multilabel"),
}
"""Settings of `prompt` that make no sense for every kind of task."""

WHY_NOT = {"generate": "a conversation is passed on as it is, and its reply is any text"}


def check_task_settings(model: "ModelConfig") -> None:
    """Raise `ValueError` in words for whoever wrote the settings."""
    kind = model.task.kind
    if model.task.match != "exact" and kind != "generate":
        raise ValueError(f"task.match: this is for generate tasks; in a {kind} one labels are right or wrong")
    if model.task.sparse and not model.host.is_given:
        raise ValueError("task.sparse: this is for predictions that are made elsewhere (`host.kind: given`)")
    if model.host.is_given:
        _check_given(model)
        return
    if not model.host.is_language:
        _check_classifier(model)
        return
    if model.task.rename:
        raise ValueError("task.rename: this is for classifiers, whose checkpoints name their classes; leave it out")
    for name, kinds in ONLY_FOR.items():
        if _is_set(model.prompt, name) and kind not in kinds:
            because = f": {WHY_NOT[kind]}" if kind in WHY_NOT else ""
            raise ValueError(f"prompt.{name}: this is for {' and '.join(kinds)} tasks, and this one is {kind}{because}")
    if model.host.most_pictures and kind != "generate":
        raise ValueError(
            f"host.pictures: pictures come in conversations, which generate tasks take, and this one is {kind}; leave"
            " it out"
        )
    if model.prompt.probabilities != "reply" and kind in ("multilabel", "generate"):
        several = "several labels may be right" if kind == "multilabel" else "there are no labels to choose from"
        raise ValueError(
            f"prompt.probabilities: {model.prompt.probabilities} is for tasks with one right label; in a {kind} one"
            f" {several}, so leave it at `reply`"
        )
    if kind in ("binary", "multiclass", "multilabel"):
        _check_labels(model)


def _check_classifier(model: "ModelConfig") -> None:
    check_labels(model.host.label_order, model.task.outputs)
    if model.task.kind in ONLY_LANGUAGE:
        raise ValueError(
            f"task.kind: {model.task.kind} is for language models, and the host is a classifier; set `host.kind` to"
            " transformers, vllm or openai"
        )
    if model.task.rename and not model.host.names_labels:
        raise ValueError(
            "task.rename: a model of this `host.kind` names no labels of its own; leave it out, and write in"
            " `task.labels` how they are called here"
        )
    if model.task.rename and getattr(model.host, "zero_shot", None):
        raise ValueError("task.rename: with `zero_shot` the checkpoint names no labels of yours; leave it out")
    if told := [name for name, default in SECTIONS.items() if getattr(model, name) != default]:
        raise ValueError(f"{told[0]}: this section is for language models, and the host is a classifier; leave it out")


def _check_sparse(model: "ModelConfig") -> None:
    """Rows of a sparse task have no column for each label, which some parts need."""
    if model.task.sparse != ("candidates" in getattr(model.host, "gives", ())):
        raise ValueError("host.gives: `candidates` go with a sparse task (`task.sparse`), and nothing else does")
    if not model.task.sparse:
        return
    if model.escalate_to or model.fall_back_to:
        raise ValueError("escalate_to: another model would name other candidates; a sparse task has one model")
    kind = model.prediction_set.get("kind", "split" if model.task.exclusive else "risk_control")
    if kind not in ("split", "adaptive", "regularised", "risk_control"):
        raise ValueError(f"prediction_set.kind: {kind} needs a column for each label, which a sparse task has not")


def _check_given(model: "ModelConfig") -> None:
    """What is read of replies that requests bring is all that a prompt can say here."""
    _check_sparse(model)
    if model.task.kind in ONLY_LANGUAGE and not model.host.has_replies:
        raise ValueError(f"task.kind: {model.task.kind} needs replies; list `reply` in `host.gives`")
    if model.task.kind == "generate" and {"probabilities", "logits", "prediction"} & set(
        getattr(model.host, "gives", ())
    ):
        raise ValueError("host.gives: what is predicted of a text is that it is right; leave all but the `reply` out")
    if model.task.rename:
        raise ValueError("task.rename: this is for classifiers, whose checkpoints name their classes; leave it out")
    sections = dict(SECTIONS)
    if model.host.has_replies:
        del sections["prompt"]
        kept = model.prompt.model_copy(update={"probabilities": "reply", "reply": "lines"})
        if kept != PromptConfig() or model.prompt.probabilities not in ("reply", "samples"):
            raise ValueError(
                "prompt: no prompt is written here; for replies that come, only `probabilities` (`reply` or `samples`)"
                " and `reply` (`lines` or `json`) can be set"
            )
        if model.task.kind in ("binary", "multiclass", "multilabel"):
            _check_labels(model)
    if told := [name for name, default in sections.items() if getattr(model, name) != default]:
        raise ValueError(f"{told[0]}: this section is for models that are asked here; leave it out")


def _check_labels(model: "ModelConfig") -> None:
    """Every label can be told from the others in a reply."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for label in model.task.labels:
        if "\n" in label or not label.strip(WRAPPING):
            raise ValueError(f"task.labels: {label!r} cannot be read from a reply; give it a name of one line")
        alike[plain(label.strip(WRAPPING))].append(label)
    for labels in alike.values():
        if len(labels) > 1:
            raise ValueError(
                f"task.labels: {labels[0]!r} and {labels[1]!r} cannot be told apart in a reply, where case, blanks and"
                " what stands around a label do not count"
            )


def _is_set(prompt: PromptConfig, name: str) -> bool:
    """Whether somebody chose it: what is written and is the default all the same does no harm."""
    return bool(getattr(prompt, name) != PromptConfig.model_fields[name].default)

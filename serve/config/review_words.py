"""What reviewers read about a model: `review.models` in the configuration. A question, a guideline, and for each
label a title, a definition and a key."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from demur.library.nearest import did_you_mean
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.settings import Section
from demur.serve.config.task import TaskConfig

MOST_WITH_KEYS = 10
"""So many labels of a task can have a key each."""

Line = Annotated[str, Field(min_length=1, max_length=200), written_as(r"^[^\x00-\x1f\x7f]*$", "write it on one line")]
Key = Annotated[str, written_as(r"^[a-z0-9]$", "a key is one small letter or digit, such as y")]


class LabelWords(Section):
    """What reviewers read about one label."""

    title: Line | None = None
    """Beside the label, and found by typing."""

    help: str | None = Field(default=None, min_length=1, max_length=2000)
    """When it holds: in the guideline."""

    key: Key | None = None
    """What is pressed for it, where the task has up to 10 labels."""


class ModelWords(Section):
    """What reviewers read about the cases of one model."""

    question: Line | None = None
    guide: str | None = Field(default=None, min_length=1, max_length=20_000)
    """How cases are to be judged, as plain text: empty lines part paragraphs."""

    labels: dict[str, LabelWords] = Field(default={})

    @property
    def has_guide(self) -> bool:
        return self.guide is not None or any(words.help for words in self.labels.values())

    @property
    def keys(self) -> dict[str, str]:
        """The keys of labels that have one of their own."""
        return {label: words.key for label, words in self.labels.items() if words.key}

    @property
    def titles(self) -> dict[str, str]:
        return {label: words.title for label, words in self.labels.items() if words.title}


def check_words(told: Mapping[str, ModelWords], tasks: Mapping[str, TaskConfig]) -> None:
    """Raise `ValueError` for words about a label that there is not, and for keys that cannot be. The models are
    known."""
    for model, words in told.items():
        place, task = f"review.models.{model}", tasks[model]
        for label in words.labels:
            if label not in task.table.index:
                some = task.labels[:20]
                raise ValueError(
                    f"{place}.labels: {label!r} is no label of this model{did_you_mean(label, some)}; its labels are"
                    f" {', '.join(some)}{' and others' if len(task.labels) > len(some) else ''}"
                )
        if words.keys and len(task.labels) > MOST_WITH_KEYS:
            raise ValueError(
                f"{place}.labels: this model has {len(task.labels):,} labels, and {MOST_WITH_KEYS} at most can have a"
                " `key`; the others are found by typing"
            )
        keys = list(words.keys.values())
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise ValueError(f"{place}.labels: the key {twice!r} is there twice; give each label its own")

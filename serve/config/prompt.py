"""How a language model is asked: `prompt` and `samples`."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from demur.serve.config.settings import Section
from demur.traffic.file_form import FileForm


class FewShotConfig(Section):
    """Labelled examples before the question, the nearest ones of each input."""

    examples: Path | Literal["reviews"]
    """A labelled file, or `reviews`: inputs of the log whose outcome is known."""

    k: int = Field(default=10, ge=1, le=200)
    embedding: str = "tfidf"
    """`tfidf` (n-grams of characters), or the folder of a transformers encoder, whose last layer is averaged."""

    input_column: str | None = Field(default=None, min_length=1)
    """By default as `calibration` says, and so are the label's and the encoding."""

    label_column: str | None = Field(default=None, min_length=1)
    encoding: str | None = None

    def form(self, otherwise: FileForm) -> FileForm:
        """Return how the labelled file is read."""
        told = otherwise.changed(input=self.input_column, label=self.label_column, encoding=self.encoding)
        return replace(told, section="prompt.few_shot")


class PromptConfig(Section):
    """How a language model is asked, and how its reply becomes probabilities."""

    template: Path | None = None
    """A Jinja file; by default the task's own in serve/hosts/language/templates."""

    mapping_template: Path | None = None
    """`choice`: asks which option a reply means, where no letter is found in it."""

    rating_template: Path | None = None
    """Asks for a rating of the answer, for the score `rating`."""

    pair_template: Path | None = None
    """Asks which of two inputs is more surely positive, for tournaments."""

    few_shot: FewShotConfig | None = None
    probabilities: Literal["reply", "first_token", "full_label", "samples"] = "reply"
    """Of the labels: `reply`, 1 for what the reply was read as; `first_token` or `full_label`, from the model's
    log-probabilities of the labels' first tokens or of the labels as a whole; `samples`, how often each was replied."""

    constrained: bool = False
    """Whether the engine may write nothing but labels."""

    shuffle: bool = True
    """`choice`: whether every sample sees the options in another order."""

    reply: Literal["lines", "json"] = "lines"
    """`multilabel`: a label on each line, or a JSON object of labels with confidences."""


class SamplesConfig(Section):
    """Replies that are sampled beside the one at temperature 0, for scores that compare them."""

    min: int | None = Field(default=None, ge=1, le=200)
    """After how many it is first asked whether more are wanted; by default all are drawn at once."""

    max: int = Field(default=10, ge=1, le=200)
    stop: Literal["decision"] | None = None
    """`decision`: no more are drawn once the decision cannot change, however the rest comes out."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0

    @model_validator(mode="after")
    def budget_is_clear(self) -> "SamplesConfig":
        if self.min is not None and self.min > self.max:
            raise ValueError(f"min is {self.min}, above max, {self.max}")
        if (self.min is None) != (self.stop is None):
            raise ValueError("`min` and `stop: decision` go together: `samples: {min: 3, max: 20, stop: decision}`")
        return self

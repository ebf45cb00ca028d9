"""Predictions that were made elsewhere: `host: {kind: given}`."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from demur.library.settings import GatheredMistakes
from demur.serve.config.hosts.host import AnyHost
from demur.uncertainty.output import Need

Part = Literal[
    "probabilities",
    "candidates",
    "logits",
    "prediction",
    "embedding",
    "passes",
    "scores",
    "reply",
    "logprobs",
    "samples",
]
"""What a request may bring of a model's output."""

BROUGHT: dict[Need, tuple[Part, ...]] = {
    "probabilities": ("probabilities", "candidates", "logits", "prediction", "reply"),
    "logits": ("logits",),
    "embedding": ("embedding",),
    "mc_probabilities": ("passes", "samples"),
    "reply": ("reply",),
    "logprobs": ("logprobs",),
    "top_logprobs": ("logprobs",),
    "samples": ("samples",),
    "given": ("scores",),
}
"""What a score reads, and the parts of a request of which any will do."""

PREDICTS: tuple[Part, ...] = ("probabilities", "candidates", "logits", "prediction", "reply")
"""Parts that say what is predicted: a request brings at least one of them."""


class GivenHost(AnyHost):
    """Predictions that were made elsewhere."""

    uses_gpu: ClassVar[bool] = False
    is_given: ClassVar[bool] = True
    kind: Literal["given"]
    gives: tuple[Part, ...] = Field(min_length=1)
    """What each request brings. Scores that need anything else are refused."""

    scores: dict[str, Literal["less_sure", "surer"]] = Field(default={})
    """Numbers that a request may bring, by name, and what a higher one means. Each may be listed among the model's
    scores."""

    embedding_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Numbers of each embedding, where `gives` lists one."""

    passes: int | None = Field(default=None, ge=1, le=1000)
    """Repeated passes that come with each request, where `gives` lists them."""

    candidates: int | None = Field(default=None, ge=1, le=10_000)
    """Most candidates of a row, where `gives` lists them."""

    model: str = Field(default="given", min_length=1, max_length=200)
    """What people call the model that predicts."""

    version: str = Field(default="", max_length=200)
    """The version of that model. An artifact holds for one version: change it when the model changes, and fit again."""

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset(need for need, parts in BROUGHT.items() if any(part in self.gives for part in parts))

    @property
    def model_name(self) -> str:
        return f"{self.model} {self.version}".strip()

    @property
    def has_replies(self) -> bool:
        return "reply" in self.gives

    @model_validator(mode="after")
    def parts_go_together(self) -> "GivenHost":
        gathered = GatheredMistakes()
        with gathered:
            self._check_prediction()
        for part in ("logprobs", "samples"):
            with gathered:
                if part in self.gives and "reply" not in self.gives:
                    raise ValueError(f"gives: {part} go with a `reply`, which is not listed")
        for key, part in (("embedding_size", "embedding"), ("passes", "passes"), ("candidates", "candidates")):
            with gathered:
                if (getattr(self, key) is None) == (part in self.gives):
                    raise ValueError(f"{key}: write how many there are, and list `{part}` in `gives`; or neither")
        with gathered:
            if ("scores" in self.gives) != bool(self.scores):
                raise ValueError("scores: name the numbers that come with a request, and list `scores` in `gives`")
        for name in self.scores:
            with gathered:
                if not name.replace("_", "a").replace("-", "a").isalnum():
                    raise ValueError(f"scores.{name}: a name has letters, digits, _ and -; choose another one")
        gathered.check()
        return self

    def _check_prediction(self) -> None:
        """Raise `ValueError` unless a request says in one way what is predicted."""
        if twice := [part for at, part in enumerate(self.gives) if part in self.gives[:at]]:
            raise ValueError(f"gives: {twice[0]} is listed twice")
        found = [part for part in PREDICTS if part in self.gives]
        if not found:
            raise ValueError(
                f"gives: nothing is predicted by {', '.join(self.gives)}; add one of {', '.join(PREDICTS)}"
            )
        if "candidates" in found and len(found) > 1:
            raise ValueError("gives: candidates say what is predicted; leave the others out")
        if "probabilities" in found and "logits" in found:
            raise ValueError("gives: probabilities are made of logits; list one of the two")
        if "prediction" in found and len(found) > 1:
            raise ValueError(f"gives: the prediction follows from the {found[0]}; leave `prediction` out")

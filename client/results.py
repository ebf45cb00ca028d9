"""What a service answers, as frozen values. What this version does not know is kept in `raw`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

from demur.client.errors import BadReply
from demur.client.fields import Fields

Label = str | list[str]
"""One label; or a list of them, where labels do not exclude each other."""

Action = Literal["answer", "review", "abstain"]

ENDED = ("resolved", "expired", "withdrawn")
"""States of a case about which nobody is asked any more."""

R = TypeVar("R", bound="Raw")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """A value that was sent as JSON."""

    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole object as it came."""


@dataclass(frozen=True, kw_only=True)
class Review(Raw):
    """Where a case is on its way to a person."""

    status: str
    ahead: int | None = None
    """How many cases come before it; None where that is not told."""

    expected_seconds: float | None = None

    @property
    def ended(self) -> bool:
        """Whether nobody is asked any more."""
        return self.status in ENDED

    @classmethod
    def of(cls, told: Fields) -> "Review":
        return cls(
            status=told.text("status"),
            ahead=told.optional_whole_number("ahead"),
            expected_seconds=told.optional_number("expected_seconds"),
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class Prediction(Raw):
    """A prediction, and whether it may be relied on."""

    id: str
    model: str
    action: Action
    """`answer`: rely on it. `review`: a person is asked. `abstain`: nobody is."""

    prediction: Label | None
    """What the model says, whether or not it may be relied on; `label` is safer."""

    confidence: float | None
    """Calibrated probability that the prediction is right."""

    reason: str
    prediction_set: list[str]
    label_confidence: dict[str, float | None] | None
    scores: dict[str, float | None]
    artifact: str | None
    group: str | None
    review: Review | None
    """None where no person is asked."""

    replayed: bool = False
    """Whether it was on record before, under the same Idempotency-Key."""

    @property
    def answered(self) -> bool:
        """Whether it may be relied on."""
        return self.action == "answer"

    @property
    def abstained(self) -> bool:
        return not self.answered

    @property
    def label(self) -> Label | None:
        """The prediction where it may be relied on; None where it was held."""
        return self.prediction if self.answered else None

    @classmethod
    def of(cls, told: Fields) -> "Prediction":
        return cls(**_prediction(told))


@dataclass(frozen=True, kw_only=True)
class Outcome(Raw):
    """The truth about a prediction, as somebody knew it at some time."""

    label: Label
    source: str
    author: str | None
    at: datetime
    text: str | None = None
    """What a person wrote in the place of a reply that is wrong; None where nobody did, and once it is no longer
    kept."""

    codes: list[str] | None = None
    """Why the reply is wrong, in the codes of the configuration; None where nobody said."""

    replayed: bool = False
    """Whether it was written before, under the same Idempotency-Key."""

    @classmethod
    def of(cls, told: Fields) -> "Outcome":
        label = told.answer("label")
        if label is None:
            raise BadReply("outcome: the service sent no label")
        return cls(
            label=label,
            source=told.text("source"),
            author=told.optional_text("author"),
            at=told.time("at"),
            text=told.optional_text("text"),
            codes=told.optional_texts("codes"),
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class PredictionView(Prediction):
    """A prediction, and what became of it."""

    at: datetime
    erased_at: datetime | None
    outcome: Outcome | None
    """The outcome that counts; None while nothing is known."""

    outcomes: list[Outcome]
    """Every outcome, oldest first."""

    @property
    def corrected(self) -> str | None:
        """What a person wrote in the place of the model's text, where the outcome that counts has one."""
        return self.outcome.text if self.outcome else None

    @classmethod
    def of(cls, told: Fields) -> "PredictionView":
        return cls(
            **_prediction(told),
            at=told.time("at"),
            erased_at=told.optional_time("erased_at"),
            outcome=told.optional_object("outcome", Outcome.of),
            outcomes=told.objects("outcomes", Outcome.of),
        )


@dataclass(frozen=True, kw_only=True)
class Erasure(Raw):
    """That the input and the reply of a prediction are gone for good."""

    id: str
    erased_at: datetime
    erased_by: str

    @classmethod
    def of(cls, told: Fields) -> "Erasure":
        return cls(id=told.text("id"), erased_at=told.time("erased_at"), erased_by=told.text("erased_by"), raw=told.raw)


@dataclass(frozen=True, kw_only=True)
class ModelHealth(Raw):
    """How one model is."""

    status: str
    """`ok`, `not ready`, `no artifact` or `failed`."""

    artifact: str | None
    detail: str
    """What is wrong, if something is."""

    @classmethod
    def of(cls, told: Fields) -> "ModelHealth":
        return cls(
            status=told.text("status"),
            artifact=told.optional_text("artifact"),
            detail=told.optional_text("detail") or "",
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class Health(Raw):
    """How a service is. A service that asks who you are tells strangers the status alone."""

    status: str
    """`ok`; `degraded`, where some models do not serve; or `not ok`."""

    models: dict[str, ModelHealth]

    @property
    def ok(self) -> bool:
        """Whether every model serves, and predictions can be recorded."""
        return self.status == "ok"

    @classmethod
    def of(cls, told: Fields) -> "Health":
        models = told.raw.get("models") or {}
        described = Fields(models, "health")
        return cls(
            status=told.text("status"),
            models={name: described.object(name, ModelHealth.of) for name in described.raw},
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class Report(Raw):
    """A report of an audit. `raw` has every number that was sent."""

    id: str
    model: str
    since: datetime
    until: datetime
    verdict: str
    """`kept`, `broken`, `not enough evidence` or `nothing was promised`."""

    why: str

    @classmethod
    def of(cls, told: Fields) -> "Report":
        return cls(
            id=told.text("id"),
            model=told.text("model"),
            since=told.time("since"),
            until=told.time("until"),
            verdict=told.text("verdict"),
            why=told.text("why"),
            raw=told.raw,
        )


def _prediction(told: Fields) -> dict[str, Any]:
    action = told.text("action")
    if action not in ("answer", "review", "abstain"):
        raise BadReply(f"prediction: the service sent the action {action[:50]!r}, which this version does not know")
    if told.flag("abstained") != (action != "answer"):
        raise BadReply(f"prediction: the service sent the action {action!r}, and that it abstained says otherwise")
    has_labels = told.raw.get("label_confidence") is not None
    return {
        "id": told.text("id"),
        "model": told.text("model"),
        "action": cast("Action", action),
        "prediction": told.answer("prediction"),
        "confidence": told.optional_number("confidence"),
        "reason": told.text("reason"),
        "prediction_set": told.texts("prediction_set"),
        "label_confidence": told.numbers("label_confidence") if has_labels else None,
        "scores": told.numbers("scores"),
        "artifact": told.optional_text("artifact"),
        "group": told.optional_text("group"),
        "review": told.optional_object("review", Review.of),
        "raw": told.raw,
    }

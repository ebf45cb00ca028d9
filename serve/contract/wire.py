"""What goes over HTTP: the bodies that are taken and given, as the OpenAPI document shows them."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from demur.library.nearest import did_you_mean
from demur.review.erasing import Erasure
from demur.review.item import Case, Status
from demur.review.load import NOTHING_EXPECTED, Expectation
from demur.serve.config.complaint import complaint
from demur.serve.config.known_keys import known_keys
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.review import HIGHEST_PRIORITY, LATEST_DUE
from demur.serve.config.task import TaskConfig
from demur.serve.contract.body import check_structure, check_whole_numbers
from demur.serve.contract.commit import CommitResult
from demur.serve.contract.corrections import CorrectedText
from demur.serve.contract.doubled_keys import check_each_key, check_keys_once
from demur.serve.contract.fields import fields_of
from demur.serve.contract.inputs import InvalidRequest
from demur.traffic.outcomes import Precedence, position_that_counts, reads_as_review, rule_in_words
from demur.traffic.record import Answer, Cost, Outcome, Record

PLAIN_TEXT = written_as(r"^[^\x00-\x1f\x7f]+$", "control characters, such as line breaks and tabs, are not taken here")

Word = Annotated[str, Field(min_length=1, max_length=200), PLAIN_TEXT]
"""A short text without control characters."""

T = TypeVar("T")

Listed = Annotated[list[T], Field(fail_fast=True)]
"""A list in a body. Of a million wrong elements the first is told: each mistake costs as much as a small request."""

COST: tuple[Literal["prompt_tokens", "completion_tokens", "calls", "seconds"], ...] = (
    "prompt_tokens",
    "completion_tokens",
    "calls",
    "seconds",
)

IDEMPOTENCY_KEY = r"^[\x21-\x7e]{1,255}$"


class MalformedBody(ValueError):
    """The body is not JSON."""


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ReviewWishes(Body):
    """How soon a person is to look, should one be asked. Of this and the rules of the configuration the highest
    priority and the earliest due time count."""

    priority: int | None = Field(default=None, ge=0, le=HIGHEST_PRIORITY, description="Higher comes first; else 0.")
    due_seconds: float | None = Field(
        default=None,
        gt=0,
        le=LATEST_DUE.total_seconds(),
        description="From the decision on, until somebody should have looked.",
    )

    @property
    def due_after(self) -> timedelta | None:
        return None if self.due_seconds is None else timedelta(seconds=self.due_seconds)


SOMETHING = frozenset({"input", "output"})
"""Keys of a request for a prediction, of which one is there at least."""


class PredictRequest(Body):
    """One input for one model; or what a model said about one, where its predictions are made elsewhere."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["input"]}, {"required": ["output"]}]})

    model: str = Field(description="Name of a model in the configuration.")
    input: Any = Field(
        default=None,
        description="What the task takes: a string for text; for an image, nested numbers in [0, 1] (rows of pixels, or"
        " rows of pixels of channels) or a `data:image/png;base64,` URL (`jpeg` and `webp` as well); an object or an"
        " array of cells for a row of a table; `text` and `text_pair` for a pair; `question` and `options` for a"
        " choice; `messages`, each with a `role` and a `content` (a string, or parts of the types `text` and"
        " `image_url`, with a `data:` URL), or a string, where a text is to be written. Where the model's predictions"
        " are made"
        " elsewhere, whatever reviewers need; it may be left out.",
    )
    output: Any = Field(
        default=None,
        description="What the model said, where its predictions are made elsewhere (`host: {kind: given}`): an object"
        " with what `host.gives` lists, such as `probabilities`, a list in the order of the labels or an object of"
        " labels and probabilities. For every other model it is left out.",
    )
    group: Word | None = Field(
        default=None, description="Your word for where the input comes from. Audits are broken down by it."
    )
    cluster: Word | None = Field(
        default=None,
        description="Your word for what the input belongs to where several do: a patient, a user, a document."
        " Predictions with the same word depend on each other, and audits draw them together.",
    )
    review: ReviewWishes | None = None

    @model_validator(mode="after")
    def has_something(self) -> "PredictRequest":
        if self.model_fields_set.isdisjoint(SOMETHING):
            raise ValueError("input: this key is missing")
        return self

    def as_asked(self) -> dict[str, Any]:
        """What makes two requests the same. What is newer than keys, and left out, leaves no trace: keys of earlier
        times still hold."""
        asked: dict[str, Any] = {"model": self.model, "input": self.input, "group": self.group}
        if self.output is not None:
            asked["output"] = self.output
        if self.cluster is not None:
            asked["cluster"] = self.cluster
        if self.review is not None:
            asked["review"] = self.review.model_dump()
        return asked


class BatchRequest(Body):
    """Up to 1,024 requests. Each succeeds or fails by itself."""

    items: list[Any] = Field(description="Bodies of /v1/predict.", json_schema_extra={"minItems": 1, "maxItems": 1024})


class OutcomeRequest(Body):
    """The truth about a prediction, as you came to know it."""

    label: Word | Listed[Word] = Field(
        description="The right label, one of the model's; in a multilabel task the list of all that hold. Under a"
        " label tree those above them need not be named. Of a text that was written, `right` or `wrong`."
    )
    source: Word = Field(
        default="api",
        description="Where it is known from. `review`, and what reads like it, is what reviewers of this service say.",
    )
    author: Word | None = Field(default=None, description="Who says so.")
    text: CorrectedText | None = Field(
        default=None,
        description="What should have been written, where the label says that a text is `wrong`. Kept as long as the"
        " reply is.",
    )

    @field_validator("source")
    @classmethod
    def is_not_ours(cls, source: str) -> str:
        if reads_as_review(source):
            raise ValueError(f"{source!r} reads like 'review', which is what reviewers here say; choose another word")
        return source


class OutcomeItem(OutcomeRequest):
    """The truth about one of several predictions."""

    id: UUID = Field(strict=False, description="Of the prediction.")


class OutcomesRequest(Body):
    """Up to 1,024 outcomes. Each is written, or refused, by itself."""

    items: list[Any] = Field(
        description="Bodies of /v1/predictions/{id}/outcome, each with the `id` of its prediction.",
        json_schema_extra={"minItems": 1, "maxItems": 1024},
    )


class ReviewState(BaseModel):
    status: Status
    url: str = Field(description="Where to ask what became of it.")


class ReviewView(ReviewState):
    ahead: int | None = Field(
        description="How many cases come before it; 10,000 where there are that many or more. Null once it has ended."
    )
    expected_seconds: float | None = Field(
        description="Until it is resolved, at the pace at which cases were resolved in the last hour: a rough guess."
        " Null where none was, and once it has ended."
    )


class CostView(BaseModel):
    """What was spent on language models."""

    prompt_tokens: int = Field(description="Of each prompt once, however many replies to it were sampled.")
    completion_tokens: int
    calls: int = Field(description="Requests to the engines.")
    seconds: float


class StepView(BaseModel):
    """What one model of a cascade said."""

    model: str
    prediction: str | list[str] | None
    confidence: float | None
    action: Literal["answer", "review", "abstain", "escalate"] = Field(
        description="`escalate`: the next model was asked."
    )
    reason: str
    scores: dict[str, float | None]
    cost: CostView | None


class Prediction(BaseModel):
    """A prediction, and whether it may be relied on."""

    id: UUID
    model: str
    action: Literal["answer", "review", "abstain"] = Field(
        description="`answer`: rely on it. `review`: a person is asked. `abstain`: nobody is."
    )
    abstained: bool = Field(description="True unless the action is `answer`.")
    prediction: str | list[str] | None = Field(
        description="The most probable label, or in a multilabel task every label that is probable enough; null if the"
        " model's output was unusable. Where a text is to be written, the text; once it is no longer kept (inputs and"
        " texts have a time), what was predicted of it: `right`."
    )
    prediction_set: list[str] = Field(
        description="Labels that cannot be ruled out, most probable first; none for a text."
    )
    confidence: float | None = Field(
        description="Calibrated probability that the prediction is right, or in a multilabel task how much of it is"
        " expected to be (see `confidence.right` in the configuration)."
    )
    label_confidence: dict[str, float] | None = Field(
        description="Multilabel tasks: calibrated probability of each of the most probable labels, highest first."
    )
    scores: dict[str, float | None] = Field(description="Uncertainty: higher is less sure. Null where undefined.")
    reason: str
    artifact: str | None = Field(description="What was fitted, and decided this. Null if no model answered.")
    group: str | None
    steps: list[StepView] | None = Field(
        description="Cascades: what each model said that was asked, in turn. The last of them has the last word; null"
        " where there is no cascade."
    )
    cost: CostView | None = Field(
        description="Of every model that was asked, as far as it is known. Null where no language model was."
    )
    review: ReviewState | None = Field(description="Null if it was not held for review.")


class OutcomeView(BaseModel):
    label: str | list[str]
    source: str
    author: str | None
    at: datetime
    text: str | None = Field(
        description="What a person wrote in the place of a reply that is wrong. Null where nobody did, and once the"
        " reply is no longer kept."
    )
    codes: list[str] | None = Field(
        description="Why the reply is wrong: of `review.models` in the configuration. Null where nobody said."
    )


class CountedOutcome(OutcomeView):
    counts: bool = Field(description="Whether it is the one that counts.")


class PredictionView(Prediction):
    """A prediction, and what became of it."""

    review: ReviewView | None = Field(description="Null if it was neither held for review nor drawn for a check.")
    at: datetime
    erased_at: datetime | None = Field(
        description="When somebody erased the input and the reply. Null where nobody did; they may have had their time."
    )
    outcome: OutcomeView | None = Field(description="The outcome that counts.")
    outcomes: list[CountedOutcome] = Field(description="Every outcome, oldest first.")
    counts_by: str = Field(description="Which of several outcomes counts, in words: `outcomes.precedence`.")


class ErasedView(BaseModel):
    """That the input and the reply of a prediction are gone for good."""

    id: UUID
    erased_at: datetime
    erased_by: str


class Problem(BaseModel):
    """What is wrong, and the way out."""

    kind: str
    message: str


class ProblemResponse(BaseModel):
    error: Problem


class BatchResult(BaseModel):
    """Either a prediction or an error, with the status that it would have had alone."""

    status: int
    replayed: bool = Field(
        default=False, description="Whether this is on record from before, under the same Idempotency-Key."
    )
    prediction: Prediction | None = None
    error: Problem | None = None
    retry_after: int | None = Field(
        default=None,
        description="After how many seconds to send this item again, where waiting helps; alone it would have come"
        " with such a `Retry-After`.",
    )


class BatchResponse(BaseModel):
    results: list[BatchResult] = Field(description="One for each item, in order.")


class OutcomeResultView(BaseModel):
    """Either an outcome or an error, with the status that it would have had alone."""

    status: int
    replayed: bool = Field(description="Whether it was written before, under the same Idempotency-Key.")
    outcome: OutcomeView | None = None
    error: Problem | None = None


class OutcomesResponse(BaseModel):
    results: list[OutcomeResultView] = Field(description="One for each item, in order.")


class CanaryHealth(BaseModel):
    artifact: str
    share: float = Field(description="Share of the traffic about which it decides.")


class ModelHealth(BaseModel):
    status: Literal["ok", "not ready", "no artifact", "failed"] = Field(
        description="`not ready`: it is still starting, or does not answer. `no artifact`: nothing was fitted that may"
        " decide. `failed`: it cannot be served unless somebody changes something."
    )
    artifact: str | None = Field(description="The one in force.")
    shadow: str | None = Field(description="Decides as well, for the record alone.")
    canary: CanaryHealth | None = Field(description="Decides about a share of the traffic.")
    differs: list[str] = Field(
        description="What is configured otherwise than the artifact in force was fitted: it is not in force."
    )
    detail: str = Field(description="What is wrong, if something is.")


class ReviewHealth(BaseModel):
    open: int | None = Field(
        description="Cases that have not ended, counted up to twice the limit, or up to 20,000 where there is none."
        " Null while the database does not answer."
    )
    most_waiting: int | None = Field(description="`review.most_waiting` of the configuration.")
    full: bool = Field(
        description="Whether this gateway has no room for what would be held: it is then neither answered nor reviewed."
    )


class Health(BaseModel):
    status: Literal["ok", "degraded", "not ok"] = Field(
        description="`degraded`: at least one model serves, and `not_serving` names those that do not."
    )
    database: Literal["ok", "unavailable"]
    not_serving: list[str] = Field(description="Models that give no predictions now.")
    models: dict[str, ModelHealth]
    review: ReviewHealth


B = TypeVar("B", bound=Body)

_ITEMS = TypeAdapter(list[PredictRequest])


def parse(kind: type[B], body: bytes) -> B:
    """Return the checked body, or raise `MalformedBody` or `InvalidRequest` in words for the caller."""
    check_structure(body)
    sent: Any = None
    with suppress(orjson.JSONDecodeError, ValidationError):  # several times as quick, but less is said of what is wrong
        sent = orjson.loads(body)
        checked = kind.model_validate(sent)
        if kind is PredictRequest:
            check_keys_once(body, sent, [sent])
        elif kind is BatchRequest:
            check_keys_once(body, sent, sent["items"])
        elif kind is OutcomeRequest or kind is OutcomesRequest:
            check_each_key(body, sent)
        return checked
    try:
        checked = kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            detail = str(first["ctx"]["error"])
            raise MalformedBody(f"the body is not JSON: {detail}") from None
        raise InvalidRequest(complaint(error, from_json(body) if sent is None else sent, known_keys(kind))) from None
    check_whole_numbers(from_json(body))  # such as one of 400 digits, which the quick parser refuses
    return checked


def parse_item(item: Any) -> PredictRequest:
    """Return one checked item of a batch of predictions, or raise `InvalidRequest` in words for the caller."""
    return _checked_item(PredictRequest, item)


def parse_items(items: list[Any]) -> list[PredictRequest | InvalidRequest]:
    """Return each checked item of a batch of predictions, or what is wrong with it."""
    try:
        return [*_ITEMS.validate_python(items)]  # at once, which takes two thirds of the time
    except ValidationError:
        return [_item_or_error(item) for item in items]


def _item_or_error(item: Any) -> PredictRequest | InvalidRequest:
    try:
        return parse_item(item)
    except InvalidRequest as error:
        return error


def parse_outcome_item(item: Any) -> OutcomeItem:
    """Return one checked item of a batch of outcomes, or raise `InvalidRequest` in words for the caller."""
    return _checked_item(OutcomeItem, item)


def _checked_item(kind: type[B], item: Any) -> B:
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        raise InvalidRequest(complaint(error, item, known_keys(kind))) from None


def checked_key(key: str | None) -> str | None:
    """Return an Idempotency-Key, None where there is no such header."""
    if key is not None and not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise InvalidRequest("Idempotency-Key: 1 to 255 printable ASCII characters without blanks are taken")
    return key


def checked_label(label: Answer, model: str, task: TaskConfig) -> Answer:
    """Return a truth that somebody tells, in the form of the task and with all labels above those that are told; raise
    `InvalidRequest` where it does not fit."""
    if isinstance(label, str) != task.exclusive:
        wanted = "one label" if task.exclusive else "a list of labels, which may be empty"
        raise InvalidRequest(f"label: the {task.kind} task of {model!r} takes {wanted}")
    told = [label] if isinstance(label, str) else label
    if unknown := [one for one in told if one not in task.table.index]:
        known = (
            f"{len(task.labels):,}, which stand in its file of labels" if task.sparse else ", ".join(task.labels[:50])
        )
        meant = did_you_mean(unknown[0], task.labels)
        raise InvalidRequest(
            f"label: {', '.join(map(repr, unknown[:5]))} is not a label of {model!r}; it has: {known}{meant}"
        )
    return label if isinstance(label, str) else task.with_ancestors(label)


def prediction_json(record: Record) -> dict[str, Any]:
    """The answer to a request, the same whenever it is given: `Prediction`. Every request waits for this,
    and `fields_of` takes three times as long: so the fields are here again, and a test compares them."""
    return {
        "id": str(record.id),
        "model": record.model,
        "action": record.action,
        "abstained": record.action != "answer",
        "prediction": record.reply["text"] if record.reply and record.prediction is not None else record.prediction,
        "prediction_set": set_of(record),
        "confidence": record.confidence,
        "label_confidence": _label_confidence(record),
        "scores": record.scores,
        "reason": record.reason,
        "artifact": record.artifact,
        "group": record.group,
        "steps": _steps(record),
        "cost": cost_json(record.cost),
        "review": _held(record.id, "waiting") if record.action == "review" else None,
    }


def answer_json(done: CommitResult) -> dict[str, Any]:
    """`prediction_json` of what is on disk, without an object where it is in columns."""
    if done.columns is None:
        return prediction_json(done.record)
    columns, row = done.columns, done.row
    action, reply, prediction = columns.actions[row], columns.replies[row], columns.predictions[row]
    cost, sure = columns.costs[row], columns.label_confidences[row]
    return {
        "id": str(columns.ids[row]),
        "model": columns.model,
        "action": action,
        "abstained": action != "answer",
        "prediction": reply["text"] if reply and prediction is not None else prediction,
        "prediction_set": [] if reply else columns.prediction_sets[row],
        "confidence": columns.confidence[row],
        "label_confidence": None if sure is None else _highest_first(columns.top_labels[row], sure),
        "scores": {name: values[row] for name, values in columns.scores.items()},
        "reason": columns.reasons[row],
        "artifact": columns.artifact,
        "group": columns.groups[row],
        "steps": None,
        "cost": None if cost is None else cost_json(cost),
        "review": _held(columns.ids[row], "waiting") if action == "review" else None,
    }


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """`OutcomeView`."""
    return fields_of(OutcomeView, outcome, at=outcome.created_at.isoformat())


def prediction_view_json(
    record: Record,
    case: Case | None,
    outcomes: Sequence[Outcome],
    precedence: Precedence,
    expected: Expectation = NOTHING_EXPECTED,
    erased: Erasure | None = None,
) -> dict[str, Any]:
    """What became of a prediction: `PredictionView`. `expected` is of its case."""
    told = [outcome_json(outcome) for outcome in outcomes]
    counts = position_that_counts(outcomes, precedence)
    return fields_of(
        PredictionView,
        **prediction_json(record)
        | {"review": _held(record.id, case.status.value) | asdict(expected) if case else None},
        at=record.created_at.isoformat(),
        erased_at=erased.at.isoformat() if erased else None,
        outcome=None if counts is None else told[counts],
        outcomes=[{**one, "counts": at == counts} for at, one in enumerate(told)],
        counts_by=rule_in_words(precedence),
    )


def erased_json(erased: Erasure) -> dict[str, Any]:
    """`ErasedView`."""
    return fields_of(ErasedView, id=str(erased.id), erased_at=erased.at.isoformat(), erased_by=erased.by_whom)


def cost_json(cost: Cost | None) -> dict[str, Any] | None:
    """`CostView`, its keys always in the same order."""
    return None if cost is None else {name: cost[name] for name in COST}


def _steps(record: Record) -> list[dict[str, Any]] | None:
    """Records of earlier times know nothing of costs."""
    return None if record.steps is None else [{**step, "cost": step.get("cost")} for step in record.steps]


def _label_confidence(record: Record) -> dict[str, float] | None:
    return None if record.label_confidence is None else _highest_first(record.top_labels, record.label_confidence)


def _highest_first(labels: Sequence[str], confidences: Sequence[float]) -> dict[str, float]:
    pairs = zip(labels, confidences, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))  # stable: what calibration ties keeps the model's order


def set_of(record: Record) -> list[str]:
    """Labels that cannot be ruled out; of a text there are none to be told."""
    return [] if record.reply else record.prediction_set


def dump(value: Any) -> bytes:
    return orjson.dumps(value)


def _held(record_id: UUID, status: str) -> dict[str, Any]:
    return {"status": status, "url": f"/v1/predictions/{record_id}"}

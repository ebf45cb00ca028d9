"""What goes over HTTP about reviews: the bodies that are taken and given, as the OpenAPI document shows them."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID

from pydantic import BaseModel, Field

from demur.audit.visible import visible
from demur.review.cases import Backlog
from demur.review.changes import MOST_CASES
from demur.review.item import ENDED, Case, Claim, Event, Kind, Opinion, Status
from demur.review.reopening import OwnAnswer
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.task import TaskConfig
from demur.serve.contract.corrections import CorrectedText
from demur.serve.contract.fields import fields_of
from demur.serve.contract.wire import Body, Listed, OutcomeView, Problem, Word
from demur.serve.web.review.label_search import FoundLabel, Match
from demur.serve.web.review.service import VisibleCase
from demur.traffic.record import Record

Label = Word | Listed[Word]

LONGEST_TEXT = 10_000

Text = Annotated[
    str,
    Field(max_length=LONGEST_TEXT),
    written_as(r"^[^\x00]*$", "a character 0 is not taken here"),
]
"""What a person typed, lines and all."""

Token = Annotated[int, Field(ge=0, lt=2**63, description="Of your claim. It is another one each time a case is taken.")]


class Draft(Body):
    """What a person typed and has not sent, or sent too late."""

    label: Label | None = None
    reason: Text | None = None
    comment: Text | None = None
    text: CorrectedText | None = None
    codes: Listed[Word] | None = None


class NextRequest(Body):
    model: Word | None = Field(default=None, description="Only cases of this model.")
    again: bool = Field(default=False, description="Also cases that you gave back, and that do not come to you yet.")


class HeartbeatRequest(Body):
    token: Token
    draft: Draft | None = Field(default=None, description="Kept in place of what was kept before.")


class AnswerRequest(Body):
    """What a case is, or why that cannot be told."""

    token: Token
    label: Label | None = Field(
        description="One of the task's labels; where labels do not exclude each other, the list of all that hold, to"
        " which those above them are added. Null: it cannot be told."
    )
    reason: Text | None = Field(default=None, description="Why it cannot be told. Needed where `label` is null.")
    comment: Text | None = None
    text: CorrectedText | None = Field(
        default=None,
        description="What should have been written, where the label says that a reply is `wrong`. Kept as long as the"
        " reply is.",
    )
    codes: Listed[Word] | None = Field(
        default=None, description="Why the reply is wrong: any of `codes` of the task. Only where the label is `wrong`."
    )

    @property
    def said(self) -> dict[str, Any]:
        """All of it but the claim, as the service takes it."""
        said = {name: getattr(self, name) for name in ("label", "reason", "comment", "text")}
        return {**said, "codes": self.codes or ()}


class TokenRequest(Body):
    token: Token


class SkipRequest(TokenRequest):
    reason: Word | None = Field(default=None, description="Why you do not want it again.")


class ReopenRequest(Body):
    why: Word | None = Field(default=None, description="Kept in the history of the case.")


class UndoRequest(TokenRequest):
    instead_of: UUID | None = Field(
        default=None, description="The case that you took meanwhile: it is free for all again, if you hold it."
    )


class WithdrawRequest(Body):
    why: Annotated[Text, Field(min_length=1, description="Kept in the history of the case.")]


class MeView(BaseModel):
    """What you may see and do."""

    name: str
    models: list[str] | None = Field(description="Of which models you see cases; null: of all.")
    groups: list[str] | None = Field(description="Of which groups; null: of all, and of none.")
    adjudicates: bool = Field(description="You decide where others disagree or cannot tell.")
    leads: bool = Field(description="You see the overview and every history, and may withdraw and assign cases.")


class BacklogView(BaseModel):
    """How many cases are open, of those that you may see."""

    open: int
    waiting: int
    claimed: int
    answered: int = Field(description="These can still be taken back.")
    adjudication: int = Field(description="Here people disagree, or could not tell.")
    overdue: int = Field(description="Of the open ones, those whose due time has passed.")
    oldest: datetime | None = Field(description="Since when the oldest of those that wait has been waiting.")


class ProgressView(BaseModel):
    """How far you and the others have come, with the cases that you may see."""

    since: datetime
    answered: int = Field(description="By you since then; what you took back does not count.")
    median_seconds: float | None = Field(
        description="Of these, from the claim to the answer; null where there are none."
    )
    resolved: int = Field(description="By all since then.")
    resolved_last_hour: int
    hours_of_work: float | None = Field(
        description="Until what waits is resolved, at the pace of the last hour, or since the first case came within"
        " it; null where nothing was resolved in it."
    )


class ShelfView(BaseModel):
    model: str
    group: str | None
    open: int


class ShelfList(BaseModel):
    """Where the open cases are that you may see."""

    shelves: list[ShelfView]


class CaseLine(BaseModel):
    """A case in the queue. What would tell why it is asked, or what the model said before a blind answer, is null."""

    id: UUID
    url: str = Field(description="Where to see all of it, under the address of this API.")
    model: str
    group: str | None
    status: Status
    created_at: datetime
    priority: int = Field(description="Higher comes first.")
    due_at: datetime | None
    overdue: bool = Field(description="It is open, and its due time has passed.")
    opinions_wanted: int
    blind: bool = Field(description="What the model said is shown after the answer.")
    adjudicating: bool = Field(description="The next answer decides.")
    confidence: float | None = Field(description="Null as well where the answer is to be given blindly.")
    claimed_by: str | None = Field(description="Who holds it, or who spoke last.")
    assigned_to: str | None = Field(description="For whom it is kept: nobody else gets it before its due time is over.")
    lease_until: datetime | None
    settles_at: datetime | None = Field(description="Until when the last answer can be taken back.")
    ended_at: datetime | None
    label: Label | None = Field(description="What it was resolved to; null as well where nobody could tell.")
    resolution: Literal["agreed", "majority", "adjudicated", "undecided"] | None
    kind: Kind | None = Field(description="Why people were asked; null until the case has ended.")
    record_id: UUID | None = Field(description="The prediction that it is about; null until the case has ended.")


class ListedCase(CaseLine):
    glance: Any = Field(description="The input, or the beginning of a long one, where it was asked for and is kept.")


class CaseList(BaseModel):
    cases: list[ListedCase]
    more: bool = Field(description="There are more behind these.")
    count: int | None = Field(
        description=f"How many fit, where that was asked for; null as well where there are more than {MOST_CASES:,}."
    )


class TaskView(BaseModel):
    """What is to be decided."""

    kind: Literal["binary", "multiclass", "multilabel", "choice", "generate"]
    exclusive: bool = Field(description="Exactly one label is right; else any number of them.")
    labels: list[str] | None = Field(
        description="Null where they stand in a file, as very many do: look them up at `labels_url`."
    )
    n_labels: int
    labels_url: str = Field(description="Where labels are found by typing; add `&query=`.")
    tree: dict[str, list[str]] | None = Field(description="The labels right above a label, where there are any.")
    codes: list[str] = Field(description="Why a reply may be wrong, where the task is to write one.")


class FoundLabelView(BaseModel):
    """A label that was found."""

    label: str = Field(description="To be sent in an answer.")
    text: str = Field(description="The label as people read it: characters that nobody sees are spelled out.")
    title: str | None = Field(description="What the file of labels says beside it.")
    match: Match = Field(
        description="It begins so; all words of the search begin words of the label or its title; or they are similar."
    )


class FoundLabelList(BaseModel):
    """The labels that fit best come first."""

    labels: list[FoundLabelView]
    more: bool = Field(description="There are more than `limit`: type more.")


class ShownPrediction(BaseModel):
    """What the model said."""

    prediction: str | list[str] | None
    prediction_set: list[str]
    top_labels: list[str]
    top_probabilities: list[float]
    label_confidence: list[float] | None = Field(description="Of each of `top_labels`, where they can hold together.")
    confidence: float | None
    scores: dict[str, float | None]
    action: str | None = Field(description="What was decided; null until the case has ended.")
    reason: str | None = Field(description="Why; null until the case has ended.")


class OpinionView(BaseModel):
    at: datetime
    reviewer: str
    adjudicates: bool
    label: Label | None = Field(description="Null: could not tell.")
    reason: str | None
    comment: str | None
    saw_prediction: bool
    seconds: float = Field(description="From the claim to the answer.")
    undone_at: datetime | None = Field(description="When it was taken back; it does not count.")
    text: str | None = Field(
        description="What should have been written in the place of the reply; null as well once that is no longer kept."
    )
    codes: list[str] | None = Field(description="Why the reply is wrong; null where nobody said.")


class EventView(BaseModel):
    """One move of a case."""

    at: datetime
    actor: str | None = Field(description="Null: the service itself.")
    from_status: Status | None
    to_status: Status
    token: int
    detail: dict[str, Any] | None


class EventList(BaseModel):
    events: list[EventView]


class CaseView(CaseLine):
    """A case as you may see it."""

    mine: bool = Field(description="You hold it.")
    token: int | None = Field(description="Of your claim, or of your answer while you can take it back.")
    input: Any = Field(description="As it was sent; null when it is no longer kept.")
    task: TaskView | None = Field(description="Null where the model is no longer served.")
    reply: str | None = Field(description="The text to be judged, where the task is to write one.")
    reasoning: str | None = Field(
        description="How the model came to the text, of a very long trace the beginning. Null where it wrote none, and"
        " while you are to answer without having seen what the model said."
    )
    prediction: ShownPrediction | None = Field(description="Null while you are to answer without having seen it.")
    draft: Draft | None = Field(description="What you typed before and did not send, or sent too late.")
    own: OpinionView | None = Field(description="What you said, unless you took it back.")
    opinions: list[OpinionView] = Field(
        description="What others said: for whoever decides between them, and for all once the case has ended."
    )
    events: list[EventView] = Field(description="For those who lead, and for all once the case has ended.")
    outcomes: list[OutcomeView] = Field(description="What is known to be true; empty until the case has ended.")


class ClaimView(BaseModel):
    """The right to answer one case until `lease_until`. Keep it alive with heartbeats."""

    case_id: UUID
    url: str
    token: int
    lease_until: datetime
    adjudicating: bool


class AnswerView(BaseModel):
    """What became of an answer, and what the model had said."""

    case: CaseLine
    undo_until: datetime | None = Field(description="Null where it counts already.")
    prediction: ShownPrediction


class OwnAnswerView(BaseModel):
    """One of your last answers."""

    case: CaseLine
    own: OpinionView
    can_change: bool = Field(description="`reopen` takes it back, and you hold the case again.")
    why_not: str | None = Field(description="Why it cannot be changed any more; null where it can.")


class OwnAnswerList(BaseModel):
    answers: list[OwnAnswerView] = Field(description="The latest first.")


class LostClaim(Problem):
    """A claim that no longer holds. What was typed is not lost."""

    kept: bool = Field(description="Something that you typed about this case is kept: `draft`.")
    draft: Draft | None


class LostClaimResponse(BaseModel):
    error: LostClaim


def task_json(model: str, task: TaskConfig, codes: Sequence[str] = ()) -> dict[str, Any]:
    """`TaskView`."""
    tree: dict[str, list[str]] | None = None
    if task.tree:
        tree = {}
        for child, parent in zip(*(ends.tolist() for ends in task.tree.links), strict=True):
            tree.setdefault(task.labels[child], []).append(task.labels[parent])
    return fields_of(
        TaskView,
        task,
        tree=tree,
        codes=list(codes),
        labels=None if task.sparse else task.labels,
        n_labels=len(task.labels),
        labels_url=f"/v1/labels?{urlencode({'model': model})}",
    )


def labels_json(found: Sequence[FoundLabel], *, more: bool) -> dict[str, Any]:
    """`FoundLabelList`."""
    told = [{**asdict(one), "text": visible(one.label), "title": visible(one.title) or None} for one in found]
    return {"labels": told, "more": more}


def backlog_json(backlog: Backlog) -> dict[str, Any]:
    """`BacklogView`."""
    return {"open": backlog.open, **asdict(backlog)}


def case_line_json(case: Case, now: datetime) -> dict[str, Any]:
    """`CaseLine`."""
    ended = case.status in ENDED
    return fields_of(
        CaseLine,
        case,
        url=f"/v1/cases/{case.id}",
        overdue=not ended and case.due_at is not None and case.due_at < now,
        confidence=case.confidence if ended or not case.blind else None,
        kind=case.kind if ended else None,
        record_id=case.record_id if ended else None,
    )


def case_json(sight: VisibleCase, name: str, task: dict[str, Any] | None, now: datetime) -> dict[str, Any]:
    """`CaseView`, for the person of this name."""
    case, record = sight.case, sight.record
    takes_back = case.status is Status.ANSWERED and case.claimed_by == name
    return fields_of(
        CaseView,
        **case_line_json(case, now),
        mine=sight.mine,
        token=case.token if sight.mine or takes_back else None,
        input=sight.value,
        task=task,
        reply=record.reply["text"] if record.reply else None,
        reasoning=record.reply.get("reasoning") if record.reply and sight.shown else None,
        prediction=prediction_json(record, ended=case.status in ENDED) if sight.shown else None,
        draft=draft_json(sight.draft),
        own=opinions_json([sight.own])[0] if sight.own else None,
        opinions=opinions_json(sight.opinions),
        events=events_json(sight.events),
        outcomes=[fields_of(OutcomeView, told, at=told.created_at) for told in sight.outcomes],
    )


def own_answer_json(one: OwnAnswer, now: datetime) -> dict[str, Any]:
    """`OwnAnswerView`."""
    return {
        "case": case_line_json(one.case, now),
        "own": opinions_json([one.opinion])[0],
        "can_change": one.why_not is None,
        "why_not": one.why_not,
    }


def prediction_json(record: Record, *, ended: bool) -> dict[str, Any]:
    """`ShownPrediction`. What was decided would tell a spot check from a held case, and both are to be looked at with
    the same eyes."""
    return fields_of(
        ShownPrediction, record, action=record.action if ended else None, reason=record.reason if ended else None
    )


def draft_json(draft: dict[str, Any] | None) -> dict[str, Any] | None:
    """`Draft`."""
    return None if draft is None else {key: draft.get(key) for key in Draft.model_fields}


def opinions_json(opinions: Sequence[Opinion]) -> list[dict[str, Any]]:
    """`OpinionView`s."""
    return [fields_of(OpinionView, opinion) for opinion in opinions]


def events_json(events: Sequence[Event]) -> list[dict[str, Any]]:
    """`EventView`s."""
    return [fields_of(EventView, event) for event in events]


def claim_json(claim: Claim) -> dict[str, Any]:
    """`ClaimView`."""
    return fields_of(ClaimView, claim, url=f"/v1/cases/{claim.case_id}")

"""What a person can see and do with cases, whether through the pages or through the API."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from time import monotonic
from typing import Any
from uuid import UUID

from demur.review import (
    access,
    cases,
    disputes,
    exchange,
    given_back,
    progress,
    queue,
    reopening,
    search,
    settling,
    skips,
)
from demur.review.access import Through
from demur.review.cases import Backlog, Filter
from demur.review.changes import MOST_CASES
from demur.review.disputes import ToDecide
from demur.review.exchange import Dossier, ImportOutcome
from demur.review.given_back import GivenBack
from demur.review.item import ENDED, Case, Claim, Event, Opinion, ReviewerScope, ReviewVerdict, Status
from demur.review.pace import ReviewPace, pace
from demur.review.progress import Progress, QueueBucket
from demur.review.queue import ClaimLost, NotYours
from demur.review.reopening import OwnAnswer
from demur.review.search import CaseSearch
from demur.review.settling import DisagreementRule, Settlement
from demur.serve.config.file import Config, ModelConfig
from demur.serve.contract.corrections import checked_codes
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import checked_label
from demur.serve.web.review.label_search import FoundLabel, search_of
from demur.serve.web.review.typed_texts import TypedTexts
from demur.traffic import log
from demur.traffic.database import Connection, Database
from demur.traffic.draw import Draws
from demur.traffic.record import Answer, Outcome, Record

KNOWN_SECONDS = 30
"""So often it is looked for held cases whose outcome was told, where these leave the queue."""

LONGEST_REASON = 500
"""Characters of a reason for which a case is skipped, or an answer changed."""

SHELVES_SECONDS = 30
"""How old it may be where cases are: it only fills the filters, and to count them all takes long."""


@dataclass(frozen=True, kw_only=True)
class VisibleCase:
    """A case as one person may see it."""

    case: Case
    mine: bool
    """This person holds it."""

    value: Any
    """The input; None when it is no longer kept."""

    record: Record
    output: Any
    """What the request brought, where the task is sparse; None when it is no longer kept."""

    shown: bool
    """Whether what the model said about it may be shown: while a person is to answer blindly it may not."""

    draft: dict[str, Any] | None
    """What this person typed before and did not send, or sent too late."""

    own: Opinion | None
    """What this person said, if they have not taken it back."""

    opinions: list[Opinion]
    """What others said: for whoever decides between them, and for all once the case has ended. Empty before."""

    events: list[Event]
    outcomes: list[Outcome]


class ReviewService:
    """The queue, as far as the configuration lets each person at it."""

    def __init__(self, config: Config, database: Database) -> None:
        self.config = config
        self._review = config.review
        self._database = database
        self._typed = TypedTexts(config)
        self._shelves: dict[ReviewerScope, tuple[float, list[QueueBucket]]] = {}
        self._look_for_known_at = -inf
        with database.transaction() as connection:
            key = log.draw_key(connection)
        prone = config.review.prone
        self._settlement = Settlement(
            unanimous=config.review.agreement == "unanimous",
            re_review=config.review.re_review,
            draws=Draws(key, "re-review"),
            prone=DisagreementRule(**prone.model_dump()) if prone else None,
            at_due=config.review.at_due,
        )

    def sweep(self) -> int:
        """Do what the clock says; return how many cases have moved."""
        with self._database.transaction() as connection:
            moved = settling.sweep(connection, self._settlement)
        if self._review.withdraw_known and monotonic() >= self._look_for_known_at:
            with self._database.transaction() as connection:
                moved += settling.withdraw_known(connection)
            self._look_for_known_at = monotonic() + KNOWN_SECONDS
        return moved

    def rights(self, name: str) -> tuple[ReviewerScope, bool]:
        """What this person may see and do, and whether they lead reviews."""
        return self._scope(name), self._review.leads(name)

    def backlog(self, name: str) -> Backlog:
        with self._database.transaction() as connection:
            return cases.backlog(connection, self._scope(name))

    def find(self, name: str, wanted: CaseSearch, *, limit: int, offset: int = 0) -> list[Case]:
        """Cases that this person may see: in the order in which they are worked, unless something is looked for or
        sorted. Raises `SearchTooWide`."""
        scope = self._scope(name)
        with self._database.transaction() as connection:
            if wanted.asks:
                return search.found(connection, wanted, name, scope=scope, limit=limit, offset=offset)
            return cases.listed(
                connection, wanted.which, scope=scope, order=self._review.order, limit=limit, offset=offset
            )

    def count(self, name: str, wanted: CaseSearch) -> int:
        """How many such cases this person may see; one more than `MOST_CASES` where there are more."""
        with self._database.transaction() as connection:
            return search.count(connection, wanted, name, scope=self._scope(name), at_most=MOST_CASES + 1)

    def shelf(self, name: str) -> int:
        """How many open cases are kept for this person."""
        with self._database.transaction() as connection:
            return cases.kept_for(connection, name, self._scope(name))

    def shelves(self, name: str) -> list[QueueBucket]:
        """Where the open cases are that this person may see, as of the last half minute."""
        scope = self._scope(name)
        seen_at, found = self._shelves.get(scope, (-inf, []))
        if monotonic() - seen_at > SHELVES_SECONDS:
            with self._database.transaction() as connection:
                found = progress.shelves(connection, scope)
            self._shelves[scope] = monotonic(), found
        return found

    def progress(self, name: str, since: datetime) -> Progress:
        with self._database.transaction() as connection:
            return progress.progress(connection, name, since, self._scope(name))

    def pace(self, name: str) -> ReviewPace:
        """How fast the cases are resolved that this person may see."""
        with self._database.transaction() as connection:
            return pace(connection, self._scope(name))

    def glances(self, name: str, listed: Sequence[Case]) -> dict[UUID, Any]:
        """By record, the inputs of cases that are listed, as far as a list needs them."""
        with self._database.transaction() as connection:
            access.note(connection, [case.id for case in listed], name, through="list", shown=["beginning"])
            return progress.glances(connection, [case.record_id for case in listed])

    def see(self, name: str, case_id: UUID, *, through: Through | None = None) -> VisibleCase:
        """A case as this person may see it. `through`: it is shown to them, and that is written down."""
        with self._database.transaction() as connection:
            case = self._case(connection, name, case_id)
            mine = case.status is Status.CLAIMED and case.claimed_by == name
            return self._visible(connection, name, case, decides=mine and case.adjudicating, through=through)

    def to_decide(
        self, name: str, *, unclear: bool = False, model: str | None = None, limit: int, through: Through
    ) -> tuple[list[VisibleCase], bool]:
        """Cases that this person may decide, with what others said of them, and whether there are more. That they are
        shown is written down."""
        with self._database.transaction() as connection:
            found = disputes.to_decide(
                connection,
                name,
                scope=self._scope(name),
                unclear=unclear,
                order=self._review.order,
                model=model,
                limit=limit + 1,
            )
            seen = [self._visible(connection, name, case, decides=True, through=through) for case in found[:limit]]
            return seen, len(found) > limit

    def n_to_decide(self, name: str) -> ToDecide:
        with self._database.transaction() as connection:
            return disputes.counts(connection, name, scope=self._scope(name))

    def decide(self, name: str, case_id: UUID, token: int, side: int, *, comment: str | None = None) -> Case:
        """Decide a case by taking the answer with this number, as `disputes.sides_of` counts from 1. All of it is one
        transaction. `token`: that of the case as this person saw it."""
        with self._database.transaction() as connection:
            scope = self._scope(name)
            disputes.check_decides(scope)
            case = self._case(connection, name, case_id)
            sides = disputes.sides_of(disputes.said_about(connection, case))
            if not 1 <= side <= len(sides):
                raise InvalidRequest(f"side: there are {len(sides)} answers to take; look at the case again")
            if comment and "\0" in comment:
                raise InvalidRequest("comment: the character 0 cannot be stored; leave it out")
            taken = sides[side - 1]
            own = cases.opinions_of(connection, [case_id])[case_id]
            verdict = ReviewVerdict(
                label=checked_label(taken.label, case.model, self._model(case.model).task),
                comment=comment or None,
                text=taken.text,
                codes=taken.codes,
                saw_prediction=self._sees_prediction(case, name, own),
            )
            undo = self._review.undo_seconds
            disputes.decide(
                connection,
                case_id,
                name,
                verdict,
                token=token,
                scope=scope,
                lease_seconds=self._review.lease_seconds,
                undo_seconds=undo,
            )
            if undo == 0:
                settling.settle(connection, self._settlement, case_id)
            return cases.case(connection, case_id)

    def labels_like(self, name: str, model: str, query: str, *, limit: int) -> tuple[list[FoundLabel], bool]:
        """Labels of a model that this person types, the best first, and whether there are more than `limit`."""
        scope = self._scope(name)
        if scope.models is not None and model not in scope.models:
            raise NotYours(f"{name} does not see cases of {model!r}; whoever does stands in review.people")
        return search_of(self._model(model).task.table).find(query, limit)

    def claim(self, name: str, case_id: UUID) -> Claim:
        with self._database.transaction() as connection:
            return queue.claim(
                connection, case_id, name, lease_seconds=self._review.lease_seconds, scope=self._scope(name)
            )

    def claim_next(self, name: str, *, model: str | None = None, again: bool = False) -> Claim | None:
        """The case that this person holds already, if there is one; else the next that is free. None: there is none.
        `again`: also a case that they gave back a while ago."""
        with self._database.transaction() as connection:
            queue.take_turns(connection, name)
            held = cases.listed(connection, Filter(statuses=(Status.CLAIMED,), model=model, claimed_by=name), limit=9)
            mine = [case for case in held if case.claimed_by == name]  # and the lease has not run out
            if mine:
                first = min(mine, key=lambda case: case.ahead)  # one that is open comes before one that was sent ahead
                with suppress(ClaimLost):  # just now it ended, or went to somebody else
                    return queue.claim(connection, first.id, name, lease_seconds=self._review.lease_seconds)
            return queue.claim_next(
                connection,
                name,
                lease_seconds=self._review.lease_seconds,
                scope=self._scope(name),
                order=self._review.order,
                model=model,
                again=again,
            )

    def given_back(self, name: str, *, model: str | None = None) -> GivenBack | None:
        """The free cases that do not come to this person because they gave them back; None where there are none."""
        with self._database.transaction() as connection:
            return given_back.left_for(connection, name, scope=self._scope(name), model=model)

    def heartbeat(self, name: str, case_id: UUID, token: int, draft: dict[str, Any] | None) -> Claim:
        """Prolong a claim. What was typed is kept even where the claim is lost."""
        draft = None if draft is None else self._typed.storable(draft)
        with self._database.transaction() as connection:
            self._case(connection, name, case_id)
        try:
            with self._database.transaction() as connection:
                return queue.heartbeat(
                    connection, case_id, name, token=token, lease_seconds=self._review.lease_seconds, draft=draft
                )
        except ClaimLost:
            if draft is not None:
                self._keep_draft(name, case_id, draft)
            raise

    def answer(
        self,
        name: str,
        case_id: UUID,
        token: int,
        *,
        label: Answer | None,
        reason: str | None = None,
        comment: str | None = None,
        text: str | None = None,
        codes: Sequence[str] = (),
    ) -> Case:
        """Say what a claimed case is, or why nobody could tell from what is there (`label` None, with a reason). With a
        reply that is wrong go the text that should have been written, and the codes of what is wrong."""
        with self._database.transaction() as connection:
            case = self._case(connection, name, case_id)
            if label is not None:
                label = checked_label(label, case.model, self._model(case.model).task)
            elif not reason:
                raise InvalidRequest("reason: say why it cannot be told")
            if "\0" in f"{reason}{comment}":
                raise InvalidRequest("reason and comment: the character 0 cannot be stored; leave it out")
            said = cases.opinions_of(connection, [case_id])[case_id]
            verdict = ReviewVerdict(
                label=label,
                reason=None if label is not None else reason,
                comment=comment or None,
                text=None if text is None else self._typed.corrected(connection, case, label, text),
                codes=checked_codes(codes, label, case.model, self._review.codes_of(case.model)),
                saw_prediction=self._sees_prediction(case, name, said),
            )
        try:
            with self._database.transaction() as connection:
                undo = self._review.undo_seconds
                case = queue.answer(connection, case_id, name, token=token, verdict=verdict, undo_seconds=undo)
                if undo == 0:
                    settling.settle(connection, self._settlement, case_id)
                    case = cases.case(connection, case_id)
                return case
        except ClaimLost:
            draft = {"label": label, "reason": reason, "comment": comment, "text": text, "codes": list(codes) or None}
            self._keep_draft(name, case_id, draft)
            raise

    def draft(self, name: str, case_id: UUID) -> dict[str, Any] | None:
        """What this person typed about a case before and did not send, or sent too late."""
        with self._database.transaction() as connection:
            return cases.draft_of(connection, case_id, name)

    def record(self, case: Case) -> Record:
        """The prediction that a case is about."""
        with self._database.transaction() as connection:
            return log.find_one(connection, case.record_id)

    def undo(self, name: str, case_id: UUID, token: int, *, instead_of: UUID | None = None) -> Claim:
        """Take an answer back. `instead_of`: the case that this person took meanwhile, which is free again."""
        with self._database.transaction() as connection:
            self._case(connection, name, case_id)
            claim = queue.undo(connection, case_id, name, token=token, lease_seconds=self._review.lease_seconds)
            if instead_of is not None and instead_of != case_id:
                queue.free(connection, instead_of, name, why="they took their answer to another case back")
            return claim

    def release(self, name: str, case_id: UUID, token: int) -> None:
        """Give a case back: it waits for others, and does not come to this person for a while."""
        away = self._review.give_back_seconds
        with self._database.transaction() as connection:
            self._case(connection, name, case_id)
            queue.release(connection, case_id, name, token=token, away_seconds=away)

    def skip(self, name: str, case_id: UUID, token: int, reason: str | None = None) -> None:
        """Give a case back for good: it does not come to this person by itself any more."""
        with self._database.transaction() as connection:
            self._case(connection, name, case_id)
            skips.skip(connection, case_id, name, token=token, reason=_line(reason, "reason"))

    def last_answers(self, name: str) -> list[OwnAnswer]:
        """What this person answered last, the latest first, and whether they can still change it."""
        with self._database.transaction() as connection:
            return reopening.last_answers(connection, name, self._scope(name))

    def reopen(self, name: str, case_id: UUID, why: str | None = None) -> Claim:
        """Take an answer back that counts already, where nobody has built on it, and hold its case again."""
        with self._database.transaction() as connection:
            return reopening.reopen(
                connection,
                case_id,
                name,
                why=_line(why, "why"),
                scope=self._scope(name),
                lease_seconds=self._review.lease_seconds,
            )

    def ids(self, name: str, which: Filter) -> list[UUID]:
        """All cases that are meant and that this person may see, oldest first, for those who lead."""
        self.check_leads(name)
        with self._database.transaction() as connection:
            return cases.ids(connection, which, scope=self._scope(name))

    def dossiers(self, name: str, case_ids: Sequence[UUID]) -> Iterator[Dossier]:
        """All that is known of cases. Whoever asks has been found to lead."""
        with self._database.transaction() as connection:
            access.note(connection, case_ids, name, through="export", shown=["everything"])
        with self._database.transaction() as connection:
            yield from exchange.dossiers(connection, case_ids)

    def some_input(self, model: str) -> Any:
        """The input of any case of this model; None when none is kept."""
        with self._database.transaction() as connection:
            return exchange.some_input(connection, model)

    def models_of(self, case_ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return the models of the cases that exist, by case."""
        with self._database.transaction() as connection:
            return {case_id: case.model for case_id, case in cases.some(connection, case_ids).items()}

    def take_in(self, name: str, case_id: UUID, verdict: ReviewVerdict, *, seconds: float | None) -> ImportOutcome:
        """Let a verdict count that this person gave elsewhere. Where a claim of somebody else is in the way, it is kept
        as what they typed."""
        with self._database.transaction() as connection:
            case = self._case(connection, name, case_id)
        if verdict.label is not None:
            label = checked_label(verdict.label, case.model, self._model(case.model).task)
            verdict = replace(verdict, label=label)
        try:
            with self._database.transaction() as connection:
                return exchange.take_in(
                    connection,
                    case_id,
                    name,
                    verdict,
                    seconds=seconds,
                    scope=self._scope(name),
                    rules=self._settlement,
                )
        except ClaimLost:
            self._keep_draft(
                name, case_id, {"label": verdict.label, "reason": verdict.reason, "comment": verdict.comment}
            )
            raise

    def withdraw(self, name: str, case_id: UUID, why: str) -> Case:
        self.check_leads(name)
        with self._database.transaction() as connection:
            self._case(connection, name, case_id)
            return queue.withdraw(connection, case_id, name, why=why)

    def check_leads(self, name: str) -> None:
        """Raise `NotYours` for whoever may not see the overview, nor withdraw or assign cases."""
        if not self._review.leads(name):
            raise NotYours(f"{name} does not lead reviews; those who do have `leads: true` in review.people")

    def _visible(
        self, connection: Connection, name: str, case: Case, *, decides: bool, through: Through | None
    ) -> VisibleCase:
        opinions = cases.opinions_of(connection, [case.id])[case.id]
        ended = case.status in ENDED
        between = disputes.said_about(connection, case) if decides and not ended else []
        sight = VisibleCase(
            case=case,
            mine=case.status is Status.CLAIMED and case.claimed_by == name,
            value=log.find_input(connection, case.record_id),
            output=log.find_output(connection, case.record_id) if self._is_sparse(case.model) else None,
            record=log.find_one(connection, case.record_id),
            shown=ended or self._sees_prediction(case, name, opinions),
            draft=cases.draft_of(connection, case.id, name),
            own=next((one for one in opinions if one.reviewer == name and one.undone_at is None), None),
            opinions=opinions if ended else between,
            events=cases.events_of(connection, case.id) if ended or self._review.leads(name) else [],
            outcomes=log.outcomes_of(connection, case.record_id) if ended else [],
        )
        if through is not None:
            shown = {"input": sight.value is not None, "prediction": sight.shown, "opinions": sight.opinions != []}
            told = [what for what, is_shown in shown.items() if is_shown]
            access.note(connection, [case.id], name, through=through, shown=told)
        return sight

    def _case(self, connection: Connection, name: str, case_id: UUID) -> Case:
        case = cases.case(connection, case_id)
        queue.check_covers(self._scope(name), case)
        return case

    def _scope(self, name: str) -> ReviewerScope:
        scope = self._review.scope_of(name)
        if scope is None:
            raise NotYours(f"{name} is not among the reviewers; whoever is stands in review.people")
        return scope

    def _model(self, name: str) -> ModelConfig:
        model = self.config.models.get(name)
        if model is None:
            raise InvalidRequest(f"the model {name!r} is no longer served; its labels are not known")
        return model

    def _is_sparse(self, model: str) -> bool:
        return model in self.config.models and self.config.models[model].task.sparse

    def _keep_draft(self, name: str, case_id: UUID, draft: dict[str, Any]) -> None:
        draft = self._typed.storable(draft)
        with self._database.transaction() as connection:
            queue.keep_draft(connection, case_id, name, draft)

    @staticmethod
    def _sees_prediction(case: Case, name: str, opinions: Sequence[Opinion]) -> bool:
        """Whoever has answered has seen it, also if they took it back."""
        return not case.blind or any(opinion.reviewer == name for opinion in opinions)


def _line(text: str | None, key: str) -> str | None:
    """Return what somebody typed as a reason; None where it is nothing."""
    told = " ".join((text or "").split())
    if "\0" in told:
        raise InvalidRequest(f"{key}: the character 0 cannot be stored; leave it out")
    if len(told) > LONGEST_REASON:
        raise InvalidRequest(f"{key}: a reason has at most {LONGEST_REASON} characters")
    return told or None

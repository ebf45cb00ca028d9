"""The stage `finish`: what is written about a prediction, from what the models said about it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from demur.policies.decision import Action
from demur.serve.config.file import Config
from demur.serve.contract.commit import BatchWriting, CommitOutcome, ToWrite, Writing
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.contract.wire import PredictRequest
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.final_action import FinalAction, OverruledAction, in_the_room, overruled
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.queue_room import Places, QueueRoom
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.traffic.columns import RecordColumns
from demur.traffic.dataset import NO_INPUT
from demur.traffic.record import Cost, Entry, Record, ShadowDecision

ACTIONS = {action.value: action for action in Action}
"""To look one up takes a fifth of the time that it takes to call `Action`."""


@dataclass(slots=True)
class FinishedBatch:
    """What is written about the rows of a batch, and where each of these is."""

    items: list[ToWrite] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    """[items], the places in the batch of the rows of each item."""

    def add(self, item: ToWrite, rows: list[int]) -> None:
        self.items.append(item)
        self.rows.append(rows)

    def outcomes(self, committed: Sequence[Sequence[CommitOutcome]]) -> list[CommitOutcome]:
        """What came of each row, in the order of the batch, from what came of each item."""
        if len(self.rows) == 1:
            return list(committed[0])
        by_row = {
            at: done
            for rows, results in zip(self.rows, committed, strict=True)
            for at, done in zip(rows, results, strict=True)
        }
        return [by_row[at] for at in range(len(by_row))]


@dataclass(frozen=True, slots=True)
class Finisher:
    """Makes records, and cases for people, of what models said."""

    config: Config
    controls: Controls
    safeguards: Safeguards
    spot_checks: SpotChecks
    new_cases: NewCases
    room: QueueRoom

    def finish(
        self,
        pending: Sequence[PendingRow],
        rows: Sequence[ModelRow],
        places: Places,
        now: datetime,
        *,
        in_columns: bool = True,
    ) -> FinishedBatch:
        """What is written about rows that asked one model first. A case takes one of the `places` in the queue; where
        there is none, what would be held is abstained from.

        A row is written by itself where it has a decision of a shadow, or several models decided it, or none. The
        others stay columns, unless `in_columns` says otherwise; one becomes an object where a person is asked about it.
        """
        finished = FinishedBatch()
        if not rows:
            return finished
        model = pending[0].request.model
        overruled = self._overruled(model, rows)
        batches: dict[int, tuple[BatchWriting, int]] = {}
        for members in _by_share(pending, rows) if in_columns else ():
            batch = BatchWriting(self._columns(model, pending, rows, members, overruled, now))
            finished.add(batch, members)
            batches |= {members[n]: (batch, n) for n in self._may_be_asked(batch.columns)}
        apart = set(range(len(rows))).difference(*finished.rows)
        for at in sorted(apart | batches.keys()):  # in order, because the queue may have room for some of them
            said = overruled[at] if overruled else OverruledAction(*self._said(model, rows[at]))
            if at in apart:
                finished.add(self._writing(pending[at], rows[at], said, places, now), [at])
            else:
                self._ask(*batches[at], said, pending[at].request, places)
        return finished

    def _may_be_asked(self, columns: RecordColumns) -> list[int]:
        """The rows that are held, or drawn for a spot check."""
        if not any(columns.label_probabilities):
            return [row for row, action in enumerate(columns.actions) if action == Action.REVIEW]
        told = zip(columns.actions, columns.ids, columns.label_probabilities, strict=True)
        return [
            row
            for row, (action, record_id, chance) in enumerate(told)
            if action == Action.REVIEW or self.new_cases.is_drawn(record_id, chance)
        ]

    def _ask(
        self, batch: BatchWriting, row: int, said: OverruledAction, request: PredictRequest, places: Places
    ) -> None:
        """Put a row of columns before people, as far as there is room."""
        columns = batch.columns
        final = in_the_room(said, self.room.why_none)
        columns.actions[row], columns.reasons[row] = final
        if final.action is Action.REVIEW:
            columns.label_probabilities[row] = 1.0
        case = self.new_cases.of(columns.record(row), self.config.models[columns.model], request.review)
        if case:
            batch.cases[row] = case
            self.room.take(places)

    def _overruled(self, model: str, rows: Sequence[ModelRow]) -> list[OverruledAction] | None:
        """What is left of each decision when control and alarms have had their word; None where there are none."""
        control = self.controls.of(model)
        if control is None and not self.safeguards.guards(model):
            return None
        found = []
        for row in rows:
            decided, i = row.share.decided if row.share else None, row.index
            found.append(
                overruled(
                    self._said(model, row),
                    model,
                    decided.confidence[i] if decided else None,
                    decided.artifact if decided else None,
                    control=control,
                    safeguards=self.safeguards,
                )
            )
        return found

    def _said(self, model: str, row: ModelRow) -> FinalAction:
        """The decision of whoever decided, or why nobody did."""
        decided, i = row.share.decided if row.share else None, row.index
        if decided and not row.why_none:
            return FinalAction(ACTIONS[decided.actions[i]], decided.reasons[i])
        return FinalAction(Action(self.config.models[model].recipe.when_unknown), row.why_none)

    def _columns(
        self,
        model: str,
        pending: Sequence[PendingRow],
        rows: Sequence[ModelRow],
        members: list[int],
        overruled: Sequence[OverruledAction] | None,
        now: datetime,
    ) -> RecordColumns:
        """The rows of one artifact's share, of which nobody has been asked yet."""
        share = rows[members[0]].share
        assert share is not None
        decided, index = share.decided, [rows[at].index for at in members]
        part = decided if index == list(range(len(decided.actions))) else decided.rows(index)
        said = [in_the_room(overruled[at], "") for at in members] if overruled else None
        requests = [pending[at].request for at in members]
        groups = [request.group for request in requests]
        keep_days = self.config.keep_inputs_days
        return RecordColumns(
            model=model,
            artifact=decided.artifact,
            created_at=now,
            ids=[pending[at].id for at in members],
            groups=groups,
            clusters=[request.cluster for request in requests],
            predictions=part.predictions,
            top_labels=part.top_labels,
            top_probabilities=part.top_probabilities,
            label_confidences=part.label_confidences,
            prediction_sets=part.prediction_sets,
            scores=part.scores,
            confidence=part.confidence,
            actions=[one.action for one in said] if said else list(part.actions),
            reasons=[one.reason for one in said] if said else list(part.reasons),
            label_probabilities=self.spot_checks.probabilities(model, groups, part.confidence),
            queued=[round(rows[at].queued_milliseconds, 3) for at in members],
            model_milliseconds=round(decided.model_milliseconds, 3),
            costs=[cost_of([cost]) if cost else None for cost in part.costs],
            replies=part.replies,
            inputs=[_kept_input(request) for request in requests],
            outputs=[request.output for request in requests],
            input_expires_at=now + timedelta(days=keep_days) if keep_days else None,
            keys=[pending[at].use for at in members],
        )

    def _writing(
        self, pending: PendingRow, row: ModelRow, said: OverruledAction, places: Places, now: datetime
    ) -> Writing:
        """What is written about one prediction as an object."""
        request, keep_days = pending.request, self.config.keep_inputs_days
        record = self._record(pending, row, in_the_room(said, self.room.why_none), now)
        entry = Entry(
            record=record,
            input=_kept_input(request),
            output=request.output,
            input_expires_at=now + timedelta(days=keep_days) if keep_days else None,
            key=pending.use,
            shadow=_shadow(row),
        )
        case = self.new_cases.of(record, self.config.models[request.model], request.review)
        if case:
            self.room.take(places)
        return Writing(entry, case)

    def _record(self, pending: PendingRow, row: ModelRow, final: FinalAction, now: datetime) -> Record:
        request = pending.request
        decided, i = row.share.decided if row.share else None, row.index
        confidence = decided.confidence[i] if decided else None
        return Record(
            id=pending.id,
            created_at=now,
            model=request.model,
            artifact=decided.artifact if decided else None,
            group=request.group,
            cluster=request.cluster,
            prediction=decided.predictions[i] if decided else None,
            top_labels=decided.top_labels[i] if decided else [],
            top_probabilities=decided.top_probabilities[i] if decided else [],
            label_confidence=decided.label_confidences[i] if decided else None,
            prediction_set=decided.prediction_sets[i] if decided else [],
            scores={name: values[i] for name, values in decided.scores.items()} if decided else {},
            confidence=confidence,
            action=final.action,
            reason=f"{final.reason}; {pending.instead}" if pending.instead else final.reason,
            label_probability=1.0
            if final.action is Action.REVIEW
            else self.spot_checks.probability(request.model, request.group, confidence),
            timings=_timings(row),
            steps=_steps(request.model, row) if row.before or (decided and decided.asks_next) else None,
            cost=_cost(row),
            reply=decided.replies[i] if decided else None,
        )


def _by_share(pending: Sequence[PendingRow], rows: Sequence[ModelRow]) -> list[list[int]]:
    """The places of the rows that may stay columns, those of each artifact's share together."""
    shares: dict[int, list[int]] = {}
    for at, (one, row) in enumerate(zip(pending, rows, strict=True)):
        share = row.share
        if share is None or row.why_none or row.before or share.shadow or share.decided.asks_next:
            continue
        if not one.instead:
            shares.setdefault(id(share), []).append(at)
    return list(shares.values())


def _kept_input(request: PredictRequest) -> Any:
    return NO_INPUT if request.output is not None and request.input is None else request.input


def _timings(row: ModelRow) -> dict[str, float]:
    """Milliseconds in the queue of the first model, in all models, and in the shadow."""
    asked = row.steps
    first = asked[0]
    timings = {"queued": round(first.queued_milliseconds, 3)}
    if spent := [one.share.decided.model_milliseconds for one in asked if one.share]:
        timings["model"] = round(sum(spent), 3)
    if first.share and first.share.shadow:
        timings["shadow"] = round(first.share.shadow_milliseconds, 3)
    return timings


def _steps(model: str, row: ModelRow) -> list[dict[str, Any]]:
    """What each model of a cascade said, in turn."""
    steps = []
    for one in row.steps:
        if one.share is None:
            continue
        decided, i = one.share.decided, one.index
        steps.append(
            {
                "model": model,
                "prediction": decided.predictions[i],
                "confidence": decided.confidence[i],
                "action": decided.actions[i],
                "reason": decided.reasons[i],
                "scores": {name: values[i] for name, values in decided.scores.items()},
                "cost": decided.costs[i],
            }
        )
        model = decided.asks_next
    return steps


def _cost(row: ModelRow) -> Cost | None:
    """Add up the costs of every step of a cascade that a language model took."""
    known = [cost for one in row.steps if one.share and (cost := one.share.decided.costs[one.index])]
    return cost_of(known) if known else None


def cost_of(known: Sequence[Cost]) -> Cost:
    """The sum of some costs."""
    whole = Cost(
        prompt_tokens=sum(cost["prompt_tokens"] for cost in known),
        completion_tokens=sum(cost["completion_tokens"] for cost in known),
        calls=sum(cost["calls"] for cost in known),
        seconds=round(sum(cost["seconds"] for cost in known), 6),
    )
    if elsewhere := sum((Counter(cost.get("elsewhere", {})) for cost in known), Counter()):
        whole["elsewhere"] = dict(elsewhere)
    return whole


def _shadow(row: ModelRow) -> ShadowDecision | None:
    """Return the shadow's decision of the model that was asked first: a shadow is not followed further."""
    first = row.steps[0]
    if first.share is None or first.share.shadow is None:
        return None
    shadow, i = first.share.shadow, first.index
    return ShadowDecision(
        artifact=shadow.artifact,
        prediction=shadow.predictions[i],
        confidence=shadow.confidence[i],
        action=shadow.actions[i],
        reason=shadow.reasons[i],
        prediction_set=shadow.prediction_sets[i],
    )

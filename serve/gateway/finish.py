"""The stage `finish`: what is written about a prediction, from what the models said about it."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from demur.policies.decision import Action
from demur.serve.config.file import Config
from demur.serve.contract.commit import Writing
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.final_action import FinalAction, final_action
from demur.serve.gateway.new_cases import NewCases
from demur.serve.gateway.queue_room import Places, QueueRoom
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.traffic.dataset import NO_INPUT
from demur.traffic.record import Cost, Entry, Record, ShadowDecision

ACTIONS = {action.value: action for action in Action}
"""To look one up takes a fifth of the time that it takes to call `Action`."""


@dataclass(frozen=True, slots=True)
class Finisher:
    """Makes records, and cases for people, of what models said."""

    config: Config
    controls: Controls
    safeguards: Safeguards
    spot_checks: SpotChecks
    new_cases: NewCases
    room: QueueRoom

    def writing(self, pending: PendingRow, row: ModelRow, places: Places, now: datetime) -> Writing:
        """What is written about one prediction. A case takes one of the `places` in the queue; where there is none,
        what would be held is abstained from."""
        request, keep_days = pending.request, self.config.keep_inputs_days
        record = self._record(pending, row, now)
        entry = Entry(
            record=record,
            input=NO_INPUT if request.output is not None and request.input is None else request.input,
            output=request.output,
            input_expires_at=now + timedelta(days=keep_days) if keep_days else None,
            key=pending.use,
            shadow=_shadow(row),
        )
        case = self.new_cases.of(record, self.config.models[request.model], request.review)
        if case:
            self.room.take(places)
        return Writing(entry, case)

    def _final_action(self, model: str, row: ModelRow) -> FinalAction:
        decided, i = row.share.decided if row.share else None, row.index
        if decided and not row.why_none:
            said = FinalAction(ACTIONS[decided.actions[i]], decided.reasons[i])
        else:
            said = FinalAction(Action(self.config.models[model].recipe.when_unknown), row.why_none)
        return final_action(
            said,
            model,
            decided.confidence[i] if decided else None,
            decided.artifact if decided else None,
            control=self.controls.of(model),
            safeguards=self.safeguards,
            no_room=self.room.why_none,
        )

    def _record(self, pending: PendingRow, row: ModelRow, now: datetime) -> Record:
        request = pending.request
        decided, i = row.share.decided if row.share else None, row.index
        confidence = decided.confidence[i] if decided else None
        final = self._final_action(request.model, row)
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
    if not known:
        return None
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

"""What is written about one prediction, from what the models said about it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from demur.policies.decision import Action
from demur.serve.config.file import ModelConfig
from demur.serve.contract import wire
from demur.serve.gateway.controls import ModelControl
from demur.serve.gateway.final_action import FinalAction, final_action
from demur.serve.gateway.model_client import ModelRow
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.gateway.spot_checks import SpotChecks
from demur.traffic.record import Cost, Entry, KeyUse, Record, ShadowDecision


def entry_of(
    record_id: UUID,
    request: wire.PredictRequest,
    row: ModelRow,
    *,
    model: ModelConfig,
    spot_checks: SpotChecks,
    control: ModelControl | None,
    safeguards: Safeguards,
    no_room: str,
    now: datetime,
    use: KeyUse | None,
    keep_inputs: timedelta | None,
) -> Entry:
    """`no_room` says why nothing can be held; empty where something can. What would be held is then abstained from."""
    record = _record(record_id, request, row, model, spot_checks, control, safeguards, no_room, now)
    return Entry(
        record=record,
        input=request.input,
        input_expires_at=now + keep_inputs if keep_inputs else None,
        key=use,
        shadow=_shadow(row),
    )


def _record(
    record_id: UUID,
    request: wire.PredictRequest,
    row: ModelRow,
    model: ModelConfig,
    spot_checks: SpotChecks,
    control: ModelControl | None,
    safeguards: Safeguards,
    no_room: str,
    now: datetime,
) -> Record:
    decided, i = row.share.decided if row.share else None, row.index
    if decided and not row.why_none:
        said = FinalAction(Action(decided.actions[i]), decided.reasons[i])
    else:
        said = FinalAction(Action(model.recipe.policy.otherwise), row.why_none)
    confidence, artifact = (decided.confidence[i], decided.artifact) if decided else (None, None)
    final = final_action(
        said, request.model, confidence, artifact, control=control, safeguards=safeguards, no_room=no_room
    )
    held = final.action is Action.REVIEW
    first = row.before[0] if row.before else row
    timings = {"queued": round(first.queued_milliseconds, 3)}
    asked = [(one, one.share) for one in (*row.before, row) if one.share]
    if asked:
        timings["model"] = round(sum(share.decided.model_milliseconds for _, share in asked), 3)
    if first.share and first.share.shadow:
        timings["shadow"] = round(first.share.shadow_milliseconds, 3)
    return Record(
        id=record_id,
        created_at=now,
        model=request.model,
        artifact=artifact,
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
        reason=final.reason,
        label_probability=1.0 if held else spot_checks.probability(request.model, request.group, confidence),
        timings=timings,
        steps=_steps(request.model, row) if row.before or (decided and decided.asks_next) else None,
        cost=_cost_of_all([share.decided.costs[one.index] for one, share in asked]),
        reply=decided.replies[i] if decided else None,
    )


def _steps(model: str, row: ModelRow) -> list[dict[str, Any]]:
    """What each model of a cascade said, in turn."""
    steps = []
    for one in (*row.before, row):
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


def _cost_of_all(costs: Sequence[Cost | None]) -> Cost | None:
    """Of every step of a cascade that a language model took."""
    known = [cost for cost in costs if cost]
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
    """Of the model that was asked first: a shadow is not followed further."""
    first = row.before[0] if row.before else row
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

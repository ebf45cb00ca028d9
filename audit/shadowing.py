"""An artifact in the shadow beside what callers were told, on live records of which some have a label (METHODS 9.7)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.evidence import Evidence, evidence
from demur.audit.metrics.head_to_head import Contender, HeadToHead, head_to_head, without_nan
from demur.audit.metrics.likeness import likeness
from demur.audit.metrics.sampling import LabelDraw, label_draw_of
from demur.traffic.record import Answer
from demur.traffic.shadowed import ShadowedTraffic, ShadowSide
from demur.uncertainty.checks import Array, Mask


class NothingShadowed(ValueError):
    """No record in the range was decided by the artifact in the shadow. Start the shadow, or widen the range."""


@dataclass(frozen=True, kw_only=True)
class ShadowCost:
    """Milliseconds by which the shadow delayed an answer: the whole time of its batch. NaN where none was noted."""

    n: int
    mean: float
    median: float
    share_of_model: float
    """The mean, as a share of the mean time in the model."""


@dataclass(frozen=True, kw_only=True)
class Shadowing:
    """What was found on `n` records about which both decided. In the numbers A is what callers were told, B the
    shadow."""

    n: int
    escalated: int
    """Further records, which the shadow would have passed to another model: that one was not asked, so there is no
    decision."""

    told_by: Mapping[str, int]
    """How many of the records each artifact decided that was in force, or a canary."""

    people_told: int
    people_shadow: int
    """Cases for people: held for review, spot checks aside."""

    every_label: bool
    """Whether every record has an outcome. Otherwise those count that a person gave who was asked, by what they stand
    for; others are not drawn, and count for nothing."""

    not_drawn: int
    waiting: int
    """Held for review, and not reviewed yet."""

    never: int
    """Could not be asked about, since nothing answered was checked: risk, accuracy and calibration know nothing of
    them."""

    undefined: int
    """Without a confidence on either side: held as far as anybody knows, and not part of risk and calibration."""

    numbers: HeadToHead
    evidence_told: Evidence
    evidence_shadow: Evidence
    """Of the answered and labelled records, with errors as events."""

    flips: Sequence[int]
    """Where in the traffic the decisions differ, in order of time."""

    cost: ShadowCost

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined; of the flips only those that somebody names."""
        parts = {name: value for name, value in vars(self).items() if name != "flips"}
        return {
            **parts,
            "told_by": dict(self.told_by),
            "numbers": self.numbers.as_json(),
            **{name: without_nan(asdict(parts[name])) for name in ("evidence_told", "evidence_shadow", "cost")},
        }


def shadowing(seen: ShadowedTraffic, *, exact: bool) -> Shadowing:
    """Compare both decisions about each record. With `exact` a set of labels is right if nothing differs, otherwise as
    far as it is like the truth."""
    decided = np.array([action != "escalate" for action in seen.shadow.actions], dtype=bool)
    rows = np.flatnonzero(decided).tolist()
    if not rows:
        raise NothingShadowed("the shadow passed all these records to another model, so it decided about none of them")
    outcomes = [seen.outcomes[i] for i in rows]
    known = np.array([outcome is not None for outcome in outcomes], dtype=bool)
    reviewed, probability = seen.reviewed[rows], seen.label_probability[rows]
    draw = label_draw_of(reviewed, known, probability)
    told, shadow = (_contender(side, rows, outcomes, exact=exact) for side in (seen.told, seen.shadow))
    sound = ~np.isnan(told.confidence) & ~np.isnan(shadow.confidence)
    draw = LabelDraw(weights=np.where(sound, draw.weights, 0.0), common=draw.common)
    actions = [[side.actions[i] for i in rows] for side in (seen.told, seen.shadow)]
    held = np.array([action == "review" for action in actions[0]], dtype=bool)
    every = bool(known.all())
    return Shadowing(
        n=len(rows),
        escalated=int((~decided).sum()),
        told_by=dict(Counter(seen.artifacts[i] or "nobody" for i in rows).most_common()),
        people_told=actions[0].count("review"),
        people_shadow=actions[1].count("review"),
        every_label=every,
        not_drawn=0 if every else int((known & ~(reviewed & (probability > 0))).sum()),
        waiting=0 if every else int((held & ~reviewed).sum()),
        never=0 if every else int((probability == 0).sum()),
        undefined=int((~sound).sum()),
        numbers=head_to_head(told, shadow, draw),
        evidence_told=_evidence(told, draw.weights),
        evidence_shadow=_evidence(shadow, draw.weights),
        flips=[rows[i] for i in np.flatnonzero(told.answered != shadow.answered)],
        cost=_cost(seen.model_milliseconds, seen.shadow_milliseconds),
    )


def _contender(side: ShadowSide, rows: Sequence[int], outcomes: Sequence[Answer | None], *, exact: bool) -> Contender:
    likenesses = np.array(
        [
            0.0 if truth is None else likeness(side.predictions[i], truth)
            for i, truth in zip(rows, outcomes, strict=True)
        ]
    )
    return Contender(
        answered=np.array([side.actions[i] == "answer" for i in rows], dtype=bool),
        confidence=side.confidence[rows],
        quality=(likenesses == 1).astype(np.float64) if exact else likenesses,
    )


def _evidence(one: Contender, weights: Array) -> Evidence:
    return evidence((one.quality < 1).astype(np.float64), np.where(one.answered, weights, 0.0))


def _cost(model: Array, shadow: Array) -> ShadowCost:
    noted: Mask = ~np.isnan(model) & ~np.isnan(shadow)
    if not noted.any():
        return ShadowCost(n=0, mean=np.nan, median=np.nan, share_of_model=np.nan)
    mean, whole = float(shadow[noted].mean()), float(model[noted].mean())
    return ShadowCost(
        n=int(noted.sum()),
        mean=mean,
        median=float(np.median(shadow[noted])),
        share_of_model=mean / whole if whole > 0 else np.nan,
    )

"""Prediction sets of an artifact at a level that moves, for traffic that drifts (Gibbs & Candès 2021, ACI)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from demur.policies.conformal import quantile_at
from demur.policies.conformal_sets import LabelSets, Reads
from demur.policies.moved_sets import MovedLabelSets
from demur.policies.promise import Promise
from demur.policies.selector import Selector
from demur.uncertainty.checks import Array, InvalidInput, Mask


class FixedSets(InvalidInput):
    """These sets cannot be had at another level. Fit again, with `split` sets that may leave the prediction out."""


@dataclass(frozen=True, kw_only=True)
class MovingSets:
    """The labels that fitted sets do not rule out at another level: all of them at 0 or below, none from 1 on."""

    sets: LabelSets
    level: float
    qhat: float

    keep_predicted: ClassVar[bool] = False
    reads: ClassVar[Reads] = "probabilities"

    @property
    def promise_in_words(self) -> str:
        return f"at {100 * min(1.0, max(0.0, self.level)):.3g}% error"

    @property
    def promise(self) -> Promise:
        """Nothing: on average over a long run, sets miss as often as the control has it."""
        return replace(self.sets.promise, feasible=False)

    def of(self, probabilities: Array, groups: Sequence[str | None] | None = None) -> Mask:
        return replace(self.sets, qhat=self.qhat).of(probabilities, groups)


def at_level(selector: Selector, level: float) -> Selector:
    """Return the selector with its sets at another level. Raises `FixedSets` where they were not fitted for that."""
    sets = selector.sets
    if isinstance(sets, MovedLabelSets):
        raise FixedSets(
            "they were fitted for other traffic, with a limit for each request; fit without `--for-traffic`, since sets"
            " that move follow the traffic by themselves"
        )
    if not isinstance(sets, LabelSets):
        raise FixedSets(
            "only sets of kind `split` can be had at another level; fit with `prediction_set: {kind: split}`"
        )
    if sets.keep_predicted:
        raise FixedSets(
            "its sets are shown with the prediction even where they rule it out; fit with `keep_predicted: false`"
        )
    if sets.delta is not None:
        raise FixedSets("they promise something of one fit, and sets that move do not; fit without `delta`")
    if sets.ranked is None:
        raise FixedSets("it keeps no calibration scores, from which sets of another level are made; fit a new one")
    return replace(selector, sets=MovingSets(sets=sets, level=level, qhat=quantile_at(sets.ranked, level)))

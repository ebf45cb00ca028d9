"""One word about many parts of a promise: corrected for their number, so that more parts give no more false alarms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.promise_tests import SLACK, PromiseStatus
from demur.audit.metrics.weighted_rows import column_of
from demur.uncertainty.checks import Array, InvalidInput, fraction, real_number, same_length, unit_interval


@dataclass(frozen=True, kw_only=True, eq=False)
class HolmTests:
    adjusted: Array
    """[G], NaN for a part that was not tested."""

    rejected: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class PartsVerdict:
    status: PromiseStatus
    parts_broken: Sequence[int]
    parts_kept: Sequence[int]
    """Parts that may be named as kept one by one, which is more than that all of them are kept."""


def holm(p_values: Any, delta: Any = 0.05) -> HolmTests:
    """Return which of the hypotheses are rejected, so that one that is true is among them with probability `delta` at
    most (Holm 1979).

    `p_values` [G] are in [0, 1]. None stands for a part with too few labels: it is not counted. Whether a part has
    enough labels must be decided by the number of labels, not by their outcomes.
    """
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    rows = column_of("p_values", p_values)
    if not len(rows):
        raise InvalidInput("p_values is empty")
    tested = [index for index, value in enumerate(rows) if value is not None]
    adjusted = np.full(len(rows), np.nan)
    if tested:
        p = unit_interval("p_values", [rows[index] for index in tested])
        order = np.argsort(p, kind="stable")
        raised = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
        adjusted[np.array(tested)[order]] = np.minimum(raised, 1.0)
    return HolmTests(adjusted=adjusted, rejected=np.flatnonzero(adjusted <= delta * (1 + SLACK)).tolist())


def verdict_of_parts(p_broken: Any, p_kept: Any, delta: Any = 0.05) -> PartsVerdict:
    """Return the word about a promise in all its parts, from the two p-values of each part (`judge_count`).

    Broken: Holm at delta / 2 names at least one part, which is wrong with probability delta / 2 at most if the promise
    holds in all, however many there are. Kept: not broken, and every part is kept at delta / 2; "all of them" needs no
    correction (Berger 1982). A part of None has too few labels, and makes kept impossible.
    """
    broken, kept = column_of("p_broken", p_broken), column_of("p_kept", p_kept)
    same_length(p_broken=broken, p_kept=kept)
    if any((one is None) != (other is None) for one, other in zip(broken, kept, strict=True)):
        raise InvalidInput("a part has one of its two p-values; give both, or None for both")
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    found, sure = holm(broken, delta / 2), holm(kept, delta / 2)
    status = PromiseStatus.UNDECIDED
    if found.rejected:
        status = PromiseStatus.BROKEN
    elif all(p is not None and p <= delta / 2 * (1 + SLACK) for p in kept):
        status = PromiseStatus.KEPT
    return PartsVerdict(status=status, parts_broken=found.rejected, parts_kept=sure.rejected)

"""The smallest setting that keeps an expected loss within a target (Angelopoulos et al. 2022, conformal risk control).

For losses other than a plain miss: the share of a document's labels that its set leaves out, say.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.uncertainty.checks import InvalidInput, ascending, finite, real_number

ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class ControlledRisk:
    """The chosen setting; if none is safe enough, the last one, and `feasible` is False: nothing is then promised."""

    setting: float
    index: int
    feasible: bool


def conformal_risk_control(losses: Any, lambdas: Any, alpha: float, *, upper: float = 1.0) -> ControlledRisk:
    """Return the smallest of the ascending `lambdas` [J] with n/(n+1) mean loss + upper/(n+1) <= `alpha`.

    `losses` [n, J], each in [0, upper], never rise along a row. The expected loss of one further row, drawn like
    these, is then at most `alpha`: on average over draws of the rows, which is less than a promise for this draw.
    """
    rows, settings = finite("losses", losses, ndim=2), ascending("lambdas", lambdas)
    n, columns = rows.shape
    if columns != len(settings):
        raise InvalidInput(f"losses has {columns} columns for {len(settings)} lambdas")
    if real_number("upper", upper) <= 0:
        raise InvalidInput(f"upper is {upper}; the largest possible loss is above 0")
    if not 0 <= real_number("alpha", alpha) <= upper:
        raise InvalidInput(f"alpha is {alpha}, outside [0, {upper}], where losses lie")
    if rows.min() < 0 or rows.max() > upper:
        raise InvalidInput(f"losses has a value outside [0, {upper}]")
    if (np.diff(rows, axis=1) > ROUNDING).any():
        raise InvalidInput("losses rise with lambda in some row")
    # one further row may lose as much as `upper`
    safe = np.flatnonzero((rows.sum(axis=0) + upper) / (n + 1) <= alpha + ROUNDING)
    index = int(safe[0]) if len(safe) else columns - 1
    return ControlledRisk(setting=float(settings[index]), index=index, feasible=len(safe) > 0)

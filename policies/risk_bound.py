"""How large an error rate may be, given the errors that were counted (Clopper & Pearson 1934, one side)."""

from bisect import bisect_left
from typing import Any

import numpy as np
from scipy.special import betaincc, betainccinv

from demur.uncertainty.checks import Array, InvalidInput, fraction, real_number, whole_number


def binomial_upper_bound(n_errors: int, n: int, delta: float) -> float:
    """Return the rate b with P(Bin(n, b) <= n_errors) = delta; 1 if everything was wrong or nothing was seen.

    Assumes `n` independent labels of one distribution, and `n` chosen without looking at them: the rate is then above
    the bound with probability at most `delta`. The counts are integers; a count recovered from a rate may be one short.
    """
    wrong, total = whole_number("n_errors", n_errors), whole_number("n", n)
    if wrong > total:
        raise InvalidInput(f"n_errors is {wrong}, above n = {total}")
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    if wrong == total:  # also 0 of 0: nothing was seen, so nothing is known
        return 1.0
    if wrong == 0:
        return float(-np.expm1(np.log(delta) / total))  # 1 - delta^(1/n)
    return float(betainccinv(wrong + 1, total - wrong, delta))  # the complement keeps small delta exact


def binomial_p_values(n_errors: Any, n: Any, risk: float) -> Array:
    """Return P(Bin(n, risk) <= n_errors) elementwise: how surprising so few errors are if the rate is `risk` or more.

    1 where everything was wrong, and where nothing was seen.
    """
    wrong, total = np.asarray(n_errors, dtype=np.float64), np.asarray(n, dtype=np.float64)
    some_right = wrong < total
    tail = betaincc(wrong + 1, np.where(some_right, total - wrong, 1.0), risk)
    return np.where(some_right, tail, 1.0)


def labels_without_error(max_risk: float, delta: float) -> int:
    """Return the smallest n for which n labels without an error show a rate of at most `max_risk`, but for `delta`.

    That is 1 - delta^(1/n) <= max_risk: 149 labels for 2% and 59 for 5%, at delta = 5%.
    """
    fraction("max_risk", real_number("max_risk", max_risk), open_low=True, open_high=True)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    # the slack keeps 0.25 at a rate of 0.5 at 2 labels where rounding would ask for 3
    return max(1, int(np.ceil(np.log(delta * (1 + 1e-9)) / np.log1p(-max_risk))))


def labels_needed(max_risk: float, delta: float = 0.05, errors: int = 0) -> int:
    """Return the smallest n for which n labels with so many errors show a rate of at most `max_risk`, but for `delta`:
    P(Bin(n, max_risk) <= errors) <= delta."""
    wrong = whole_number("errors", errors)
    fewest = labels_without_error(max_risk, delta)
    if wrong == 0:
        return fewest

    def enough(n: int) -> bool:
        return bool(binomial_p_values(wrong, n, max_risk) <= delta * (1 + 1e-9))

    high = fewest + wrong  # more errors ask for more labels, and n = errors is never enough
    while not enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=wrong, key=enough)

"""Probabilities of labels where only the most probable tokens are known, and not those of every label.

An endpoint lists the log-probabilities of a few alternatives. A label that is not among them has a probability that is
at most the least listed one, and all such labels together have at most what the listed ones leave of 1.
"""

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput

ROUNDED = 1e-3
"""By so much a probability may be above 1: endpoints round."""


class LabelUndecided(InvalidInput):
    """A label that is not listed could be the most probable one."""


def bounded_logprobs(known: Array, listed: Array, *, ranked: bool = True) -> Array:
    """Return [C] log-probabilities of labels, of which `known` [C] has NaN for those that are not listed.

    `listed` [K] are the log-probabilities of the tokens that are listed: the K most probable ones, or, where `ranked`
    is False, any others. Each of the m missing labels gets ln min(p_K, R / m), where p_K is the least listed
    probability (1 if not `ranked`) and R = max(0, 1 - sum of the listed ones). Of all values that the list allows,
    these are the least sure ones: the largest share that a label has among the labels is as small as it can be, and
    the entropy of the shares as large.

    Raises `LabelUndecided` where no label is known, or a missing one could be as probable as the most probable known
    one: then nobody knows what is predicted. Raises `InvalidInput` where a number is no log-probability.
    """
    logprobs = np.array(known, dtype=np.float64)
    missing = np.isnan(logprobs)
    told = np.concatenate([logprobs[~missing], listed])
    if (wrong := told[~(told <= np.log1p(ROUNDED))]).size:  # NaN as well
        raise InvalidInput(f"{wrong[0]:g} is no log-probability")
    if not missing.any():
        return logprobs
    if missing.all():
        raise LabelUndecided("none of the labels is listed")
    probabilities = np.exp(np.asarray(listed, dtype=np.float64))
    rest = max(0.0, 1.0 - float(probabilities.sum()))
    least = float(probabilities.min()) if ranked and probabilities.size else 1.0
    if min(least, rest) >= float(np.exp(logprobs[~missing].max())):
        raise LabelUndecided("a label that is not listed may be as probable as the most probable one that is")
    with np.errstate(divide="ignore"):  # where nothing is left, they have nothing
        logprobs[missing] = np.log(min(least, rest / missing.sum()))
    return logprobs

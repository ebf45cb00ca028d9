"""Prediction sets from repeated answers alone (Testoni & Calixto, Mind the Gap).

For models that show no probabilities.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from demur.policies.conformal import (
    Method,
    conformal_quantile,
    conformal_sets,
    error_in_words,
    error_rate,
    marginal_coverage,
    right_labels,
)
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask, one_of, same_length, unit_interval
from demur.uncertainty.options import sample_frequency_scores

Source = Literal["passes", "samples"]
"""What is repeated: passes of a classifier with dropout left on, or sampled replies of a language model."""

ROUNDING = 1e-12
"""Shares of samples that differ by less are equal."""

SLACK = 1e-6
"""How far the shares of a row may sum to more than 1."""


@dataclass(frozen=True, kw_only=True)
class FrequencySets:
    """Every label that was named in a share of at least 1 - qhat of the samples; a qhat of 1 rules out nothing."""

    reads: ClassVar[str] = "frequencies"

    alpha: float
    qhat: float
    n: int
    keep_predicted: bool = True
    source: str = "passes"

    @property
    def promise_in_words(self) -> str:
        return error_in_words(self.alpha, self.qhat)

    @property
    def promise(self) -> Promise:
        return marginal_coverage(self.alpha, self.qhat, self.n)

    def of(self, frequencies: Array, groups: Any = None) -> Mask:  # noqa: ARG002 - alike in all groups
        """Return [n, C], True where the label is not ruled out; `frequencies` [n, C] are shares of samples."""
        return np.asarray(1 - frequencies <= self.qhat + ROUNDING)


@dataclass(frozen=True, kw_only=True)
class SampleFrequencySets:
    """`sampled`: one quantile of how often the right label was not named in repeated answers to one input."""

    reads: ClassVar[str] = "frequencies"

    alpha: float = 0.01
    keep_predicted: bool = True
    source: Source = "passes"
    """It is that of the host; nobody need write it."""

    def __post_init__(self) -> None:
        error_rate(self.alpha)
        one_of("source", self.source, ("passes", "samples"))

    def fit(self, frequencies: Any, classes: Any, groups: Any = None) -> FrequencySets:  # noqa: ARG002
        """`frequencies` [n, C], whose rows fall short of 1 where answers could not be read, and classes [n]."""
        shares = unit_interval("frequencies", frequencies, ndim=2)
        if (shares.sum(axis=1) > 1 + SLACK).any():
            raise InvalidInput("frequencies are shares of one row's samples, and some rows sum to more than 1")
        right = right_labels(classes, shares)
        qhat = conformal_quantile(1 - shares[np.arange(len(shares)), right], self.alpha)
        return FrequencySets(
            alpha=self.alpha, qhat=qhat, n=len(shares), keep_predicted=self.keep_predicted, source=self.source
        )


@dataclass(frozen=True, kw_only=True)
class SampledSets:
    """The fitted quantile, and for each tested row the options in its set, in the order of the options."""

    qhat: float
    sets: list[list[Any]]


def sample_conformal(
    calibration_samples: Sequence[Sequence[Any]],
    calibration_truth: Sequence[Any],
    options: Sequence[Any],
    alpha: float,
    test_samples: Sequence[Sequence[Any]],
    *,
    method: Method = "finite",
) -> SampledSets:
    """Return sets of `options` that hold the truth with probability at least 1 - `alpha`.

    Each row of samples is one question asked M times; None is a reply that could not be read and stays in M. The score
    of an option is the share of replies that did not name it, so a quantile of 1 admits options never named.
    """
    same_length(calibration_samples=calibration_samples, calibration_truth=calibration_truth)
    known = [sample_frequency_scores(samples, options) for samples in calibration_samples]
    asked = [sample_frequency_scores(samples, options) for samples in test_samples]
    place = {option: index for index, option in enumerate(options)}
    strange = [truth for truth in calibration_truth if not isinstance(truth, Hashable) or truth not in place]
    if strange:
        raise InvalidInput(f"calibration_truth holds {strange[0]!r}, which is not among the options")
    true_scores = [scores[place[truth]] for scores, truth in zip(known, calibration_truth, strict=True)]
    qhat = conformal_quantile(true_scores, alpha, method=method)
    members = conformal_sets(asked, qhat)
    return SampledSets(qhat=qhat, sets=[[options[index] for index in row] for row in members])

"""Prediction sets from repeated answers alone (Testoni & Calixto, Mind the Gap).

For models that show no probabilities.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from demur.policies.conformal import Method, conformal_quantile, conformal_sets
from demur.uncertainty.checks import InvalidInput, same_length
from demur.uncertainty.options import sample_frequency_scores


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

"""Several scores of the same answers: which ranks them best, and which makes the best confidence."""

from collections.abc import Callable

import numpy as np

from benchmarks.real.confidence import DRAWS, right
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.predictions import Predictions
from benchmarks.real.splits import SEED, Split, splits
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.calibration import brier, ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.policies.label_thresholds import MaxF1LabelLimits
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import (
    bald,
    entropy,
    margin,
    mc_entropy,
    probability_variance,
    sampled_max_probability,
    softmax_response,
)
from demur.uncertainty.correctness import exact_match
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.label_probability import binary_entropy_sample
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.score_confidence import entropy_confidence, minmax_confidence

Confidence = Callable[[Array, Array], Array]
"""From the scores [n] of some rows, and those of the fitted rows, to a confidence [n] without looking at labels."""


def scores(predictions: Predictions) -> dict[str, tuple[Array, Confidence]]:
    """The scores [n] of every row by name, each with the confidence that it yields before calibration."""
    output, p = predictions.rows.output, predictions.rows.output.probabilities
    if not predictions.rows.exclusive:
        return {
            "1 - largest probability": (1 - p.max(axis=1), _complement),
            "binary entropy, sum": (binary_entropy_sample(p), minmax_confidence),
            "binary entropy, largest": (binary_entropy_sample(p, reduce="max"), minmax_confidence),
        }

    def of_entropy(u: Array, reference: Array) -> Array:  # noqa: ARG001 - its scale is known
        return entropy_confidence(u, p.shape[1])

    found: dict[str, tuple[Array, Confidence]]
    if output.mc_probabilities is None:
        found = {"softmax response": (softmax_response(p), _complement), "entropy": (entropy(p), of_entropy)}
    else:
        passes = output.mc_probabilities
        found = {
            "softmax response, first prompt": (softmax_response(passes[:, 0]), _complement),
            "SMP": (sampled_max_probability(passes), _complement),
            "ENT-MC": (mc_entropy(passes), of_entropy),
            "PV": (probability_variance(passes), minmax_confidence),
            "BALD": (bald(passes), minmax_confidence),
        }
    found["margin"] = margin(p), _complement
    if predictions.refusals:
        found["refusal mass"] = p[:, list(predictions.refusals)].sum(axis=1), _complement
    return found


def correct(rows: LabelledOutput, part: Split) -> Array:
    """[n], 1 where the most probable label is right; where labels hold together, where the set of all labels at or
    above their limits is exactly right, the limits being those of the best F1 on the fitted rows."""
    if rows.exclusive:
        return right(rows)
    p = rows.output.probabilities
    limits = MaxF1LabelLimits().fit(p[part.fit], rows.truth[part.fit])
    return exact_match(limits.of(p), rows.truth)


def measure(predictions: Predictions) -> dict[str, dict[str, Spread]]:
    """How each score ranks the answers, and how far its confidence is to be believed, by the score's name.

    The isotonic map is fitted for each score by itself.
    """
    parts = splits(predictions)
    answers = [correct(predictions.rows, part) for part in parts]
    rng = np.random.default_rng(SEED)
    found = {}
    for name, (u, confidence) in scores(predictions).items():
        values = []
        for part, all_correct in zip(parts, answers, strict=True):
            here = all_correct[part.test]
            before = confidence(u[part.test], u[part.fit])
            after = fit_isotonic(-u[part.fit], all_correct[part.fit]).confidence(-u[part.test])
            values.append(
                {
                    "PRR": prr(here, u[part.test]),
                    "AUROC": error_roc_auc(here, u[part.test]),
                    "ECE before": ece(before, here),
                    "ECE after": ece(after, here),
                    "floor": noise_floor(ece, after, draws=-(-DRAWS // len(parts)), rng=rng),
                    "Brier after": brier(after, here),
                }
            )
        found[name] = over_splits(values)
    return found


def _complement(u: Array, reference: Array) -> Array:  # noqa: ARG001 - a probability needs no scale
    return np.asarray(1 - np.clip(u, 0, 1))

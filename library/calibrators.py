"""Calibrators as functions of arrays: each `fit_…` returns a map whose `confidence` gives probabilities of being right.

What a map reads is in its `reads`: `score` is evidence that is higher for what is surer, such as a negated score;
`probability` is such evidence between 0 and 1; `logits` are [n, C]. `minmax_confidence` and `entropy_confidence` learn
from no labels, and say so little. `crossfit_isotonic` gives each row the probability of a map that has not seen it.
"""

from demur.uncertainty.beta import fit_beta
from demur.uncertainty.histogram_binning import fit_histogram
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.min_max import fit_min_max
from demur.uncertainty.platt import fit_platt
from demur.uncertainty.score_confidence import entropy_confidence, minmax_confidence
from demur.uncertainty.temperature import fit_binary_temperature, fit_temperature
from demur.uncertainty.top_k import crossfit_isotonic

__all__ = [
    "crossfit_isotonic",
    "entropy_confidence",
    "fit_beta",
    "fit_binary_temperature",
    "fit_histogram",
    "fit_isotonic",
    "fit_min_max",
    "fit_platt",
    "fit_temperature",
    "minmax_confidence",
]

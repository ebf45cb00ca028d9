"""Calibrators as functions of arrays: each `fit_…` returns a map whose `confidence` gives probabilities of being right.

What a map reads is in its `reads`: `score` is evidence that is higher for what is surer, such as a negated score;
`probability` is such evidence between 0 and 1; `logits` are [n, C]. `minmax_confidence` and `entropy_confidence` learn
from no labels, and say so little. `crossfit_isotonic` gives each row the probability of a map that has not seen it.

`fit_vector_scaling` and `fit_dirichlet` calibrate all classes: their maps have `of_classes`. `fit_venn_abers` returns a
map with `interval`, whose width says how little is known. `CorrectnessRecipe` fits the probability of being right to
the whole output of a classifier, `LabelCorrectnessRecipe` to every label of a row where several may hold;
`correctness_crossfit` compares the first with the score alone.
"""

from demur.uncertainty.beta import fit_beta
from demur.uncertainty.class_calibration import fit_dirichlet, fit_vector_scaling
from demur.uncertainty.correctness_model import CorrectnessRecipe, correctness_crossfit
from demur.uncertainty.histogram_binning import fit_histogram
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.label_correctness import LabelCorrectnessRecipe
from demur.uncertainty.min_max import fit_min_max
from demur.uncertainty.platt import fit_platt
from demur.uncertainty.score_confidence import entropy_confidence, minmax_confidence
from demur.uncertainty.temperature import fit_binary_temperature, fit_temperature
from demur.uncertainty.top_k import crossfit_isotonic
from demur.uncertainty.venn_abers import fit_venn_abers

__all__ = [
    "CorrectnessRecipe",
    "LabelCorrectnessRecipe",
    "correctness_crossfit",
    "crossfit_isotonic",
    "entropy_confidence",
    "fit_beta",
    "fit_binary_temperature",
    "fit_dirichlet",
    "fit_histogram",
    "fit_isotonic",
    "fit_min_max",
    "fit_platt",
    "fit_temperature",
    "fit_vector_scaling",
    "fit_venn_abers",
    "minmax_confidence",
]

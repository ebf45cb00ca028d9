"""Metrics as functions of arrays. `u` [n] is a score, higher when the model is less sure.

* How a score ranks errors: `prr`, `rc_curve`, `rc_auc`, `n_rc_auc`, `e_aurc`, `error_roc_auc`, `error_au_prc`,
  `e_auopt_rc`, `trust_index`, `rejection_report`.
* Whether confidence means what it says: `ece`, `mce`, `ace`, `brier`, `nll`, `citl`, `c_slope`, `calibration_bins`.
* Whether prediction sets hold the right label: `set_metrics`.
* How good the predictions are: `macro_f1`, `macro_f1_multilabel`, `jaccard`.
* Which of two models is better on the same rows: `mcnemar`, `paired_difference`, `decision_flips`.
* How a score tells two kinds of rows apart: `roc_auc`, `au_prc`.
* Intervals: `clopper_pearson`, `wilson`, and `hajek_interval` for rows with weights.

`docs/methods.md` has the formulas. Undefined values are NaN.
"""

from demur.audit.metrics.calibration import ace, brier, c_slope, calibration_bins, citl, ece, mce, nll
from demur.audit.metrics.comparison import decision_flips, mcnemar, paired_difference
from demur.audit.metrics.discrimination import au_prc, error_au_prc, error_roc_auc, roc_auc
from demur.audit.metrics.intervals import clopper_pearson, hajek_interval, wilson
from demur.audit.metrics.optimal_coverage import e_auopt_rc, rejection_report, trust_index
from demur.audit.metrics.prediction_sets import set_metrics
from demur.audit.metrics.predictive_quality import jaccard, macro_f1, macro_f1_multilabel
from demur.audit.metrics.selective import e_aurc, n_rc_auc, prr, rc_auc, rc_curve

__all__ = [
    "ace",
    "au_prc",
    "brier",
    "c_slope",
    "calibration_bins",
    "citl",
    "clopper_pearson",
    "decision_flips",
    "e_auopt_rc",
    "e_aurc",
    "ece",
    "error_au_prc",
    "error_roc_auc",
    "hajek_interval",
    "jaccard",
    "macro_f1",
    "macro_f1_multilabel",
    "mce",
    "mcnemar",
    "n_rc_auc",
    "nll",
    "paired_difference",
    "prr",
    "rc_auc",
    "rc_curve",
    "rejection_report",
    "roc_auc",
    "set_metrics",
    "trust_index",
    "wilson",
]

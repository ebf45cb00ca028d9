"""Metrics as functions of arrays. `u` [n] is a score, higher when the model is less sure.

* How a score ranks errors: `prr`, `prr_areas`, `prr_grid`, `rc_curve`, `rc_auc`, `n_rc_auc`, `e_aurc`,
  `error_roc_auc`, `error_au_prc`, `e_auopt_rc`, `excess_auopt_rc`, `trust_index`, `rejection_report`; and how two
  scores agree: `spearman`, `spearman_pooled`, `spearman_per_label`, `kendall_tau_b`.
* Whether confidence means what it says: `ece`, `mce`, `ace`, `brier`, `nll`, `citl`, `c_slope`, `calibration_bins`;
  of the first k labels of each row: `ece_at_k`, `ace_at_k`, `brier_at_k`, `nll_at_k`, `precision_at_k`.
* Whether prediction sets hold the right label: `set_metrics`.
* How good the predictions are: `macro_f1`, `macro_f1_multilabel`, `macro_f1_by_bucket`, `jaccard`, each within
  groups: `groupwise`.
* Which of two models is better on the same rows: `mcnemar`, `paired_difference`, `decision_flips`.
* How a score tells two kinds of rows apart: `roc_auc`, `au_prc`.
* Intervals: `clopper_pearson`, `wilson`, `bootstrap`, and `hajek_interval` for rows with weights, which `effective_n`
  counts.
* From a sample of labels, of which each row has a weight: `label_weights`, `completion_weights`, `missing_bounds`,
  `weighted_mean`, `aipw_mean`, `weighted_selective_risk`, `weighted_bins`, `weighted_ece`, `weighted_ace`,
  `weighted_brier`, `weighted_nll`, `weighted_citl`, `weighted_c_slope`, `weighted_at_k`, `weighted_roc_auc`,
  `weighted_au_prc`, `weighted_error_roc_auc`, `weighted_error_au_prc`, `weighted_rc_auc`, `weighted_n_rc_auc`,
  `area_shares`, `weighted_prr`, `weighted_macro_f1`, `weighted_macro_f1_multilabel`, `weighted_macro_f1_by_bucket`,
  `weighted_set_metrics`.
* Whether something changes over time: `risk_sequence`, `running_risk_sequence`, `psi`, `ks`, `conformal_p_values`,
  `exchangeability_martingale`, `label_shift`.
* Whether a promise was kept: `judge_count`, `judge_mean`, `fit_spread`; in many parts at once: `holm`,
  `verdict_of_parts`; with missing reviews: `confidence_strata`, `missing_verdict`; with reviewers who err:
  `corrected_rate`. `ranking_evidence` says whether a ranking metric may have an interval.
* Without labels: `expected_risk`, `average_thresholded_confidence`.
* Alarms that may be read at any time: `risk_monitor`, `assisted_risk_monitor`, fed with `complete_blocks`. Which
  records get a label: `allocate`, `adaptive_spot_check`.
* How far people can be relied on: `cohen_kappa`, `fleiss_kappa`, `krippendorff_alpha`, `reviewer_rates`,
  `rogan_gladen`.

`docs/methods.md` has the formulas. Undefined values are NaN.
"""

from demur.audit.metrics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha
from demur.audit.metrics.assisted_mean import aipw_mean
from demur.audit.metrics.assisted_risk_monitor import assisted_risk_monitor
from demur.audit.metrics.calibration import ace, brier, c_slope, calibration_bins, citl, ece, mce, nll
from demur.audit.metrics.comparison import decision_flips, mcnemar, paired_difference
from demur.audit.metrics.complete_blocks import complete_blocks
from demur.audit.metrics.confidence_strata import confidence_strata
from demur.audit.metrics.correlation import kendall_tau_b, spearman, spearman_per_label, spearman_pooled
from demur.audit.metrics.discrimination import au_prc, error_au_prc, error_roc_auc, roc_auc
from demur.audit.metrics.evidence import ranking_evidence
from demur.audit.metrics.exchangeability import conformal_p_values, exchangeability_martingale
from demur.audit.metrics.groups import groupwise
from demur.audit.metrics.intervals import clopper_pearson, effective_n, hajek_interval, wilson
from demur.audit.metrics.label_shift import label_shift
from demur.audit.metrics.multiplicity import holm, verdict_of_parts
from demur.audit.metrics.optimal_coverage import e_auopt_rc, excess_auopt_rc, rejection_report, trust_index
from demur.audit.metrics.prediction_sets import set_metrics
from demur.audit.metrics.predictive_quality import jaccard, macro_f1, macro_f1_by_bucket, macro_f1_multilabel
from demur.audit.metrics.promise_tests import fit_spread, judge_count, judge_mean
from demur.audit.metrics.resampling import bootstrap
from demur.audit.metrics.reviewers import corrected_rate, reviewer_rates, rogan_gladen
from demur.audit.metrics.risk_monitor import risk_monitor
from demur.audit.metrics.risk_sequence import risk_sequence, running_risk_sequence
from demur.audit.metrics.sampling import (
    adaptive_spot_check,
    allocate,
    completion_weights,
    label_weights,
    missing_bounds,
    missing_verdict,
)
from demur.audit.metrics.score_drift import ks, psi
from demur.audit.metrics.selective import e_aurc, n_rc_auc, prr, prr_areas, prr_grid, rc_auc, rc_curve
from demur.audit.metrics.top_k import ace_at_k, brier_at_k, ece_at_k, nll_at_k, precision_at_k
from demur.audit.metrics.unlabelled_risk import average_thresholded_confidence, expected_risk
from demur.audit.metrics.weighted_calibration import (
    weighted_ace,
    weighted_bins,
    weighted_brier,
    weighted_c_slope,
    weighted_citl,
    weighted_ece,
    weighted_nll,
)
from demur.audit.metrics.weighted_discrimination import (
    weighted_au_prc,
    weighted_error_au_prc,
    weighted_error_roc_auc,
    weighted_roc_auc,
)
from demur.audit.metrics.weighted_quality import (
    weighted_macro_f1,
    weighted_macro_f1_by_bucket,
    weighted_macro_f1_multilabel,
)
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.metrics.weighted_selective import (
    area_shares,
    weighted_n_rc_auc,
    weighted_prr,
    weighted_rc_auc,
    weighted_selective_risk,
)
from demur.audit.metrics.weighted_sets import weighted_set_metrics
from demur.audit.metrics.weighted_top_k import weighted_at_k

__all__ = [
    "ace",
    "ace_at_k",
    "adaptive_spot_check",
    "aipw_mean",
    "allocate",
    "area_shares",
    "assisted_risk_monitor",
    "au_prc",
    "average_thresholded_confidence",
    "bootstrap",
    "brier",
    "brier_at_k",
    "c_slope",
    "calibration_bins",
    "citl",
    "clopper_pearson",
    "cohen_kappa",
    "complete_blocks",
    "completion_weights",
    "confidence_strata",
    "conformal_p_values",
    "corrected_rate",
    "decision_flips",
    "e_auopt_rc",
    "e_aurc",
    "ece",
    "ece_at_k",
    "effective_n",
    "error_au_prc",
    "error_roc_auc",
    "excess_auopt_rc",
    "exchangeability_martingale",
    "expected_risk",
    "fit_spread",
    "fleiss_kappa",
    "groupwise",
    "hajek_interval",
    "holm",
    "jaccard",
    "judge_count",
    "judge_mean",
    "kendall_tau_b",
    "krippendorff_alpha",
    "ks",
    "label_shift",
    "label_weights",
    "macro_f1",
    "macro_f1_by_bucket",
    "macro_f1_multilabel",
    "mce",
    "mcnemar",
    "missing_bounds",
    "missing_verdict",
    "n_rc_auc",
    "nll",
    "nll_at_k",
    "paired_difference",
    "precision_at_k",
    "prr",
    "prr_areas",
    "prr_grid",
    "psi",
    "ranking_evidence",
    "rc_auc",
    "rc_curve",
    "rejection_report",
    "reviewer_rates",
    "risk_monitor",
    "risk_sequence",
    "roc_auc",
    "rogan_gladen",
    "running_risk_sequence",
    "set_metrics",
    "spearman",
    "spearman_per_label",
    "spearman_pooled",
    "trust_index",
    "verdict_of_parts",
    "weighted_ace",
    "weighted_at_k",
    "weighted_au_prc",
    "weighted_bins",
    "weighted_brier",
    "weighted_c_slope",
    "weighted_citl",
    "weighted_ece",
    "weighted_error_au_prc",
    "weighted_error_roc_auc",
    "weighted_macro_f1",
    "weighted_macro_f1_by_bucket",
    "weighted_macro_f1_multilabel",
    "weighted_mean",
    "weighted_n_rc_auc",
    "weighted_nll",
    "weighted_prr",
    "weighted_rc_auc",
    "weighted_roc_auc",
    "weighted_selective_risk",
    "weighted_set_metrics",
    "wilson",
]

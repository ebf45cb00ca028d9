"""Rules of decision as functions of arrays: when to answer, and which labels to name.

* A limit on a score, where more than the limit is held: `threshold_at_rejection_rate`, `threshold_at_target_risk`;
  with a guarantee: `guaranteed_risk`, `learn_then_test`, `conformal_risk_control`; by what errors cost:
  `chow_threshold`, `chow`, `chow_cost_matrix`. `binomial_upper_bound` and `labels_needed` say what so many labels can
  show.
* Prediction sets: `conformal_quantile`, `conformal_sets`, `mondrian_quantiles`, `mondrian_sets`, `sample_conformal`;
  with a promise for this fit: `pac_rank`, `pac_quantile`.
* Sets of labels that hold together: `missed_labels`, `label_share_control`.
* Losses in [0, 1]: `betting_p_value`, `betting_upper_bound`, `ltt_betting`.
* Rows that belong together: `merge_duplicates`, `split_by_cluster`, `one_per_cluster`.
* Inputs of another kind than the labelled ones: `shift_weights`, `weighted_conformal_quantile`.
* Limits that follow the traffic: `adaptive_alphas`, `ipw_adaptive_alphas`, `run_adaptive`, `threshold_track`,
  `price_run`, `rate_run`.
* Labels that hold together: `thresholds_max_f1`, `up_propagate_labels`, `up_propagate_probs`, `imdrf_ancestors`.

`docs/methods.md` has the formulas and what each of them promises.
"""

from demur.calibration_store.clusters import merge_duplicates, one_per_cluster, split_by_cluster
from demur.policies.adaptive import adaptive_alphas, ipw_adaptive_alphas, run_adaptive
from demur.policies.betting import betting_p_value, betting_upper_bound, ltt_betting
from demur.policies.conformal import conformal_quantile, conformal_sets
from demur.policies.cost import chow, chow_cost_matrix, chow_threshold
from demur.policies.covariate_shift import shift_weights, weighted_conformal_quantile
from demur.policies.guaranteed_risk import guaranteed_risk
from demur.policies.hierarchy import imdrf_ancestors, up_propagate_labels, up_propagate_probs
from demur.policies.label_share import label_share_control, missed_labels
from demur.policies.label_thresholds import thresholds_max_f1
from demur.policies.learn_then_test import learn_then_test
from demur.policies.mondrian import mondrian_quantiles, mondrian_sets
from demur.policies.review_price import price_run
from demur.policies.review_rate import rate_run
from demur.policies.risk_bound import binomial_upper_bound, labels_needed
from demur.policies.risk_control import conformal_risk_control
from demur.policies.sampled_sets import sample_conformal
from demur.policies.threshold import threshold_at_rejection_rate, threshold_at_target_risk
from demur.policies.tracked_limit import threshold_track
from demur.policies.training_conditional import pac_quantile, pac_rank

__all__ = [
    "adaptive_alphas",
    "betting_p_value",
    "betting_upper_bound",
    "binomial_upper_bound",
    "chow",
    "chow_cost_matrix",
    "chow_threshold",
    "conformal_quantile",
    "conformal_risk_control",
    "conformal_sets",
    "guaranteed_risk",
    "imdrf_ancestors",
    "ipw_adaptive_alphas",
    "label_share_control",
    "labels_needed",
    "learn_then_test",
    "ltt_betting",
    "merge_duplicates",
    "missed_labels",
    "mondrian_quantiles",
    "mondrian_sets",
    "one_per_cluster",
    "pac_quantile",
    "pac_rank",
    "price_run",
    "rate_run",
    "run_adaptive",
    "sample_conformal",
    "shift_weights",
    "split_by_cluster",
    "threshold_at_rejection_rate",
    "threshold_at_target_risk",
    "threshold_track",
    "thresholds_max_f1",
    "up_propagate_labels",
    "up_propagate_probs",
    "weighted_conformal_quantile",
]

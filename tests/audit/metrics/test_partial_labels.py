"""What weights put right, where the truth is known: the setting of METHODS 9.9."""

import numpy as np
import pytest

from demur.audit.metrics import calibration, discrimination, selective
from demur.audit.metrics.assisted_mean import aipw_mean
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.weighted_calibration import (
    weighted_brier,
    weighted_c_slope,
    weighted_citl,
    weighted_ece,
    weighted_nll,
)
from demur.audit.metrics.weighted_discrimination import weighted_error_au_prc, weighted_error_roc_auc
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.metrics.weighted_selective import weighted_prr, weighted_rc_auc, weighted_selective_risk

LIMIT = 0.9
SPOT_CHECK = 0.02
DRAWS = 200


def metrics(c, y, w, ranking):
    """Every number from the labelled rows; with weights of one, as if all rows had a label."""
    return {
        "risk": weighted_mean(1 - y, w),
        "brier": weighted_brier(c, y, w),
        "nll": weighted_nll(c, y, w),
        "citl": weighted_citl(c, y, w),
        "c_slope": weighted_c_slope(c, y, w),
        "ece": weighted_ece(c, y, w),
        "error_roc_auc": weighted_error_roc_auc(y, ranking, w),
        "error_au_prc": weighted_error_au_prc(y, ranking, w),
        "rc_auc": weighted_rc_auc(1 - y, ranking, w),
        "prr": weighted_prr(y, ranking, w),
        "selective_risk": weighted_selective_risk(1 - c, 1 - y, w, 1 - LIMIT).risk,
    }


@pytest.mark.slow
def test_weights_find_what_all_labels_would_say_and_labelled_rows_as_they_stand_do_not():
    rng, n = np.random.default_rng(0), 20_000
    z = rng.normal(2.2, 1.6, n)
    y, c = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(float), 1 / (1 + np.exp(-1.35 * z))
    answered, ranking = c >= LIMIT, Ranking.by("u", 1 - c)
    truth = metrics(c, y, np.ones(n), ranking)
    probability = np.where(answered, SPOT_CHECK, 1.0)
    found, assisted = [], []
    for _ in range(DRAWS):
        labelled = rng.random(n) < probability
        outcome = np.where(labelled, y, np.nan)
        found.append(metrics(c, outcome, labelled / probability, ranking))
        some = [x[answered] for x in (1 - c, 1 - outcome, labelled, probability)]
        assisted.append(aipw_mean(*some).estimate)
    for name, true in truth.items():
        values = np.array([one[name] for one in found])
        # a ratio of sums is centred up to a small part of its spread
        assert abs(values.mean() - true) <= 0.1 * values.std() + 4 * values.std() / np.sqrt(DRAWS), name
    assert abs(np.mean(assisted) - truth["selective_risk"]) <= 4 * np.std(assisted) / np.sqrt(DRAWS)

    naive = {
        "risk": 1 - y[labelled].mean(),
        "brier": calibration.brier(c[labelled], y[labelled]),
        "nll": calibration.nll(c[labelled], y[labelled]),
        "c_slope": calibration.c_slope(c[labelled], y[labelled]),
        "ece": calibration.ece(c[labelled], y[labelled]),
        "error_roc_auc": discrimination.error_roc_auc(y[labelled], 1 - c[labelled]),
        "error_au_prc": discrimination.error_au_prc(y[labelled], 1 - c[labelled]),
        "rc_auc": selective.rc_auc(1 - y[labelled], 1 - c[labelled]),
        "prr": selective.prr(y[labelled], 1 - c[labelled]),
    }
    for name, value in naive.items():
        assert abs(value - truth[name]) > 0.1 * abs(truth[name]), name
    assert naive["risk"] > 2 * truth["risk"]
    assert naive["rc_auc"] > 3 * truth["rc_auc"]

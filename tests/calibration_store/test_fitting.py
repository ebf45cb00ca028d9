import numpy as np
import pytest

from audit.findings import calibration_report, held_out_report
from calibration_store.fitting import TooFewRows, fit_selector, split

REPORTS = {"report": held_out_report, "cross_report": calibration_report}


def test_parts_are_disjoint_and_every_class_is_split_alike(rows):
    numbered = rows.rows(np.arange(len(rows)))
    numbered.output.logits[:, 0] = np.arange(len(rows))
    first, second = split(numbered, 0.6, np.random.default_rng(0))
    seen = np.concatenate([first.output.logits[:, 0], second.output.logits[:, 0]])
    assert sorted(seen) == list(range(len(rows)))
    assert len(first) == 120
    for c in range(3):
        assert (first.classes == c).sum() == pytest.approx(0.6 * (rows.classes == c).sum(), abs=1)


def test_the_report_is_about_rows_outside_the_fit(recipe, rows):
    fit = fit_selector(recipe, rows, report_share=0.4, rng=np.random.default_rng(0), **REPORTS)
    assert (fit.n_fitted, fit.n_reported) == (120, 80)
    assert fit.report["accuracy"]["n"] == 80
    for name in ("ece", "ece_before", "auroc.entropy", "prr.entropy", "coverage", "selective_risk"):
        assert name in fit.report


def test_the_same_seed_gives_the_same_fit(recipe, rows):
    fits = [fit_selector(recipe, rows, report_share=0.4, rng=np.random.default_rng(7), **REPORTS) for _ in range(2)]
    assert fits[0].report == fits[1].report
    assert fits[0].selector.policy == fits[1].selector.policy


@pytest.mark.parametrize("n", [1, 10, 30])
def test_too_few_rows_are_refused(recipe, rows, n):
    with pytest.raises(TooFewRows, match=f"{n} labelled rows leave"):
        fit_selector(recipe, rows.rows(np.arange(n)), report_share=0.4, rng=np.random.default_rng(0), **REPORTS)

"""The upper end of a risk from labels of different weights."""

import numpy as np
import pytest

from demur.audit.metrics.intervals import clopper_pearson, normal_quantile
from demur.audit.metrics.resampling import Interval
from demur.audit.report.weight_classes import clustered_end, upper_end

LOSS = np.array([0.0, 1.0])


def test_of_one_weight_it_is_the_exact_end() -> None:
    found = upper_end(LOSS, np.array([50.0, 50.0]), np.array([90, 10]), 0.05)

    assert found == pytest.approx(clopper_pearson(10, 100).upper, abs=1e-12)


def test_heavy_labels_without_an_error_are_no_proof_that_there_is_none() -> None:
    loss, weight = np.array([0.0, 1.0, 0.0]), np.array([5.0, 5.0, 50.0])
    of_heavy = clopper_pearson(0, 20).upper

    found = upper_end(loss, weight, np.array([180, 20, 20]), 0.05)

    assert found > 0.05 + 0.5 * of_heavy  # half of all weight is theirs, and the errors of the others make 5%


@pytest.mark.parametrize(("loss", "end"), [(0.0, clopper_pearson(0, 40).upper), (1.0, 1.0)])
def test_labels_that_are_all_alike(loss: float, end: float) -> None:
    assert upper_end(np.array([loss]), np.array([3.0]), np.array([40]), 0.05) == pytest.approx(end, abs=1e-9)


def test_of_clusters_that_do_not_matter_it_is_the_exact_end() -> None:
    error = np.sqrt(0.1 * 0.9 / 100) * normal_quantile(0.05)
    resampled = Interval(lower=0.1 - error, upper=0.1 + error)

    found = clustered_end(LOSS, np.array([90.0, 10.0]), resampled, 0.05)

    assert found == pytest.approx(clopper_pearson(10, 100).upper, abs=1e-9)


def test_the_more_errors_depend_on_each_other_the_higher_it_is() -> None:
    narrow, wide = (
        clustered_end(LOSS, np.array([90.0, 10.0]), Interval(lower=0.1 - e, upper=0.1 + e), 0.05) for e in (0.05, 0.09)
    )

    assert wide > 0.19 > narrow
    assert np.isnan(clustered_end(LOSS, np.array([90.0, 10.0]), Interval(lower=np.nan, upper=np.nan), 0.05))

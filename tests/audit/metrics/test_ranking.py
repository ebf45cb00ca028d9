import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.ranking import Ranking
from demur.uncertainty.checks import InvalidInput

scores = st.lists(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0]) | st.floats(-3, 3), min_size=1, max_size=60)


@settings(deadline=None)
@given(scores)
def test_the_order_is_the_stable_one(u):
    u = np.array(u)
    ranking = Ranking.by("u", u)
    assert ranking.order.tolist() == np.argsort(u, kind="stable").tolist()
    assert u[ranking.order[ranking.starts]].tolist() == np.unique(u).tolist()
    assert (ranking.ends - ranking.starts).tolist() == np.unique(u, return_counts=True)[1].tolist()


def test_many_ties_keep_the_order_of_rows():
    u = np.random.default_rng(0).integers(0, 7, 5000).astype(float)
    assert Ranking.by("u", u).order.tolist() == np.argsort(u, kind="stable").tolist()


@pytest.mark.parametrize(("ties", "expected"), [("mean", [3, 1.5, 1.5]), ("stable", [3, 1, 2])])
def test_a_tied_row_carries_its_own_value_or_the_mean(ties, expected):
    assert Ranking.by("u", [0.2, 0.1, 0.2]).ranked(np.array([1.0, 3, 2]), ties=ties).tolist() == expected


def test_a_ranking_is_sorted_once():
    ranking = Ranking.by("u", [0.3, 0.1])
    assert Ranking.by("u", ranking) is ranking


@pytest.mark.parametrize("u", [[], [np.nan], [np.inf, 1], [[1.0]], "up", None])
def test_what_cannot_be_ranked(u):
    with pytest.raises(InvalidInput):
        Ranking.by("u", u)

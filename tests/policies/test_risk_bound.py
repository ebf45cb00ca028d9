import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from demur.policies.risk_bound import binomial_p_values, binomial_upper_bound, labels_needed, labels_without_error

DELTAS = st.floats(1e-6, 0.5)


@settings(deadline=None)
@given(st.integers(1, 10_000), DELTAS)
def test_the_bound_without_an_error_has_a_closed_form(n, delta):
    assert binomial_upper_bound(0, n, delta) == pytest.approx(1 - delta ** (1 / n), abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(1, 500), DELTAS)
def test_so_few_errors_have_probability_delta_at_the_bound(n_errors, n_right, delta):
    n = n_errors + n_right
    bound = binomial_upper_bound(n_errors, n, delta)
    assert stats.binom.cdf(n_errors, n, bound) == pytest.approx(delta, rel=1e-9)
    assert binomial_p_values(n_errors, n, bound) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(("n_errors", "n"), [(0, 0), (1, 1), (7, 7)])
def test_nothing_is_known_where_nothing_was_right(n_errors, n):
    assert binomial_upper_bound(n_errors, n, 0.05) == 1.0
    assert binomial_p_values([n_errors], [n], 0.3) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 1, 0.05),
        (-1, 3, 0.05),
        (1.0, 3, 0.05),  # a count is an integer: one recovered from a rate may be one short
        (True, 3, 0.05),
        (1, 3, 0.0),
        (1, 3, 1.0),
        (1, 3, float("nan")),
        (1, 3, "0.05"),
    ],
)
def test_what_cannot_be_bounded(arguments):
    with pytest.raises(ValueError, match=r"n_errors|n|delta"):
        binomial_upper_bound(*arguments)


@pytest.mark.parametrize(
    ("max_risk", "delta", "n"),
    [(0.02, 0.05, 149), (0.05, 0.05, 59), (0.01, 0.05, 299), (0.5, 0.25, 2), (0.999, 0.9, 1)],
)
def test_labels_without_error(max_risk, delta, n):
    assert labels_without_error(max_risk, delta) == n


@settings(deadline=None)
@given(st.floats(0.001, 0.9), DELTAS)
def test_labels_without_error_is_the_smallest_number(max_risk, delta):
    n = labels_without_error(max_risk, delta)
    assert binomial_upper_bound(0, n, delta) <= max_risk + 1e-9
    assert n == 1 or binomial_upper_bound(0, n - 1, delta) > max_risk


def test_the_promise_holds():
    rng = np.random.default_rng(0)
    counts = rng.binomial(80, 0.1, size=2000)
    broken = np.mean([binomial_upper_bound(int(k), 80, 0.1) < 0.1 for k in counts])
    assert broken <= 0.1 + 3 * np.sqrt(0.09 / 2000)


@settings(deadline=None)
@given(st.floats(0.005, 0.95), st.floats(1e-4, 0.5), st.integers(0, 20))
def test_labels_needed_inverts_the_bound(max_risk, delta, errors):
    n = labels_needed(max_risk, delta, errors)
    assert binomial_upper_bound(errors, n, delta) <= max_risk + 1e-9
    assert n == errors + 1 or binomial_upper_bound(errors, n - 1, delta) > max_risk - 1e-12


def test_more_errors_ask_for_more_labels():
    needed = [labels_needed(0.02, errors=errors) for errors in range(4)]
    assert needed == [149, 236, 313, 386]
    with pytest.raises(ValueError, match="errors"):
        labels_needed(0.02, errors=-1)

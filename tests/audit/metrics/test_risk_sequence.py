import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import risk_sequence as module
from demur.audit.metrics.risk_monitor import risk_monitor
from demur.audit.metrics.risk_sequence import risk_sequence, running_risk_sequence
from demur.uncertainty.checks import InvalidInput

STEP = 1e-9
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 0.5]), st.booleans(), st.sampled_from([0.2, 0.5, 1.0])), min_size=1, max_size=25
)


def records(rng, n, risk, *, choices=(0.1, 0.2, 1.0)):
    probability = rng.choice(choices, size=n)
    labelled = rng.random(n) < probability
    return np.where(labelled, rng.random(n) < risk, np.nan), labelled, probability


@pytest.mark.slow
@settings(deadline=None)
@given(ROWS)
def test_it_holds_the_targets_against_which_no_monitor_alarmed(rows):
    stream = list(zip(*rows, strict=True))
    found = risk_sequence(*stream, 0.2, 0.3)

    def ever(target, direction):
        wealth = risk_monitor(*stream, target, 0.2, direction=direction, start="first").log_wealth
        return np.maximum.accumulate(wealth) >= math.log(2 / 0.3)

    for at in range(0, len(rows), 6):
        low, high = found.lower[at], found.upper[at]
        assert low == 0 or ever(max(low - STEP, low / 2), "above")[at]
        assert low >= 1 - STEP or not ever(low + STEP, "above")[at]
        assert high == 1 or ever(min(high + STEP, (1 + high) / 2), "below")[at]
        assert high <= STEP or not ever(high - STEP, "below")[at]


def test_blocks_make_no_difference(monkeypatch):
    stream = records(np.random.default_rng(0), 400, 0.1)
    whole = risk_sequence(*stream, 0.1)
    monkeypatch.setattr(module, "CELLS_AT_A_TIME", 300)
    parts = risk_sequence(*stream, 0.1)
    np.testing.assert_array_equal(whole.lower, parts.lower)
    np.testing.assert_array_equal(whole.upper, parts.upper)


def test_without_a_label_nothing_is_excluded():
    for sequence in (risk_sequence, running_risk_sequence):
        found = sequence([None, None], [0, 0], [0.5, 0.5], 0.5)
        assert found.lower.tolist() == [0, 0]
        assert found.upper.tolist() == [1, 1]


@pytest.mark.slow
def test_a_constant_risk_is_covered_at_all_times():
    rng, streams, delta, missed = np.random.default_rng(5), 80, 0.2, 0
    for _ in range(streams):
        found = risk_sequence(*records(rng, 300, 0.1), 0.1, delta)
        missed += bool((found.lower > 0.1).any() or (found.upper < 0.1).any())
    assert missed <= streams * delta + 3 * math.sqrt(streams * delta)
    assert found.upper[-1] < 0.5


def test_ends_that_cross_say_that_the_risk_moved():
    rng = np.random.default_rng(6)
    stream = [np.concatenate(x) for x in zip(records(rng, 2_000, 0.01), records(rng, 2_000, 0.3), strict=True)]
    found = risk_sequence(*stream, 0.1)
    assert found.lower[-1] > found.upper[-1]
    assert found.upper[-1] > 0.01  # the smallest so far
    assert found.lower[-1] < 0.3  # the largest


def test_the_running_mean_is_that_of_the_definition():
    floor, delta = 0.5, 0.1
    errors, labelled, probability = records(np.random.default_rng(8), 300, 0.4, choices=(0.5, 0.8))
    found = running_risk_sequence(errors, labelled, probability, floor, delta)
    total = variance = 0.0
    rows = zip(errors, labelled, probability, strict=True)
    for t, (e, x, pi) in enumerate(rows, start=1):
        value = floor / pi * e if x else 0.0
        variance += (value - total / t) ** 2
        total += value
        width = min(
            (math.log(20 / delta) + (-math.log(1 - s) - s) * variance) / (s * t)
            for s in (2.0**-k for k in range(1, 11))
        )
        assert found.estimate[t - 1] == pytest.approx(total / t / floor)
        assert found.lower[t - 1] == pytest.approx(max(0.0, (total / t - width) / floor))
        assert found.upper[t - 1] == pytest.approx(min(1.0, (total / t + width) / floor))
    assert 0 < found.lower[-1] < found.upper[-1] < 1


def test_the_running_mean_is_covered_though_the_risk_moves():
    rng, streams, delta, missed = np.random.default_rng(7), 100, 0.2, 0
    n = 2_000
    risk = np.repeat([0.1, 0.5], n // 2)
    truth = np.cumsum(risk) / np.arange(1, n + 1)
    for _ in range(streams):
        found = running_risk_sequence(*records(rng, n, risk, choices=(0.5, 1.0)), 0.5, delta)
        missed += bool(((found.lower > truth) | (found.upper < truth)).any())
    assert missed <= streams * delta
    assert found.upper[-1] - found.lower[-1] < 0.2


@pytest.mark.parametrize("sequence", [risk_sequence, running_risk_sequence])
@pytest.mark.parametrize(
    "changes", [{"probability": [0.5, 0.05]}, {"delta": 0}, {"floor": 0}, {"errors": [None, 0]}, {"errors": [0]}]
)
def test_what_is_refused(sequence, changes):
    good = {"errors": [1, 0], "labelled": [1, 0], "probability": [0.5, 0.1], "floor": 0.1}
    sequence(**good)
    with pytest.raises(InvalidInput):
        sequence(**{**good, **changes})

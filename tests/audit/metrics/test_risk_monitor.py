import json
import math
from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import risk_monitor as module
from demur.audit.metrics.risk_monitor import (
    DIRECTIONS,
    STAKES,
    STARTS,
    new_risk_monitor,
    risk_monitor,
    risk_monitor_from_json,
)
from demur.uncertainty.checks import InvalidInput

KINDS = list(product(DIRECTIONS, STARTS))


def records(rng, n, risk, *, choices=(0.1, 0.2, 1.0)):
    """Errors, labels and label probabilities of n answered records; without a label the error is NaN."""
    probability = rng.choice(choices, size=n)
    labelled = rng.random(n) < probability
    return np.where(labelled, rng.random(n) < risk, np.nan), labelled, probability


def by_definition(errors, labelled, probability, target, floor, direction, start):
    """ln K, the sums over k as METHODS writes them."""
    gains, path, value = [], [], -math.inf if start == "each" else 0.0
    for e, x, pi in zip(errors, labelled, probability, strict=True):
        if x:
            gains.append(floor / pi * ((e / target - 1) if direction == "above" else (target - e) / (1 - target)))
            t = len(gains)
            wealth = 0.0
            for s in STAKES[direction]:
                later = [math.prod(1 + s * g for g in gains[k:]) for k in range(t)]
                if start == "first":
                    wealth += later[0]
                elif start == "any":
                    wealth += sum(product / ((k + 1) * (k + 2)) for k, product in enumerate(later))
                else:
                    wealth += sum(later)
            value = math.log(wealth / len(STAKES[direction]) + (1 / (t + 1) if start == "any" else 0))
        path.append(value)
    return path


@pytest.mark.parametrize(("direction", "start"), KINDS)
@pytest.mark.parametrize("block", [3, 4096])
def test_the_recursion_is_the_sum_of_the_definition(direction, start, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    errors, labelled, probability = records(np.random.default_rng(4), 60, 0.2)
    errors = np.where(labelled, np.minimum(1.0, errors + 0.25), np.nan)  # losses need not be 0 or 1
    found = risk_monitor(errors, labelled, probability, 0.3, 0.1, direction=direction, start=start)
    want = by_definition(errors, labelled, probability, 0.3, 0.1, direction, start)
    np.testing.assert_allclose(found.log_wealth, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("direction", "start"), KINDS)
def test_expected_wealth_is_one_at_the_target(direction, start):
    """Over all label draws and errors. With `each` it is the expected number of labels."""
    theta, probability = 0.25, [0.5, 0.2, 1.0, 0.2]
    total = np.zeros(len(probability))
    for labels in product([0, 1], repeat=len(probability)):
        for errors in product([0, 1], repeat=len(probability)):
            chance = math.prod(pi if x else 1 - pi for x, pi in zip(labels, probability, strict=True))
            chance *= math.prod(theta if e else 1 - theta for e in errors)
            found = risk_monitor(errors, labels, probability, theta, 0.2, direction=direction, start=start)
            total += chance * np.exp(found.log_wealth)
    np.testing.assert_allclose(total, np.cumsum(probability) if start == "each" else 1.0, rtol=1e-12)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=12), st.sampled_from(KINDS), st.sampled_from([5, 4096]), st.data())
def test_in_portions_the_numbers_are_the_same_to_the_last_digit(sizes, kind, block, data):
    direction, start = kind
    sizes = [*sizes, 1]
    stream = records(np.random.default_rng(data.draw(st.integers(0, 99))), sum(sizes), 0.15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        at_once = risk_monitor(*stream, 0.05, 0.1, 0.2, direction, start)
        whole = new_risk_monitor(0.05, 0.1, delta=0.2, direction=direction, start=start).updated(*stream)
        monitor = new_risk_monitor(0.05, 0.1, delta=0.2, direction=direction, start=start)
        done = 0
        for size in sizes:
            monitor = monitor.updated(*(column[done : done + size] for column in stream))
            monitor = risk_monitor_from_json(json.loads(json.dumps(monitor.as_json(), allow_nan=False)))
            done += size
            assert monitor.log_wealth == at_once.log_wealth[done - 1] if done else monitor.n_records == 0
    assert asdict(monitor) == asdict(whole)
    assert (monitor.n_records, monitor.n_labelled) == (len(stream[1]), stream[1].sum())
    assert monitor.alarm_at == at_once.alarm_at
    np.testing.assert_equal(monitor.p_value, at_once.p_value)


def test_nothing_new_changes_nothing():
    monitor = new_risk_monitor(0.05, 0.1)
    assert monitor.updated([], [], []) == monitor
    assert monitor.updated(np.array([]), np.array([]), np.array([])) == monitor
    assert monitor.p_value == 1
    seen = monitor.updated([1, 1, 0], [1, 1, 1], [1, 0.5, 0.1])
    assert seen.log_wealth > 0
    assert seen.updated([None, "unread"], [0, 0], [1, 0.1]).log_wealth == seen.log_wealth
    assert seen.restarted() == monitor


@pytest.mark.parametrize(("direction", "start"), KINDS)
def test_a_long_stream_neither_overflows_nor_loses_digits(direction, start):
    n = 100_000
    for errors in (np.zeros(n), np.ones(n)):
        found = risk_monitor(errors, np.ones(n), np.ones(n), 1e-6, 1.0, direction=direction, start=start)
        assert np.isfinite(found.log_wealth).all()
    if direction == "above":  # all wrong: the largest stake grows at every label by 1 + s (1 / theta - 1)
        assert found.log_wealth[-1] == pytest.approx(n * math.log1p((1e6 - 1) / 2), rel=1e-4)
        assert found.p_value == 0 or start == "each"


def test_a_long_sum_of_logarithms_keeps_its_digits():
    n = 400_000
    found = risk_monitor(np.zeros(n), np.ones(n), np.ones(n), 0.1, 1.0, start="first", stakes=[0.3])
    assert found.log_wealth[-1] == pytest.approx(n * math.log1p(-0.3), rel=1e-12)


@pytest.mark.parametrize("target", [5e-308, 1 - 1e-16])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_extreme_targets(target, direction):
    found = risk_monitor([1, 0, 1], [1, 1, 1], [1, 0.5, 1], target, 0.5, direction=direction)
    assert np.isfinite(found.log_wealth).all()


def test_the_alarm_is_at_the_first_record_that_reached_the_level():
    found = risk_monitor([0, None, 1, None, 1, 0, 0], [1, 0, 1, 0, 1, 1, 1], [1] * 7, 0.02, 1.0, delta=0.05)
    reached = np.flatnonzero(found.log_wealth >= math.log(20))
    assert found.alarm_at == reached[0] + 1 == 5
    assert found.p_value == pytest.approx(math.exp(-found.log_wealth.max()))
    assert found.log_wealth[-1] < found.log_wealth.max()  # the highest wealth counts, not the last
    level = math.exp(-found.log_wealth[4])
    assert risk_monitor([0, None, 1, None, 1], [1, 0, 1, 0, 1], [1] * 5, 0.02, 1.0, delta=level).alarm_at == 5


def test_wealth_before_the_first_label():
    for start, value in (("first", 0.0), ("any", 0.0), ("each", -math.inf)):
        found = risk_monitor([None, None], [0, 0], [0.5, 0.5], 0.1, 0.5, start=start)
        assert found.log_wealth.tolist() == [value, value]
        assert found.alarm_at is None
    assert found.p_value is not None
    assert math.isnan(found.p_value)


@pytest.mark.parametrize("start", ["first", "any"])
@pytest.mark.parametrize(("direction", "target"), [("above", 0.1), ("below", 0.1)])
def test_false_alarms_are_as_rare_as_promised(direction, target, start):
    """Ville: at a risk that is exactly the target, wealth ever reaches 1 / delta with probability at most delta."""
    rng, streams, delta = np.random.default_rng(1), 300, 0.1
    alarms = sum(
        risk_monitor(*records(rng, 2_000, target), target, 0.1, delta, direction, start).alarm_at is not None
        for _ in range(streams)
    )
    assert alarms <= streams * delta + 3 * math.sqrt(streams * delta)


def test_each_alarms_at_most_once_in_one_over_delta_labels():
    rng, delta = np.random.default_rng(2), 0.02
    gaps = []
    for _ in range(200):
        monitor = new_risk_monitor(0.1, 1.0, delta=delta, start="each")
        while monitor.alarm_at is None:
            monitor = monitor.updated(rng.random(50) < 0.1, np.ones(50), np.ones(50))
        gaps.append(monitor.alarm_at)
    assert np.mean(gaps) >= 1 / delta


def test_a_broken_promise_is_found_and_a_kept_one_certified():
    rng = np.random.default_rng(3)
    bad, good = records(rng, 20_000, 0.06), records(rng, 20_000, 0.005)
    for start in STARTS:
        assert risk_monitor(*bad, 0.02, 0.1, 1e-4, start=start).alarm_at is not None
        assert risk_monitor(*good, 0.02, 0.1, 1e-4, start=start).alarm_at is None
        assert risk_monitor(*good, 0.02, 0.1, 1e-4, direction="below", start=start).alarm_at is not None
    long_good_past = [np.concatenate(pair) for pair in zip(records(rng, 40_000, 0.01), bad, strict=True)]
    assert risk_monitor(*long_good_past, 0.02, 0.1, start="any").alarm_at < (
        risk_monitor(*long_good_past, 0.02, 0.1, start="first").alarm_at or math.inf
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"probability": [0.5, 0.05]},  # less than was declared
        {"probability": [0.5, 0]},
        {"errors": [1, None], "labelled": [1, 1]},
        {"errors": [1, math.nan], "labelled": [1, 1]},
        {"errors": [1.5, 0]},
        {"errors": [1]},
        {"labelled": [1]},
        {"labelled": [1, 2]},
        {"labelled": [], "errors": [], "probability": []},
        {"target": 0},
        {"target": 1},
        {"target": 1e-310},
        {"floor": 0},
        {"floor": 1.1},
        {"delta": 0},
        {"delta": 1},
        {"direction": "up"},
        {"start": "last"},
        {"stakes": [0.5, 1.0]},
        {"stakes": [0.0]},
        {"stakes": []},
    ],
)
def test_what_is_refused(changes):
    good = {"errors": [1, 0], "labelled": [1, 0], "probability": [0.5, 0.1], "target": 0.1, "floor": 0.1}
    risk_monitor(**good)
    with pytest.raises(InvalidInput):
        risk_monitor(**{**good, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"target": 2},
        {"growth": [0.0]},
        {"entered": None},
        {"entered": ["x"] * 10},
        {"n_labelled": -1},
        {"n_records": 1.5},
        {"log_wealth": math.nan},
        {"alarm_at": 0},
        {"unknown": 1},
    ],
)
def test_a_state_that_is_none_is_refused(changes):
    document = new_risk_monitor(0.1, 0.1).updated([1], [1], [1]).as_json()
    assert risk_monitor_from_json(document).n_records == 1
    with pytest.raises(InvalidInput):
        risk_monitor_from_json({**document, **changes})


def test_a_state_without_a_field_is_refused():
    document = new_risk_monitor(0.1, 0.1).as_json()
    for missing in document:
        with pytest.raises(InvalidInput):
            risk_monitor_from_json({name: value for name, value in document.items() if name != missing})

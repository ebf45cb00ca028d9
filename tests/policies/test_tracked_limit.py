import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.tracked_limit import threshold_track
from demur.uncertainty.checks import InvalidInput

REQUESTS = st.tuples(st.none() | st.floats(0, 1), st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0, 1, 4, 50]))
STREAMS = st.lists(REQUESTS, min_size=1, max_size=200)
STEPS = st.sampled_from([0.001, 0.05, 1.0])


def columns(stream):
    u, errors, weights = (list(column) for column in zip(*stream, strict=True))
    return u, [error if weight else None for error, weight in zip(errors, weights, strict=True)], weights


@settings(deadline=None)
@given(STREAMS, st.floats(0.01, 0.99), STEPS, st.floats(-1, 1))
def test_the_joint_risk_is_bounded_by_how_far_the_limit_has_come_whatever_comes(stream, target, step, threshold):
    u, errors, weights = columns(stream)
    run = threshold_track(u, errors, weights, target, step, threshold)
    excess = sum(
        (w * (e - target) if w else 0) if answered else -target
        for answered, e, w in zip(run.answered, errors, weights, strict=True)
    )
    assert excess / len(u) <= (threshold - run.thresholds[-1]) / (step * len(u)) + 1e-9
    least = min(threshold, 0) - step * 50  # a limit below every score answers nothing, and so only rises
    assert min(run.thresholds) >= least - 1e-9
    assert excess / len(u) <= (threshold - least) / (step * len(u)) + 1e-9


@settings(deadline=None)
@given(STREAMS, st.floats(0.01, 0.99), STEPS, st.floats(-1, 0.7))
def test_the_limit_never_rises_above_its_ceiling_and_what_is_unknown_is_held(stream, target, step, ceiling):
    u, errors, weights = columns(stream)
    run = threshold_track(u, errors, weights, target, step, ceiling, ceiling=ceiling)
    assert max(run.thresholds) <= ceiling
    assert run.answered == [x is not None and x <= tau for x, tau in zip(u, run.thresholds, strict=False)]


def test_the_label_of_a_held_request_and_an_answer_without_one_do_not_move_it_by_error():
    run = threshold_track([0.9, 0.1, 0.1], [1, None, 1], [50, 0, 2], 0.5, 0.1, 0.5)
    assert run.answered == [False, True, True]
    assert run.thresholds == pytest.approx([0.5, 0.55, 0.55, 0.45])


@pytest.mark.parametrize(
    "changes",
    [
        {"u": []},
        {"u": [0.5]},
        {"u": [0.5, math.nan]},
        {"u": [0.5, math.inf]},
        {"errors": [None, None]},
        {"errors": [1.5, None]},
        {"weights": [-1, 0]},
        {"weights": [4, None]},
        {"target": 0},
        {"target": 1},
        {"step": 0},
        {"threshold": 1.5},
        {"threshold": math.nan},
        {"ceiling": 0.4},
        {"ceiling": math.inf},
    ],
)
def test_what_is_refused(changes):
    good = {"u": [0.5, None], "errors": [1, None], "weights": [4, 0], "target": 0.1, "step": 0.1, "threshold": 0.5}
    threshold_track(**good)
    with pytest.raises(InvalidInput):
        threshold_track(**{**good, **changes})


def test_nothing_at_all_is_refused():
    with pytest.raises(InvalidInput):
        threshold_track([], [], [], 0.1, 0.1, 0.5)

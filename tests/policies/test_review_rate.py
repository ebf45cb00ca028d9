import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.review_rate import ReviewRate, rate_run
from demur.uncertainty.checks import InvalidInput

STREAMS = st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=200)


@settings(deadline=None)
@given(STREAMS, st.floats(0, 1), st.sampled_from([0.01, 0.2, 5.0]), st.floats(0, 1), st.floats(0, 1))
def test_the_share_below_the_limit_comes_close_to_the_target_whatever_comes(stream, target, step, threshold, floor):
    run = rate_run(stream, target, step, threshold, floor)
    assert len(run.thresholds) == len(stream) + 1
    known = [(c, tau) for c, tau in zip(stream, run.thresholds, strict=False) if c is not None]
    if known:
        below = sum(c < tau for c, tau in known) / len(known)
        assert abs(below - target) <= (1 + step) / (step * len(known)) + 1e-9
    for sure, action, tau in zip(stream, run.actions, run.thresholds, strict=False):
        assert action == ("answer" if sure is not None and sure >= max(tau, floor) else "review")
    assert run.review_rate == run.actions.count("review") / len(stream)


@settings(deadline=None)
@given(STREAMS, st.floats(0, 1))
def test_what_is_unknown_and_the_floor_do_not_move_the_limit(stream, floor):
    known = [c for c in stream if c is not None]
    run = rate_run(stream, 0.2, 0.1, 0.8, floor)
    path = [tau for i, tau in enumerate(run.thresholds) if i == 0 or stream[i - 1] is not None]
    assert path == (rate_run(known, 0.2, 0.1, 0.8).thresholds if known else [0.8])


@pytest.mark.parametrize(
    ("confidence", "action"), [(0.8, "answer"), (0.79, "review"), (math.nan, "review"), (1.0, "answer")]
)
def test_decide(confidence, action):
    assert ReviewRate(target=0.1, step=0.1, floor=0.3).decide(confidence, 0.8) == action


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": []},
        {"confidence": [-0.1]},
        {"confidence": [math.nan]},
        {"target": 1.1},
        {"step": 0},
        {"step": math.inf},
        {"threshold": 1.1},
        {"floor": -0.1},
    ],
)
def test_what_is_refused(changes):
    good = {"confidence": [0.5], "target": 0.1, "step": 0.1, "threshold": 0.8}
    rate_run(**good)
    with pytest.raises(InvalidInput):
        rate_run(**{**good, **changes})


def test_a_confidence_at_the_limit_is_not_below_it():
    assert rate_run([0.8, 0.5], 0.2, 0.1, 0.8).thresholds == pytest.approx([0.8, 0.82, 0.74])

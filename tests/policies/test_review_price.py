import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.review_price import ReviewPrice, price_run
from demur.uncertainty.checks import InvalidInput

STREAMS = st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=200)
STEPS = st.sampled_from([0.01, 0.2, 5.0])


@settings(deadline=None)
@given(STREAMS, st.floats(0, 1), STEPS, st.floats(0, 1), st.floats(0, 0.9))
def test_the_review_rate_stays_within_capacity_whatever_comes(stream, capacity, step, floor, review_cost):
    run = price_run(stream, capacity, step, review_cost=review_cost, floor=floor)
    bound = capacity + (1 - review_cost + step) / (step * len(stream))
    assert run.review_rate == run.actions.count("review") / len(stream)
    assert run.review_rate <= bound + 1e-9
    assert len(run.prices) == len(stream) + 1
    assert min(run.prices) >= 0
    assert max(run.prices) <= 1 - review_cost + step + 1e-9


@settings(deadline=None)
@given(STREAMS, st.floats(0, 1), STEPS, st.floats(0, 1), st.floats(0, 3))
def test_nothing_below_the_floor_and_nothing_unknown_is_ever_answered(stream, capacity, step, floor, price):
    run = price_run(stream, capacity, step, floor=floor, price=price)
    for sure, action, now in zip(stream, run.actions, run.prices, strict=False):
        worth = 1 - (sure or 0) > 0.1 + now
        assert action == ("review" if worth else "abstain" if sure is None or sure < floor else "answer")


@settings(deadline=None)
@given(STREAMS, st.floats(0, 1), STEPS, st.floats(0, 1))
def test_a_tighter_floor_moves_no_price(stream, capacity, step, floor):
    free, tight = (price_run(stream, capacity, step, floor=least) for least in (0, floor))
    assert free.prices == tight.prices
    assert [a == "review" for a in free.actions] == [a == "review" for a in tight.actions]


@pytest.mark.parametrize(
    ("confidence", "price", "action"),
    [
        (0.89, 0, "review"),
        (0.95, 0, "answer"),
        (0.5, 0.25, "review"),
        (0.5, 0.5, "answer"),  # reviewers are busy
        (0.4, 0.6, "answer"),  # the floor itself is still answered
        (0.39, 0.6, "abstain"),
        (math.nan, 0, "review"),
        (math.nan, 5, "abstain"),
    ],
)
def test_decide(confidence, price, action):
    assert ReviewPrice(capacity=0.1, step=0.1, floor=0.4).decide(confidence, price) == action


def test_what_is_unknown_is_never_answered_without_a_floor_either():
    assert price_run([None], 0.5, 0.1, price=5).actions == ["abstain"]


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": []},
        {"confidence": [1.1]},
        {"confidence": [math.nan]},
        {"confidence": np.array([0.5, math.nan])},
        {"confidence": "0.5"},
        {"capacity": -0.1},
        {"capacity": 1.1},
        {"step": 0},
        {"error_cost": 0.1},
        {"review_cost": -0.1},
        {"review_cost": 1},
        {"floor": 1.1},
        {"price": -0.1},
        {"price": math.inf},
    ],
)
def test_what_is_refused(changes):
    good = {"confidence": [0.5], "capacity": 0.1, "step": 0.1}
    price_run(**good)
    with pytest.raises(InvalidInput):
        price_run(**{**good, **changes})

"""What each change makes of a standing, as tables."""

import math

import pytest

from demur.calibration_store.standing import (
    Canary,
    RoleRefused,
    Standing,
    after_canary,
    after_canary_stop,
    after_promotion,
    after_shadow,
    after_shadow_stop,
)
from demur.uncertainty.checks import InvalidInput


def canary(artifact="c", **changes):
    bounds = {"share": 0.1, "held_between": (0.05, 0.4), "max_risk": None, "since": "2026-11-21T00:00:00+00:00"}
    return Canary(artifact=artifact, **{**bounds, **changes})


NOTHING = Standing()
ALL = Standing(in_force="a", shadow="b", canary=canary("c"))


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        (NOTHING, "a", Standing(in_force="a")),
        (ALL, "a", ALL),  # again: nothing is replaced
        (ALL, "b", Standing(in_force="b")),  # the shadow; what the canary was judged beside is gone
        (ALL, "c", Standing(in_force="c", shadow="b")),
        (ALL, "d", Standing(in_force="d", shadow="b")),
    ],
)
def test_after_a_promotion(before, name, after):
    assert after_promotion(before, name) == after


def test_a_shadow_takes_the_place_of_another():
    assert after_shadow(ALL, "d") == Standing(in_force="a", shadow="d", canary=canary("c"))
    assert after_shadow(ALL, "b") == ALL
    assert after_shadow_stop(ALL) == Standing(in_force="a", canary=canary("c"))


def test_a_canary_takes_the_place_of_another():
    assert after_canary(ALL, canary("d")).canary == canary("d")
    assert after_canary(ALL, canary("c", share=0.5)).canary == canary("c", share=0.5)
    for only in (None, "c"):
        assert after_canary_stop(ALL, only=only) == Standing(in_force="a", shadow="b")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: after_shadow(NOTHING, "a"), "no artifact is in force, and a shadow"),
        (lambda: after_shadow(ALL, "a"), "artifact a is in force and cannot be the shadow"),
        (lambda: after_shadow(ALL, "c"), "artifact c is the canary and cannot be the shadow"),
        (lambda: after_canary(NOTHING, canary("a")), "no artifact is in force, and a canary"),
        (lambda: after_canary(ALL, canary("a")), "artifact a is in force and cannot be the canary"),
        (lambda: after_canary(ALL, canary("b")), "artifact b is the shadow and cannot be the canary"),
        (lambda: after_shadow_stop(Standing(in_force="a")), "no shadow to end"),
        (lambda: after_canary_stop(Standing(in_force="a")), "no canary to stop"),
        (lambda: after_canary_stop(Standing(in_force="a"), only="c"), "no canary to stop"),
        (lambda: after_canary_stop(ALL, only="d"), "the canary is c, no longer d"),
    ],
)
def test_what_is_refused(change, said):
    with pytest.raises(RoleRefused, match=said):
        change()


@pytest.mark.parametrize(
    "bounds",
    [
        {"share": 0.0},
        {"share": 1.0},
        {"share": math.nan},
        {"share": "0.1"},
        {"held_between": (0.4, 0.05)},
        {"held_between": (0.2, 0.2)},
        {"held_between": (-0.1, 0.5)},
        {"held_between": (0.1, math.nan)},
        {"max_risk": 1.0},
        {"max_risk": -0.1},
    ],
)
def test_bounds_that_are_none(bounds):
    with pytest.raises(InvalidInput, match=next(iter(bounds))):
        canary(**bounds)


def test_bounds_at_the_edge():
    assert canary(held_between=(0, 1), max_risk=0.001).held_between == (0, 1)

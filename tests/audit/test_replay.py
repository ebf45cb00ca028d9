import math

import pytest

from demur.audit.replay import replay
from demur.uncertainty.checks import InvalidInput


def test_then_and_now():
    found = replay(
        ["answer", "answer", "review", "abstain", "answer"],
        ["answer", "review", "answer", "review", "answer"],
        [1.0, 0.0, 1.0, None, None],
        [1.0, 0.0, 0.5, None, None],
    )
    assert (found.n, found.n_labelled) == (5, 3)
    assert (found.then.answered, found.then.held, found.then.for_people) == (3, 2, 1)
    assert (found.now.answered, found.now.held, found.now.for_people) == (3, 2, 2)
    assert found.more_for_people == 1
    assert (found.answered_to_held, found.held_to_answered) == (1, 1)
    assert (found.then.n_labelled, found.then.risk) == (2, 0.5)
    assert (found.now.n_labelled, found.now.risk) == (2, 0.25)


def test_without_outcomes_there_is_no_risk():
    found = replay(["answer"], ["review"], [None], [None])
    assert math.isnan(found.then.risk)
    assert found.as_json()["then"] == {"answered": 1, "held": 0, "for_people": 0, "n_labelled": 0, "risk": None}


@pytest.mark.parametrize("rows", [([], [], [], []), (["answer"], [], [None], [None])])
def test_refused(rows):
    with pytest.raises(InvalidInput):
        replay(*rows)

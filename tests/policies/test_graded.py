import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.graded import GradedRows
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import graded

CONFIDENCES = st.sampled_from([0.1, 0.2, 0.5, 0.5, 0.9, float("nan")])


@st.composite
def cascades(draw):
    n, models = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    row = st.lists(CONFIDENCES, min_size=models, max_size=models)
    rows = draw(st.lists(row, min_size=n, max_size=n))
    worth = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=models, max_size=models)
    return GradedRows(confidence=np.array(rows), quality=np.array(draw(st.lists(worth, min_size=n, max_size=n))))


@given(cascades(), st.lists(st.sampled_from([0.0, 0.15, 0.2, 0.5, 0.7, 1.0, np.inf]), min_size=1, max_size=5))
def test_a_limit_asks_one_model_after_the_other(rows, limits):
    n_answered, lost = rows.at(np.array(limits))
    for at, limit in enumerate(limits):
        answers = [
            next((q for c, q in zip(confidence, quality, strict=True) if c >= limit), None)
            for confidence, quality in zip(rows.confidence, rows.quality, strict=True)
        ]
        assert n_answered[at] == sum(answer is not None for answer in answers)
        assert lost[at] == pytest.approx(sum(1 - answer for answer in answers if answer is not None))


@given(cascades())
def test_the_surest_model_says_up_to_which_limit_a_row_is_answered(rows):
    for row, surest in zip(rows.confidence, rows.surest, strict=True):
        known = row[~np.isnan(row)]
        assert surest == (known.max() if len(known) else -np.inf)


def test_a_cascade_is_made_of_its_models():
    both = GradedRows.in_turn([graded([0.1, 0.9], [0, 1]), graded([0.8, 0.2], [1, 0])])
    assert both.models == 2
    assert len(both) == 2
    n_answered, lost = both.at(np.array([0.5]))
    assert (n_answered.tolist(), lost.tolist()) == ([2], [0.0])  # the second is asked about the first row only


def test_confidence_and_quality_belong_together():
    with pytest.raises(InvalidInput, match="both are"):
        GradedRows(confidence=np.zeros((2, 1)), quality=np.zeros((2, 2)))

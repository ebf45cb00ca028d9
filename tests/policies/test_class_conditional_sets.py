import numpy as np
import pytest

from demur.policies.class_conditional_sets import ClassConditionalSets
from demur.uncertainty.checks import InvalidInput

ROWS = [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0], [0.5, 0.5, 0.0], [0.3, 0.7, 0.0]]


def test_each_label_has_its_own_quantile_and_too_few_rows_put_it_into_every_set():
    sets = ClassConditionalSets(alpha=0.34).fit(ROWS, [0, 0, 1, 1])  # both ranks are the last of two
    np.testing.assert_allclose(sets.qhats, [0.4, 0.5, np.inf])
    assert sets.of(np.array([[0.6, 0.4, 0.0], [0.5, 0.5, 0.0]])).tolist() == [[True, False, True], [False, True, True]]
    assert sets.promise_in_words == (
        "at 34% error for each label (that takes 2 labelled rows of each; 1 of 3 have fewer)"
    )


def test_enough_rows_of_each_are_not_mentioned():
    sets = ClassConditionalSets(alpha=0.5).fit(np.tile(np.eye(3), (1, 1)), [0, 1, 2])
    assert sets.promise_in_words == "at 50% error for each label"


@pytest.mark.parametrize("probabilities", [np.full((2, 2), 0.5), np.full(3, 1 / 3)])
def test_other_labels_than_were_fitted_are_refused(probabilities):
    sets = ClassConditionalSets(alpha=0.5).fit(ROWS, [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match="for 3 labels"):
        sets.of(probabilities)

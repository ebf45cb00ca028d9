import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from demur.policies.label_thresholds import GivenLabelLimit, LabelThresholds, MaxF1LabelLimits
from demur.policies.prediction import FITTED_PREDICTORS, LABEL_LIMITS, MostProbable, learns

PROBABILITIES = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.sampled_from([0.0, 0.2, 0.5, 1])
)


@settings(deadline=None)
@given(PROBABILITIES)
def test_one_label_is_predicted_the_first_of_the_most_probable(probabilities):
    predicted = MostProbable().of(probabilities)
    assert predicted.dtype == bool
    for row, chosen in zip(probabilities.tolist(), predicted.tolist(), strict=True):
        assert [label for label, held in enumerate(chosen) if held] == [row.index(max(row))]


def test_nothing_is_learnt_about_the_most_probable_label():
    assert MostProbable().fit(None, None) == MostProbable()


@settings(deadline=None)
@given(PROBABILITIES, st.floats(0, 1))
def test_each_label_that_reaches_its_limit_is_predicted(probabilities, limit):
    wanted = [[p >= limit for p in row] for row in probabilities.tolist()]
    assert GivenLabelLimit(limit=limit).fit(probabilities, None).of(probabilities).tolist() == wanted


@pytest.mark.parametrize("limits", [GivenLabelLimit(limit=0.5), MaxF1LabelLimits()])
def test_no_label_may_be_predicted_and_an_unknown_probability_predicts_none(limits):
    fitted = limits.fit([[0.5, 0.5], [0.2, 0.9]], [[1, 1], [0, 1]])
    assert fitted.of(np.array([[0.1, 0.1], [0.5, math.nan]])).tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize(
    ("recipe", "answer"), [(MostProbable(), False), (GivenLabelLimit(limit=0.5), False), (MaxF1LabelLimits(), True)]
)
def test_what_hangs_on_labels_is_known(recipe, answer):
    assert learns(recipe) is answer


@pytest.mark.parametrize(("kind", "settings"), [("fixed", {"limit": 0.3}), ("max_f1", {})])
def test_what_is_configured_ends_as_something_that_an_artifact_can_hold(kind, settings):
    fitted = LABEL_LIMITS[kind](**settings).fit([[0.5], [0.4]], [[1], [0]])
    assert isinstance(fitted, FITTED_PREDICTORS)
    assert isinstance(fitted, LabelThresholds)

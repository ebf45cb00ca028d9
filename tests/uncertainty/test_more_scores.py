"""Scores of directions and of raw logits, as they are configured."""

import numpy as np
import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.deep_knn import DeepKnn, deep_knn
from demur.uncertainty.logit_scores import Energy, energy
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES


def rows_of(embedding):
    classes = np.arange(len(embedding)) % 2
    return LabelledOutput.of_classes(Output.from_logits(np.eye(2)[classes] * 3, embedding=embedding), classes)


def test_deep_knn_is_the_function_of_the_fitted_rows():
    rng = np.random.default_rng(0)
    train, fresh = rng.normal(size=(40, 5)), rng.normal(size=(300, 5))
    fresh[7] = 0
    for k in (1, 10, 99):
        fitted = DeepKnn(k=k).fit(rows_of(np.vstack([train, np.zeros((1, 5))])), np.ones(41))  # a row without direction
        found = fitted.of(rows_of(fresh).output)
        np.testing.assert_allclose(found, deep_knn(train, fresh, k=k), rtol=1e-12)
        assert np.isnan(found[7])
    with pytest.raises(InvalidInput, match="every embedding is a row of zeros"):
        DeepKnn().fit(rows_of(np.zeros((4, 5))), np.ones(4))


def test_scores_of_logits_read_the_logits_themselves():
    z = np.array([[2.0, 1.0, 0.0], [12.0, 11.0, 10.0]])
    output = Output.from_logits(z)
    np.testing.assert_array_equal(Energy(temperature=2.0).of(output), energy(z, 2.0))
    np.testing.assert_array_equal(SCORES["max_logit"]().of(output), [-2.0, -12.0])
    with pytest.raises(InvalidInput):
        Energy(temperature=0)

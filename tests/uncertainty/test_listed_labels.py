import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.listed_labels import LabelUndecided, bounded_logprobs

NAN = float("nan")


@pytest.mark.parametrize(
    ("known", "listed", "filled"),
    [
        ([0.6, 0.3], [0.6, 0.3, 0.05], [0.6, 0.3]),  # nothing is missing
        ([0.9, NAN], [0.9, 0.05, 0.02], [0.9, 0.02]),  # the least listed one bounds it
        ([0.9, NAN, NAN, NAN], [0.9, 0.05, 0.02], [0.9, 0.01, 0.01, 0.01]),  # what is left does, shared
        ([0.5, 0.4, NAN], [0.5, 0.4, 0.1], [0.5, 0.4, 0.0]),  # nothing is left
        ([0.2, NAN], [0.7, 0.2, 0.1], [0.2, 0.0]),  # the most probable token is no label
        ([0.9, NAN], [0.9], [0.9, 0.1]),
        ([0.6, NAN], [0.6, 0.4005], [0.6, 0.0]),  # rounded up: more than 1 in all
        ([0.5, NAN], [0.5, 0.0], [0.5, 0.0]),  # -inf is listed
    ],
)
def test_missing_labels_have_the_most_that_they_can(known, listed, filled):
    with np.errstate(divide="ignore"):
        bounded = bounded_logprobs(np.log(known), np.log(listed))
    np.testing.assert_allclose(np.exp(bounded), filled, atol=1e-12)


@pytest.mark.parametrize(
    ("known", "listed"),
    [
        ([NAN, NAN], [0.6, 0.3]),  # no label at all
        ([0.2, NAN], [0.5, 0.2]),  # the other one may be 0.2 as well
        ([0.0, NAN], [0.9, 0.0]),  # both may be impossible
        ([NAN, NAN], []),
    ],
)
def test_where_the_prediction_could_be_another_it_is_undecided(known, listed):
    with np.errstate(divide="ignore"), pytest.raises(LabelUndecided):
        bounded_logprobs(np.log(known), np.log(listed))


def test_a_token_that_was_only_drawn_bounds_nothing_but_the_rest():
    """One token was drawn and told, without its alternatives: another one may be more probable."""
    np.testing.assert_allclose(
        np.exp(bounded_logprobs(np.log([0.9, NAN]), np.log([0.9]), ranked=False)), [0.9, 0.1], atol=1e-12
    )
    bounded_logprobs(np.log([0.45, NAN]), np.log([0.45, 0.4]))
    with pytest.raises(LabelUndecided):
        bounded_logprobs(np.log([0.45, NAN]), np.log([0.45]), ranked=False)


@pytest.mark.parametrize("wrong", [0.5, NAN, float("inf")])
def test_what_is_no_log_probability_is_refused(wrong):
    with pytest.raises(InvalidInput, match="is no log-probability"):
        bounded_logprobs(np.array([-0.1, NAN]), np.array([-0.1, wrong]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_no_model_that_could_have_told_the_list_is_less_sure(seed, n_known, n_missing):
    """Draw whole distributions over tokens, list the most probable ones, and compare with what was hidden."""
    rng = np.random.default_rng(seed)
    vocabulary = n_known + n_missing + int(rng.integers(0, 8))
    probabilities = np.sort(rng.dirichlet(np.full(vocabulary, rng.choice([0.1, 0.5, 2.0]))))[::-1]
    listed = int(rng.integers(n_known, vocabulary - n_missing + 1))
    shown = rng.choice(listed, n_known, replace=False)
    hidden = listed + rng.choice(vocabulary - listed, n_missing, replace=False)
    truth = probabilities[np.concatenate([shown, hidden])]
    known = np.concatenate([np.log(np.maximum(probabilities[shown], 1e-300)), np.full(n_missing, np.nan)])
    try:
        told = np.exp(bounded_logprobs(known, np.log(np.maximum(probabilities[:listed], 1e-300))))
    except LabelUndecided:
        return
    assert told.argmax() == truth.argmax()
    rounding = 1e-15 / truth.sum()  # what the listed ones leave of 1 is known to the last digits of 1
    assert told.max() / told.sum() <= truth.max() / truth.sum() + rounding + 1e-12
    assert entropy(told / told.sum()) >= entropy(truth / truth.sum()) - 100 * rounding - 1e-9

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty import tokens
from demur.uncertainty.checks import InvalidInput

SCORES = [
    tokens.avg_neg_logprob,
    tokens.max_neg_logprob,
    tokens.perplexity,
    tokens.improbability,
    tokens.greedy_neg_loglikelihood,
    tokens.avg_token_prob,
]
LOGPROBS = st.lists(st.floats(-50, 0), min_size=1, max_size=20)


@pytest.mark.parametrize("score", [*SCORES, tokens.sequence_confidence])
@pytest.mark.parametrize(
    "bad",
    [[], [1.1e-6], [-1.0, 0.1], [-math.inf], [math.nan], [math.inf], [None], [[-1.0]], -1.0, "ab", [[-1.0], [-1, -2]]],
)
def test_what_is_no_logprob_is_refused(score, bad):
    with pytest.raises(InvalidInput):
        score(bad)


@pytest.mark.parametrize("value", [0, -0.0, 1e-6, 5e-324])
def test_a_value_a_hair_above_zero_is_zero(value):
    for score in SCORES:
        surest = 1.0 if score is tokens.perplexity else 0.0
        assert score([value, 0.0]) == surest
        assert math.copysign(1, score([value, 0.0])) == 1
    assert tokens.sequence_confidence([value]) == 1


@pytest.mark.parametrize(
    ("score", "logprobs", "value"),
    [
        (tokens.perplexity, [-709.0], math.exp(709)),
        (tokens.perplexity, [-710.0], math.inf),
        (tokens.avg_neg_logprob, [-1e308] * 20, 1e308),
        (tokens.greedy_neg_loglikelihood, [-1e308] * 20, math.inf),
        (tokens.improbability, [-1e308] * 20, 1.0),
        (tokens.sequence_confidence, [-1000.0], 0.0),
    ],
)
def test_extremes_give_no_warning(score, logprobs, value):
    assert score(logprobs) == pytest.approx(value, rel=1e-12)


@settings(deadline=None)
@given(LOGPROBS)
def test_the_scores_lie_in_their_ranges_and_agree_with_each_other(logprobs):
    mean, worst = tokens.avg_neg_logprob(logprobs), tokens.max_neg_logprob(logprobs)
    assert 0 <= mean <= worst * (1 + 1e-12)
    assert tokens.greedy_neg_loglikelihood(logprobs) == pytest.approx(mean * len(logprobs), rel=1e-12)
    assert tokens.sequence_confidence(logprobs) * tokens.perplexity(logprobs) == pytest.approx(1)
    assert 0 <= tokens.avg_token_prob(logprobs) <= tokens.improbability(logprobs) + 1e-12 <= 1 + 1e-12


@settings(deadline=None)
@given(st.lists(LOGPROBS, min_size=2, max_size=10))
def test_perplexity_ranks_as_the_mean_does(answers):
    mean = np.array([tokens.avg_neg_logprob(answer) for answer in answers])
    perplexity = np.array([tokens.perplexity(answer) for answer in answers])
    assert (np.diff(perplexity[np.argsort(mean)]) >= 0).all()

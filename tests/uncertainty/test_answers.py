import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.uncertainty import tokens
from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import Output
from demur.uncertainty.token_entropy import token_entropy_sequence
from demur.uncertainty.token_scores import TOKEN_SCORES, TokenEntropy

FORMULAS = {
    "avg_neg_logprob": tokens.avg_neg_logprob,
    "max_neg_logprob": tokens.max_neg_logprob,
    "perplexity": tokens.perplexity,
    "improbability": tokens.improbability,
    "g_nll": tokens.greedy_neg_loglikelihood,
    "avg_token_prob": tokens.avg_token_prob,
    "sequence_confidence": lambda logprobs: 1 - tokens.sequence_confidence(logprobs),
}
LOGPROBS = st.lists(st.floats(-50, 0), min_size=1, max_size=30)


def reply(logprobs, *, start=0, top=None):
    generation = Generation(
        text="x",
        tokens=("x",) * len(logprobs),
        logprobs=np.array(logprobs, dtype=np.float64),
        top_logprobs=None if top is None else tuple(np.array(token, dtype=np.float64) for token in top),
        answer_start=start,
    )
    return Replies(first=generation, said="x")


def output(rows):
    column = as_column(rows)
    return Output(logits=np.zeros((len(rows), 2)), probabilities=np.full((len(rows), 2), 0.5), replies=column)


@pytest.mark.parametrize("name", FORMULAS)
@given(rows=st.lists(LOGPROBS, min_size=1, max_size=6))
def test_a_row_has_the_score_that_it_has_alone(name, rows):
    found = TOKEN_SCORES[name]().of(output([reply(row) for row in rows]))
    np.testing.assert_allclose(found, [FORMULAS[name](row) for row in rows], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("bad", [[-np.inf, -1.0], [np.nan], [-1.0, 0.1], []])
def test_what_is_no_logprob_spoils_its_own_row_alone(name, bad):
    untold = Replies(first=Generation(text="x"), said="x")
    rows = [reply([-1.0, -0.5]), reply(bad), untold, None, reply([-0.1])]
    found = TOKEN_SCORES[name]().of(output(rows))
    np.testing.assert_array_equal(np.isnan(found), [False, True, True, True, False])
    assert found[[0, 4]] == pytest.approx([FORMULAS[name]([-1.0, -0.5]), FORMULAS[name]([-0.1])], rel=1e-12)


def test_the_reasoning_counts_where_it_is_asked_for():
    rows = output([reply([-1.0, -2.0, -4.0], start=2), reply([-3.0])])
    assert TOKEN_SCORES["g_nll"]().of(rows).tolist() == [4.0, 3.0]
    assert TOKEN_SCORES["g_nll"](per="reply").of(rows).tolist() == [7.0, 3.0]


def test_rows_that_share_a_reply_share_its_score():
    first, other = reply([-1.0, -2.0]), reply([-0.5])
    again = Replies(first=first.first, said="y")
    assert TOKEN_SCORES["g_nll"]().of(output([first, again, other, first])).tolist() == [3.0, 3.0, 0.5, 3.0]


@pytest.mark.parametrize("residual", ["outcome", "renormalize", "ignore"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_entropies_of_many_rows_are_those_of_each(residual, reduce):
    tops = [
        [[-0.1, -3.0], [-0.5, -1.5]],
        [[-0.2]],  # fewer alternatives than others have
        [[-1.0, -np.inf], [-np.inf, -np.inf]],
        [[-0.1, -3.0, -9.0]] * 3,
    ]
    bad = [[[-0.1, np.nan]], [[0.1, -3.0]], [[-0.1, -0.1]], [[], [-0.1]]]
    rows = [reply([-0.1] * len(top), top=top) for top in [*tops, *bad]]
    found = TokenEntropy(residual=residual, reduce=reduce).of(output([*rows, reply([-1.0])]))
    alone = [token_entropy_sequence(top, residual=residual, reduce=reduce) for top in tops]
    np.testing.assert_allclose(found[:4], alone, rtol=1e-12)
    assert np.isnan(found[4:]).all()

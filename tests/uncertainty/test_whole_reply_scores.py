"""Token scores of a whole reply, the reasoning included."""

import numpy as np
import pytest

from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import Output
from demur.uncertainty.token_scores import GreedyNegLogLikelihood, MaxNegLogprob, TokenEntropy

LOGPROBS = np.array([-0.5, -2.0, -0.1, -0.2])
TOP = tuple(np.log([np.exp(value), 1 - np.exp(value)]) for value in LOGPROBS)


def output(*, known=True):
    first = Generation(
        text="132",
        reasoning="a doubt",
        tokens=("<think>", "a doubt", "</think>", "132"),
        logprobs=LOGPROBS if known else None,
        top_logprobs=TOP if known else None,
        answer_start=3,
    )
    replies = as_column([Replies(first=first, said="132")])
    return Output(logits=np.zeros((1, 2)), probabilities=np.array([[1.0, 0.0]]), replies=replies)


@pytest.mark.parametrize(
    ("score", "of_answer", "of_reply"),
    [(GreedyNegLogLikelihood, 0.2, 2.8), (MaxNegLogprob, 0.2, 2.0)],
)
def test_a_reply_is_the_answer_and_what_led_to_it(score, of_answer, of_reply):
    assert score(per="answer").of(output()) == pytest.approx([of_answer])
    assert score(per="reply").of(output()) == pytest.approx([of_reply])


def test_entropies_of_the_reasoning_count():
    alone, whole = TokenEntropy(per="answer").of(output()), TokenEntropy(per="reply").of(output())
    assert whole > alone > 0


def test_what_is_not_told_is_unknown():
    assert np.isnan(GreedyNegLogLikelihood(per="reply").of(output(known=False))).all()

"""Why a score is unknown in every row is said once, with what to do."""

import numpy as np
import pytest

from demur.serve.fitting.missing_parts import missing_parts
from demur.uncertainty.generation import Replies
from demur.uncertainty.output import Output
from tests.serve.scripted import configured, generation

BARE = {"logprobs": None, "top_logprobs": None}


def output_of(*replies):
    rows = np.empty(len(replies), dtype=object)
    rows[:] = replies
    shape = np.full((len(replies), 2), 0.5)
    return Output(probabilities=shape, logits=np.log(shape), replies=rows)


def said(replies, scores, **sections):
    model = configured("generate", scores=scores, confidence={"score": scores[0]}, **sections)
    return list(missing_parts("sums", model, model.recipe, output_of(*replies)))


def test_log_probabilities_and_alternatives_are_one_thing_that_lacks():
    replies = [Replies(first=generation("4", **BARE), said="4")] * 3
    [sentence] = said(replies, ["avg_neg_logprob", "token_entropy"])
    assert sentence.startswith("None of the 3 replies of none at http://127.0.0.1:1/v1 had log-probabilities, which")
    assert "which avg_neg_logprob and token_entropy read; if the endpoint gives none, set models.sums.host" in sentence


def test_the_words_of_the_endpoint_come_in_their_place():
    why = "http://x told no log-probabilities; if it never gives them, set host.gives_logprobs: false"
    [sentence] = said([Replies(first=generation("4", **BARE, no_logprobs=why), said="4")], ["avg_neg_logprob"])
    assert sentence.endswith(f"had log-probabilities, which avg_neg_logprob reads: {why}")


def test_alternatives_alone():
    [sentence] = said(
        [Replies(first=generation("4", top_logprobs=None), said="4")], ["token_entropy", "avg_neg_logprob"]
    )
    assert "had alternatives of its tokens, which token_entropy reads; " in sentence


@pytest.mark.parametrize("first", [generation("4"), None])
def test_where_nothing_lacks_nothing_is_said(first):
    replies = (
        [None] if first is None else [Replies(first=first, said="4"), Replies(first=generation("4", **BARE), said="4")]
    )
    assert said(replies, ["avg_neg_logprob"]) == []

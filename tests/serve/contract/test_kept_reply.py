"""What a record keeps of a reply beside its text."""

import numpy as np
import pytest

from demur.serve.contract.kept_reply import LONGEST_REASONING, MOST_TOKENS, kept_reply
from demur.uncertainty.generation import Generation


def written(text, tokens=(), logprobs=None, start=0, **more):
    logprobs = None if logprobs is None else np.array(logprobs)
    return Generation(text=text, tokens=tuple(tokens), logprobs=logprobs, answer_start=start, **more)


def test_a_plain_reply_is_its_text():
    assert kept_reply(written("four", ["four"])) == {"text": "four", "finish_reason": "stop"}


def test_a_trace_is_kept_and_a_long_one_from_its_beginning():
    assert kept_reply(written("four", reasoning="2 + 2"))["reasoning"] == "2 + 2"
    kept = kept_reply(written("four", reasoning="x" * LONGEST_REASONING + "end"))
    assert (kept["reasoning"], kept["reasoning_characters"]) == ("x" * LONGEST_REASONING, LONGEST_REASONING + 3)
    assert "reasoning" not in kept_reply(written("four", reasoning=""))


@pytest.mark.parametrize(
    ("tokens", "start", "lengths", "logprobs"),
    [
        (["It", " is", " 4"], 0, [2, 3, 2], [-0.1, -0.2, -0.3]),
        (["<think>", "x</think>\n", "It", " is 4"], 2, [2, 5], [-0.3, -0.4]),  # those of the trace are left out
        (["</think>It", " is 4"], 0, [2, 5], [-0.1, -0.2]),  # a token that begins with a mark
        (["It", " is", " 4\nHuman:"], 0, [2, 3, 2], [-0.1, -0.2, -0.3]),  # one that ends with what ended the reply
        (["It", "", " is 4"], 0, [2, 5], [-0.1, -0.5]),  # bytes of a character are one token with the rest of it
        (["\n", "It is 4", "\n"], 0, [7], [-0.2]),
    ],
)
def test_log_probabilities_lie_over_the_answer(tokens, start, lengths, logprobs):
    told = [-0.1 * (at + 1) for at in range(len(tokens))]
    kept = kept_reply(written("It is 4", tokens, told, start))["tokens"]
    assert kept["lengths"] == lengths
    assert kept["logprobs"] == pytest.approx(logprobs)


@pytest.mark.parametrize(
    ("text", "tokens", "logprobs"),
    [
        ("It is 4", ["It", " is 5"], [-0.1, -0.2]),  # other tokens than the text
        ("It", ["It"], [float("nan")]),
        ("", ["It"], [-0.1]),
        ("It", ["It"], None),
        ("It", [], []),
    ],
)
def test_where_they_cannot_be_told_there_are_none(text, tokens, logprobs):
    assert "tokens" not in kept_reply(written(text, tokens, logprobs))


def test_they_are_rounded_bounded_and_finite():
    kept = kept_reply(written("ab", ["a", "b"], [-0.12345678, -np.inf]))["tokens"]
    assert kept["logprobs"] == [-0.123, -99.0]
    n = MOST_TOKENS + 9
    assert len(kept_reply(written("a" * n, ["a"] * n, [-0.1] * n))["tokens"]["lengths"]) == MOST_TOKENS

"""Which words of a reply are marked."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.web.review.weak_tokens import MOST, WeakPart, weak_parts

TEXT = "It is forty-two now"


def reply(*tokens, text=TEXT):
    return {
        "text": text,
        "finish_reason": "stop",
        "tokens": {"lengths": [len(one) for one, _ in tokens], "logprobs": [log(p) for _, p in tokens]},
    }


def test_weak_tokens_side_by_side_are_one_mark_without_blanks():
    parts = weak_parts(reply(("It", 0.9), (" is", 0.5), (" forty", 0.4), ("-two", 0.3), (" ", 0.2), ("now", 0.99)))
    assert [part.text for part in parts] == ["It is ", "forty-two", " now"]
    assert parts[1].weak == pytest.approx(0.2)
    assert parts[0].weak is None


@pytest.mark.parametrize("told", [{}, {"tokens": {"lengths": [], "logprobs": []}}])
def test_without_log_probabilities_nothing_is_marked(told):
    assert weak_parts({"text": TEXT, "finish_reason": "stop", **told}) == [WeakPart(TEXT)]


def test_what_follows_the_tokens_that_are_kept_is_not_marked():
    assert weak_parts(reply(("It", 0.1))) == [WeakPart("It", pytest.approx(0.1)), WeakPart(TEXT[2:])]


def test_of_very_many_the_weakest_are_marked():
    tokens = [(one, p) for i in range(MOST + 50) for one, p in ((f"w{i:03}", 0.4 - i / 1000), (" ", 0.9))]
    parts = weak_parts(reply(*tokens, text="".join(one for one, _ in tokens)))
    weak = [part.text for part in parts if part.weak]
    assert weak == [f"w{i:03}" for i in range(50, MOST + 50)]


@given(st.lists(st.tuples(st.text(" ab\n", max_size=3), st.floats(0.01, 1.0))))
def test_the_pieces_are_the_text(tokens):
    text = "".join(one for one, _ in tokens) + "end"
    assert "".join(part.text for part in weak_parts(reply(*tokens, text=text))) == text

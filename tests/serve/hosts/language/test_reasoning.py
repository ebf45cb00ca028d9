import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from demur.serve.hosts.language.reasoning import ReasoningStream, answer_start, cut_off, split
from demur.serve.hosts.language.reply import TokenTexts, put_together


@pytest.mark.parametrize(
    ("reply", "opened", "reasoning", "answer"),
    [
        ("132", False, None, "132"),
        ("<think>47 + 85 = 132.</think>132", False, "47 + 85 = 132.", "132"),
        ("\n<think>\nlet me see\n</think>\n\n132", False, "let me see", "132"),
        ("let me see</think>132", True, "let me see", "132"),  # the prompt ended with the opening mark
        ("<think>let me see</think>132", True, "let me see", "132"),  # and the model wrote another
        ("let me see</think>132", None, "let me see", "132"),
        ("let me see</think>132", False, None, "let me see</think>132"),
        ("132", None, None, "132"),
        ("<think>47 + 8", False, "47 + 8", ""),  # cut off by length
        ("47 + 8", True, "47 + 8", ""),
        ("<think></think>132", False, "", "132"),
        ("a <think>b</think> c", False, None, "a <think>b</think> c"),  # a trace stands at the beginning
        ("<think>a</think>b</think>c", False, "a", "b</think>c"),
        ("", False, None, ""),
    ],
)
def test_split(reply, opened, reasoning, answer):
    parts = split(reply, opened=opened)
    assert parts.reasoning == reasoning
    assert reply[parts.answer_at :] == answer


REPLIES = st.sampled_from(
    [
        "132",
        "<think>a. Wait, b?</think>132",
        "<think>a</think>\n\n1 3",
        "<think>a",
        "x <think>y</think>",
        "  <think></think>",
    ]
)


@given(REPLIES, st.sets(st.integers(1, 40)))
def test_the_answer_is_found_among_tokens_wherever_their_borders_are(reply, borders):
    cuts = [0, *sorted(cut for cut in borders if cut < len(reply)), len(reply)]
    tokens = [reply[start:end] for start, end in itertools.pairwise(cuts)]
    answer = reply[split(reply).answer_at :]
    start = answer_start(tokens, split(reply).answer_at)
    told = "".join(tokens[start:])
    assert told.endswith(answer)
    assert len(told) - len(answer) < (len(tokens[start]) if start < len(tokens) else 1)  # no token before its first one
    if not answer:
        assert start == len(tokens)


@given(REPLIES, st.lists(st.integers(1, 5), min_size=1))
def test_pieces_of_a_stream_are_the_whole_in_the_end(reply, sizes):
    parts, told, rest = ReasoningStream(), ["", ""], reply
    for size in itertools.cycle(sizes):
        if not rest:
            break
        piece, rest = rest[:size], rest[size:]
        for at, text in enumerate(parts.add(piece)):
            told[at] += text
    whole = split(reply)
    for at, text in enumerate(parts.end(whole.reasoning, reply[whole.answer_at :])):
        told[at] += text
    assert told == [whole.reasoning or "", reply[whole.answer_at :]]


def test_what_may_become_a_mark_is_not_told_yet():
    parts = ReasoningStream(stop=("\n\n",))
    assert parts.add("<thi") == ("", "")
    assert parts.add("nk>a</") == ("a", "")
    assert parts.add("think>13") == ("", "13")
    assert parts.add("2\n") == ("", "2")
    assert parts.add("\nmore") == ("", "")


def test_a_reply_ends_before_the_first_text_that_ends_it():
    assert cut_off("a. b; c", [";", "."]) == "a"
    assert cut_off("a", []) == "a"


@pytest.mark.slow
@given(st.text(max_size=20))
def test_texts_of_tokens_are_the_text(sums, text):
    tokenizer = _tokenizer(sums)
    texts = TokenTexts(tokenizer)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert "".join(texts.of(ids)) == text
    growing = texts.growing()
    assert "".join(growing.add(token) for token in ids) + growing.rest() == text


@pytest.mark.slow
@given(st.lists(st.integers(5, 315), max_size=12))
def test_texts_are_the_same_however_the_tokens_come(sums, ids):
    texts = TokenTexts(_tokenizer(sums))
    growing = texts.growing()
    assert "".join(texts.of(ids)) == "".join(growing.add(token) for token in ids) + growing.rest()
    assert len(texts.of(ids)) == len(ids)


def test_a_character_of_many_tokens_is_told_with_the_last():
    class Bytes:
        all_special_ids = (0,)
        added_tokens_decoder = {}  # noqa: RUF012

        def get_vocab(self):
            return {}

        def encode(self, text, **_):
            return list(text.encode())

        def decode(self, ids, **_):
            return bytes(ids).decode(errors="replace")

    texts = TokenTexts(Bytes())
    assert texts.of([0x61, 0xE2, 0x82, 0xAC, 0, 0x62]) == ["a", "", "", "€", "", "b"]
    assert texts.of([0x61, 0xE2, 0x82]) == ["a", "", "\ufffd"]  # cut off in the middle of it


def test_a_reply_is_put_together_without_what_ended_it():
    reply = put_together(
        ["<think>", "a", "</think>", "1", "2", "\n", "\nQ"],
        logprobs=np.arange(7.0),
        top_logprobs=[np.array([float(i)]) for i in range(7)],
        opened=False,
        stop=("\n\n",),
        finish_reason="stop",
        prompt_tokens=3,
        completion_tokens=7,
    )
    assert (reply.text, reply.reasoning) == ("12", "a")
    assert reply.tokens == ("<think>", "a", "</think>", "1", "2")
    assert reply.answer == (3, 5)
    assert reply.logprobs.tolist() == [0, 1, 2, 3, 4]
    assert len(reply.top_logprobs) == 5
    assert reply.reasoning_tokens == 3


_tokenizers = {}


def _tokenizer(folder):
    return _tokenizers.setdefault(folder, AutoTokenizer.from_pretrained(folder))

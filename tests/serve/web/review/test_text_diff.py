"""What changed between two texts, word by word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.web.review.text_diff import AROUND, DiffPart, text_diff

TEXTS = st.text(alphabet="ab c.\n", max_size=40)


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_from_it(before, after):
    parts = text_diff(before, after)
    assert "".join(part.text for part in parts if part.kind != "in") == before
    assert "".join(part.text for part in parts if part.kind != "out") == after
    assert all(part.text for part in parts)


def test_words_are_whole_and_signs_stand_alone():
    assert text_diff("sent on 3 May.", "sent on 13 May!") == [
        DiffPart("same", "sent on "),
        DiffPart("out", "3"),
        DiffPart("in", "13"),
        DiffPart("same", " May"),
        DiffPart("out", "."),
        DiffPart("in", "!"),
    ]


def test_long_stretches_that_did_not_change_are_counted():
    before = "a " * 1000 + "b" + " c" * 1000
    parts = text_diff(before, before.replace("b", "x"))
    assert [part.kind for part in parts] == ["skipped", "same", "out", "in", "same", "skipped"]
    assert parts[0].text == f"{2000 - AROUND:,} characters as they were"
    assert len(parts[1].text) == AROUND


@pytest.mark.parametrize("text", ["a b " * 25_000, "x" * 100_000, "\n" * 100_000, "ab\n" * 33_000, ".,;" * 33_000])
def test_what_a_hostile_caller_wrote_does_not_take_long(text):
    """Each of these would take minutes word by word."""
    parts = text_diff(text, text[::-1] + "end")
    assert sum(len(part.text) for part in parts if part.kind == "in") > 0

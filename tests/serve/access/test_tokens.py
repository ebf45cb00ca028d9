"""Secrets: their form, their hash, and that no repr shows them."""

import pytest

from demur.serve.access.tokens import CODE, KEY, SESSION, new_token, read_token


@pytest.mark.parametrize("kind", [KEY, CODE, SESSION])
def test_a_token_is_read_as_it_was_made(kind):
    token = new_token(kind)
    read = read_token(token.text)
    assert read == token
    assert read.kind == kind
    assert token.fits(read.hash)
    assert token.text not in repr(token)
    assert token.text.rpartition("_")[2] not in repr(token)
    assert len(token.hash) == 32


def test_another_secret_does_not_fit():
    one, other = new_token(KEY), new_token(KEY)
    assert not one.fits(other.hash)
    changed = read_token(one.text[:-1] + ("a" if one.text[-1] != "a" else "b"))
    assert changed.id == one.id
    assert not changed.fits(one.hash)


MADE = "demur_vd1m9a2q8l_yIzASadMff7DPChU0ogw7I7iq6HopbQ9Ej6sVi6N"
"""One that was made once. Workers of a test run must agree on what is tested, so it is not made anew."""


def test_one_that_was_made_is_read():
    assert read_token(MADE).text == MADE


def test_no_two_tokens_are_alike():
    tokens = [new_token(KEY) for _ in range(500)]
    assert len({token.text for token in tokens}) == len({token.id for token in tokens}) == 500


@pytest.mark.parametrize(
    "text",
    ["", "demur", "demur_", "demur__", "sk-123", "demur_abc_def", "\0", "é" * 60, "demur_" + "a" * 10 + "_" + "a" * 41]
    + [MADE + end for end in ("\n", " ", "a", "\0")]
    + [MADE.upper()],
)
def test_what_has_another_form_is_none(text):
    assert read_token(text) is None

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.hosts.language.label_lists import json_read, lines_read, token_spans
from demur.serve.hosts.language.matching import is_right, last_number, reading_of
from demur.serve.hosts.language.readings import Names, letter_in
from tests.serve.scripted import generation


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("C", "C"),
        (" c.\n", "C"),
        ("(C)", "C"),
        ("**C**", "C"),
        ("[C] 132", "C"),
        ("C) 132", "C"),
        ("C. 132", "C"),
        ("C: because 47 + 85 = 132", "C"),
        ("**C.** 132", "C"),
        ("Answer: C", "C"),
        ("answer: (C)", "C"),
        ("The answer is C.", "C"),
        ("The correct answer is option C", "C"),
        ("The answer is **C**.", "C"),
        ("The answer is C because it is the sum.", "C"),
        ("The answer is A because it is the sum.", "A"),
        ("The answer is A.", "A"),
        ("I would say [C]", "C"),
        ("(A) is too small and (B) is too large", None),
        ("47 + 85 = 132. The answer is C, not [A].", "C"),
        ("A dog has four legs", None),  # the article
        ("The answer is A dog", None),
        ("I think that it is a cat", None),
        ("a", "A"),
        ("Vitamin C", None),
        ("[A] 122\n[B] 131\n[C] 132\n[D] 142", None),  # all of them are no answer
        ("The answer is A. No, the answer is C.", None),
        ("[A] 122. The answer is C.", None),
        ("E", None),  # there are four options
        ("[F] 132", None),
        ("", None),
        ("none", None),
        ("Answers differ", None),
        ("Because C and D fit", None),
    ],
)
def test_the_letter_of_a_reply(reply, letter):
    said = letter_in(reply, 4)
    assert (None if said.index is None else "ABCD"[said.index]) == letter
    assert bool(said.why) == (letter is None)


def test_two_letters_are_settled_and_none_is_open():
    assert letter_in("The answer is A. No, the answer is C.", 4).settled
    assert not letter_in("132", 4).settled


@pytest.mark.parametrize(
    ("names", "reply", "name"),
    [
        (["no", "yes"], "Yes.", "yes"),
        (["no", "yes"], "**no**", "no"),
        (["no", "yes"], "No, it is not.", "no"),
        (["no", "yes"], "yes or no", None),
        (["no", "yes"], "I do not know", None),  # no word of it is one of them
        (["no", "yes"], "yesterday", None),
        (["no", "yes"], "", None),
        (["type 1", "type 1 diabetes"], "It is Type 1  Diabetes.", "type 1 diabetes"),
        (["type 1", "type 1 diabetes"], "type 1", "type 1"),
        (["12", "112"], "= 112", "112"),
        (["C++", "C"], "c++", "C++"),
        (["C++", "C"], "I like C++ most", "C++"),
        (["très bon", "bon"], "Très bon !", "très bon"),
        (["A", "B"], "a", "A"),
        (["positive", "negative"], "negative: the text is not positive", None),
    ],
)
def test_the_only_name_in_a_reply(names, reply, name):
    said = Names(names).read(reply)
    assert (None if said.index is None else names[said.index]) == name
    assert bool(said.why) == (name is None)


LABELS = Names(["A01", "A0101", "red, dark", "red", "None given"])


@pytest.mark.parametrize(
    ("reply", "named", "unknown"),
    [
        ("A0101\nred", [1, 3], []),
        ("- A0101\n* red\n", [1, 3], []),
        ("1. A0101\n2) red", [1, 3], []),
        ("A0101, red", [1, 3], []),
        ("red, dark", [2], []),  # a comma may be part of a label
        ("`a0101`; RED.", [1, 3], []),
        ('["A0101", "red"]', [1, 3], []),
        ("A0101: by two\nred - as blood", [1, 3], []),
        ("red\nred\nA01", [3, 0], []),
        ("red\ngreen", [3], ["green"]),
        ("none", [], []),
        ("None.", [], []),
        ("[]", [], []),
        ("{}", [], []),
        ("None given", [4], []),
        ("green", None, ["green"]),
        ("I do not see any label here, sorry", None, ["I do not see any label here", "sorry"]),
        ("", None, []),
        (" \n", None, []),
    ],
)
def test_labels_on_lines(reply, named, unknown):
    found = lines_read(reply, LABELS)
    assert (None if found.named is None else list(found.named)) == named
    assert list(found.unknown) == unknown
    assert bool(found.why) == (named is None)
    for label, (start, stop) in found.places.items():
        assert reply[start:stop].casefold() == LABELS.names[label].casefold()


@pytest.mark.parametrize(
    ("reply", "stated", "unknown"),
    [
        ('{"A01": 0.9, "red": 0.25}', {0: 0.9, 3: 0.25}, []),
        ('```json\n{"A01": 1}\n```', {0: 1.0}, []),
        ('{"A01": 0.9, "green": 0.1}', {0: 0.9}, ["green"]),
        ("{}", {}, []),
        ('{"green": 0.1}', None, ["green"]),
        ('{"A01": 90}', None, []),  # 90 is not taken for 0.9
        ('{"A01": 0.5, "A01": 0.6}', None, []),
        ("A01", None, []),
        ("", None, []),
    ],
)
def test_labels_as_json(reply, stated, unknown):
    found = json_read(reply, LABELS)
    assert found.stated == stated
    assert list(found.unknown) == unknown
    assert (found.named is None) == (stated is None)
    for label, (start, stop) in found.places.items():
        assert reply[start:stop] == LABELS.names[label]


@pytest.mark.parametrize(
    ("tokens", "text", "spans"),
    [
        (["A", "0101", "\n", "red"], "A0101\nred", {1: (0, 2), 3: (3, 4)}),
        (["A0", "101\nr", "ed"], "A0101\nred", {1: (0, 2), 3: (1, 3)}),  # a token across the border is both labels'
        ([" A", "01", "01", "\n red"], "A0101\nred", {1: (0, 3), 3: (3, 4)}),
        (["\u2581A0101", "\u010a", "\u0120red"], "A0101\nred", {1: (0, 1), 3: (2, 3)}),
        (["A", "", "0101", "\n", "red", ""], "A0101\nred", {1: (0, 3), 3: (4, 5)}),
        (["A0101", " \ufffd", "\n", "red"], "A0101 \u00e9\nred", {1: (0, 1), 3: (3, 4)}),
        ([], "A0101\nred", {}),
        (["something", " else"], "A0101\nred", {}),
    ],
)
def test_where_labels_stand_among_the_tokens(tokens, text, spans):
    places = {1: (0, 5), 3: (text.index("red"), len(text))}
    reply = generation(text, tokens=tokens) if tokens else generation("", tokens=[]).__class__(text=text)
    assert token_spans(places, reply) == spans


def test_tokens_of_the_reasoning_are_no_label():
    reply = generation("red", tokens=["<think>", "red", "</think>", "red"], answer_start=3)
    assert token_spans({3: (0, 3)}, reply) == {3: (3, 4)}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("47 + 85 = 132.", "132"),
        ("1,320.0", "1320"),
        ("168-36", "36"),  # no minus of its own
        ("it is -5", "-5"),
        ("it is \u22125", "-5"),
        ("1e3 of them", "1000"),
        ("-0.0", "0"),
        ("12345678901234567890123456789012345", "12345678901234567890123456789012345"),
        ("A0101", None),
        ("132cm", "132"),
        ("", None),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("text", "match", "reading"),
    [
        (" It IS  so. ", "exact", "it is so"),
        ("= 1,320.0", "number", "1320"),
        ("nothing", "number", "nothing"),
        (" . ", "exact", None),
        ("", "number", None),
    ],
)
def test_texts_that_say_the_same_are_read_the_same(text, match, reading):
    assert reading_of(text, match) == reading


def test_a_number_within_a_number_does_not_occur_in_it():
    assert not is_right("132", "13", "contains")
    assert is_right("it is 13.", "13", "contains")


@given(st.text() | st.text(alphabet="A()[]{}*.:, \n\"'01", max_size=400))
def test_no_reply_makes_a_reading_raise(reply):
    names = Names(["A01", "A0101", "no", "yes"])
    letter_in(reply, 10)
    names.read(reply)
    for read in (lines_read, json_read):
        found = read(reply, names)
        assert (found.named is None) == bool(found.why)
        token_spans(found.places, generation(reply))
    for match in ("exact", "number", "contains"):
        reading_of(reply, match)
        is_right(reply, reply, match)


@pytest.mark.parametrize(
    "piece", ["(", "A ", "answer ", "answer: ", " ", "\n", "1,", "1", "[A", "*", "- ", "{", "no ", "```", '"']
)
def test_no_reply_makes_a_reading_hang(piece):
    reply = piece * 20_000  # quadratic work would take minutes
    names = Names(["A01", "no way", "yes"])
    letter_in(reply, 10)
    names.read(reply)
    lines_read(reply, names)
    json_read(reply, names)
    reading_of(reply, "number")


def test_places_of_escaped_labels_are_found():
    names = Names(['a "b"', "\u00e9t\u00e9"])
    reply = json.dumps({'a "b"': 0.5, "\u00e9t\u00e9": 0.25})
    found = json_read(reply, names)
    assert [reply[start:stop] for start, stop in found.places.values()] == ['a \\"b\\"', "\\u00e9t\\u00e9"]
    assert np.allclose(list(found.stated.values()), [0.5, 0.25])

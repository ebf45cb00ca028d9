import contextlib
import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.self_report import parse_confidence_rating, parse_joint_confidences, self_verbalised

PLAIN = '{"A": 0.9, "B": 1}'


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"\n  {PLAIN}\n",
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}\n```\n",
        f"``` JSON \n{PLAIN}```",
        f"```{PLAIN}```",
        f"~~~~json\n{PLAIN}\n~~~~",
    ],
)
def test_one_object_bare_or_in_one_fence(text):
    assert parse_joint_confidences(text).confidences == {"A": 0.9, "B": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no idea",
        f"Sure: {PLAIN}",
        f"Sure:\n```json\n{PLAIN}\n```",
        f"```json\n{PLAIN}",
        f"```json\n{PLAIN}\n```\n```json\n{PLAIN}\n```",
        f"{PLAIN} {PLAIN}",
        '["A"]',
        "0.9",
        "null",
        '{"A": true}',
        '{"A": null}',
        '{"A": "0.9"}',
        '{"A": NaN}',
        '{"A": Infinity}',
        '{"A": -Infinity}',
        '{"A": -0.1}',
        '{"A": 85}',
        '{"A": 1e999}',
        '{"A": 1.0000001}',
        '{"A": [0.9]}',
        '{"A": {"B": 0.9}}',
        '{"A": 0.1, "A": 0.1}',
        '{"A": 0.1, "\\u0041": 0.1}',  # the same label, spelled another way
        '{"A": 0.9,}',
        "{'A': 0.9}",
        '{"A": .9}',
        '{"A": ' + "9" * 5000 + "}",
        "[" * 100_000,
        None,
        b"{}",
    ],
)
def test_everything_else_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_joint_confidences(text)
    with pytest.raises(InvalidInput):
        parse_joint_confidences(text, labels=["B"])  # what is said of an unknown label is checked as well


def test_unknown_labels_are_reported_in_the_order_of_the_reply():
    read = parse_joint_confidences('{"Z": 0.1, "A": 0.9, "Y": 0.2, "a": 0}', labels=["A", "B"])
    assert read.confidences == {"A": 0.9}
    assert read.unknown == ("Z", "Y", "a")


@pytest.mark.parametrize("labels", [None, [], ["A"]])
def test_nothing_applies_is_an_answer(labels):
    read = parse_joint_confidences("{}", labels)
    assert (read.confidences, read.unknown) == ({}, ())


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.floats(0, 1)))
def test_what_json_writes_is_read_back(confidences):
    assert parse_joint_confidences(json.dumps(confidences)).confidences == confidences
    assert parse_joint_confidences(f"```json\n{json.dumps(confidences, indent=1)}\n```").confidences == confidences


def test_self_verbalised():
    assert self_verbalised({"A": 0.92, "B": 0, "C": 1.0}) == {"A": 1 - 0.92, "B": 1.0, "C": 0.0}
    assert self_verbalised({}) == {}


@pytest.mark.parametrize("bad", [{"A": 1.1}, {"A": -0.1}, {"A": math.nan}, {"A": True}, {"A": "1"}, [0.5], None])
def test_self_verbalised_refuses(bad):
    with pytest.raises(InvalidInput):
        self_verbalised(bad)


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("[85]", 85),
        ("[ 85.5 % ]", 85.5),
        ("3 findings of 4 agree: [85]", 85),  # brackets come first, wherever they stand
        ("[60] then [90]", 60),
        ("[maybe 3] [40]", 40),
        ("[confidence: 40]", 40),
        ("[8e1]", 80),
        ("I would say 70 out of 100.", 70),
        ("70/100", 70),
        ("70%", 70),
        ("about 70.", 70),
        ("(70)", 70),
        ("Confidence:70, or so", 70),
        ("62.5", 62.5),
        (".5", 0.5),
        ("0", 0),
        ("100", 100),
        ("A04 and COVID-19: 80", 80),  # parts of words
        ("v1.2.3 80", 80),
        ("5-year survival, 2nd line: 80", 80),
        ("between 70-80, say 75", 75),  # a range is not a number
        ("1,000 cases; 80", 80),
        ("-5 is silly, 40", 40),
        ("\u22125 is silly, 40", 40),
        ("1.5e1", 15),
    ],
)
def test_a_rating_is_read(text, rating):
    assert parse_confidence_rating(text) == rating / 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no idea",
        "[150]",
        "150",
        "100.1",
        "-5",
        "[-5]",
        "[-5] 40",
        "[70-80]",
        "A04",
        "20mg",
        "1,000",
        "[]",
        None,
        85,
    ],
)
def test_no_rating_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_confidence_rating(text)


@pytest.mark.parametrize(("text", "scale", "confidence"), [("[7]", 10, 0.7), ("0.8", 1, 0.8), ("[3.5]", 5.0, 0.7)])
def test_another_scale(text, scale, confidence):
    assert parse_confidence_rating(text, scale=scale) == confidence


@pytest.mark.parametrize("scale", [0, -1, math.inf, math.nan, True, "100", None])
def test_the_scale_is_a_positive_number(scale):
    with pytest.raises(InvalidInput, match="scale"):
        parse_confidence_rating("[0]", scale=scale)


@pytest.mark.parametrize("filler", [" ", "`", "a", "9", "[ ", "[1 ", "9.", "9-", "```a "])
@pytest.mark.parametrize("start", ["", "```", "``` ", "[", "[1", "[1 "])
@pytest.mark.parametrize("end", ["", "x"])
def test_no_reply_can_make_reading_slow(start, filler, end):
    text = start + filler * 30_000 + end

    def seconds() -> float:
        began = time.thread_time()
        for read in (parse_joint_confidences, parse_confidence_rating):
            with contextlib.suppress(InvalidInput):
                read(text)
        return time.thread_time() - began

    # milliseconds; seconds each time if the search were quadratic; of three, because the machine may be busy
    assert min(seconds() for _ in range(3)) < 0.5

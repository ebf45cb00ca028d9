"""Times, answers and confidences in words."""

from datetime import UTC, datetime, timedelta
from math import inf, nan

import pytest

from demur.serve.web.review.words import age, pace, percent, said, sureness


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (59.4, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d"), (-3, "0 s")]
)
def test_ages(seconds, text):
    now = datetime.now(UTC)
    assert age(now - timedelta(seconds=seconds), now) == text


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (None, "confidence unknown"),
        (nan, "confidence unknown"),
        (1.0, "all but certain: 100%"),
        (0.9999, "all but certain: 99.9%"),  # not what it is not
        (0.99, "all but certain: 99%"),
        (0.9, "quite sure: 90%"),
        (0.75, "fairly sure: 75%"),
        (0.61, "rather unsure: 61%"),
        (0.5, "rather unsure: 50%"),
        (0.49, "unsure: 49%"),
        (0.001, "unsure: below 1%"),
        (0.0, "unsure: 0%"),
    ],
)
def test_confidences(confidence, text):
    assert sureness(confidence) == text


def test_a_share_is_never_called_all_or_nothing_unless_it_is():
    told = [percent(i / 10_000) for i in range(1, 10_000)]
    assert not {"0%", "100%", "100.0%"} & set(told)


@pytest.mark.parametrize(("answer", "text"), [(None, "none"), ("7", "7"), (["a", "b"], "a, b"), ([], "no label")])
def test_answers(answer, text):
    assert said(answer) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "nothing waits"),
        (0.5, "30 min of work at the pace of the last hour"),
        (inf, "nobody answered in the last hour"),
    ],
)
def test_paces(hours, text):
    assert pace(hours) == text

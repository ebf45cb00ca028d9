import hashlib
import hmac
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.traffic.draw import Draws, InvalidDraw, limit, spot_check

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
SHARE = st.floats(0, 1)


@given(TEXT, TEXT, TEXT.filter(lambda text: "\0" not in text), SHARE)
def test_the_draw_is_the_keyed_hash_of_purpose_and_id(key, record_id, purpose, probability):
    digest = hmac.new(key.encode(), purpose.encode() + b"\0" + record_id.encode(), hashlib.sha256).hexdigest()
    found = spot_check(key, record_id, probability, purpose)
    assert found.draw == digest[:16]
    assert found.selected == (int(digest[:16], 16) < limit(probability))
    draws = Draws(key, purpose)
    assert draws.of("another") == Draws(key, purpose).of("another")
    assert draws.of(record_id) == int(digest[:16], 16)  # whatever was drawn before


@pytest.mark.parametrize(
    ("probability", "below"),
    [
        (0, 0),
        (0.0, 0),
        (1, 2**64),
        (1.0, 2**64),
        (0.5, 2**63),
        (0.02, 368934881474191040),  # what 0.02 is in a float, times 2^64: nothing is rounded
        (2.0**-64, 1),
        (2.0**-65, 0),
        (math.nextafter(1, 0), 2**64 - 2**11),
    ],
)
def test_limit(probability, below):
    assert limit(probability) == below


@given(TEXT, SHARE, SHARE)
def test_a_higher_probability_keeps_what_was_selected(record_id, one, other):
    low, high = sorted([one, other])
    assert spot_check("key", record_id, low).selected <= spot_check("key", record_id, high).selected
    assert not spot_check("key", record_id, 0).selected
    assert spot_check("key", record_id, 1).selected


def test_draws_are_uniform_and_purposes_and_keys_independent():
    n = 20_000
    draws = [Draws("key"), Draws("key", "thin"), Draws("another key")]
    shares = np.array([[one.of(f"{i:032x}") / 2**64 for i in range(n)] for one in draws])
    for row in shares:
        assert abs(np.mean(row < 0.02) - 0.02) < 4 * math.sqrt(0.02 / n)
        assert abs(row.mean() - 0.5) < 4 / math.sqrt(12 * n)
    assert np.abs(np.corrcoef(shares) - np.eye(3)).max() < 4 / math.sqrt(n)


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"key": None},
        {"key": b"k"},
        {"record_id": ""},
        {"record_id": 7},
        {"record_id": "\ud800"},
        {"purpose": ""},
        {"purpose": "a\0b"},
        {"purpose": None},
        {"probability": -0.01},
        {"probability": 1.01},
        {"probability": math.nan},
        {"probability": None},
        {"probability": "0.5"},
        {"probability": True},
    ],
)
def test_what_cannot_be_drawn_with(changes):
    with pytest.raises(InvalidDraw):
        spot_check(**{"key": "key", "record_id": "id", "probability": 0.5, **changes})

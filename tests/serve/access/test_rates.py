"""Rates: what passes, what waits and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.access.rates import Bucket, Rate


def test_a_burst_passes_and_then_the_rate_holds():
    bucket = Bucket(Rate(per_second=2, burst=3), now=0.0)
    for _ in range(3):
        assert bucket.wait(1, 0.0) == 0
        bucket.take(1)
    assert bucket.wait(1, 0.0) == pytest.approx(0.5)
    assert bucket.wait(1, 0.4) == pytest.approx(0.1)
    assert bucket.wait(1, 0.5) == 0


def test_what_is_more_than_the_burst_passes_when_the_bucket_is_full_and_is_owed():
    bucket = Bucket(Rate(per_second=10, burst=5), now=0.0)
    assert bucket.wait(25, 0.0) == 0
    bucket.take(25)
    assert bucket.wait(1, 0.0) == pytest.approx(2.1)


def test_a_clock_that_goes_back_gives_nothing():
    bucket = Bucket(Rate(per_second=1, burst=1), now=100.0)
    bucket.take(1)
    assert bucket.wait(1, 50.0) == pytest.approx(1.0)
    assert bucket.wait(1, 100.5) == pytest.approx(0.5)


@given(
    st.floats(0.1, 100),
    st.floats(1, 50),
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 60)), min_size=1, max_size=50),
)
def test_no_more_than_the_rate_and_one_burst_ever_pass(per_second, burst, asked):
    """What is asked in one piece may be more than the burst; then that piece is owed, and it is the last."""
    bucket, now, passed, last = Bucket(Rate(per_second=per_second, burst=burst), now=0.0), 0.0, 0.0, 0.0
    for pause, n in asked:
        now += pause
        if bucket.wait(n, now) == 0:
            bucket.take(n)
            passed += n
            last = n
            assert passed <= burst + per_second * now + max(0.0, last - burst) + 1e-6

"""How soon a monitor finds a rise of the risk, and how many checks that takes."""

import numpy as np
import pytest

from demur.audit.metrics.alarm_delay import Rise, alarm_delays, rate_for_delay
from demur.uncertainty.checks import InvalidInput

RISE = Rise(target=0.02, before=0.01, after=0.10)


@pytest.mark.slow
@pytest.mark.parametrize(("labels_before", "documented"), [(0, 39), (500, 138), (2_000, 187)])
def test_the_delay_is_the_one_of_the_table(labels_before, documented):
    """`docs/monitors.md` has medians of 60 streams, which scatter by a fifth or so."""
    assert np.median(alarm_delays(RISE, labels_before, most=2_000)) == pytest.approx(documented, rel=0.3)


def test_the_longer_it_was_quiet_the_later_the_alarm():
    soon, late = (np.median(alarm_delays(RISE, n, most=2_000, streams=20)) for n in (200, 1_000_000))
    assert soon < late < np.inf
    assert np.isinf(alarm_delays(RISE, 1_000_000, most=5, streams=5)).all()
    assert np.isfinite(alarm_delays(RISE, 10**21, most=5_000, streams=2)).all()


@pytest.mark.slow
def test_the_rate_brings_half_of_the_alarms_in_time():
    rate = rate_for_delay(RISE, 1_000, 7, quiet_days=10, streams=20)
    other = alarm_delays(RISE, int(rate * 10_000), most=5_000, streams=60, seed=1) / (rate * 1_000)
    assert 0.3 < (other <= 7).mean() < 0.75
    assert rate_for_delay(RISE, 10, 1, streams=10) is None  # ten answers a day, all checked, are too few


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"before": 0.03}, "above the target of 0.02: that is a broken promise"),
        ({"after": 0.02}, "not above the target of 0.02: no alarm is due"),
        ({"after": 1.5}, "after"),
        ({"delta": float("nan")}, "delta"),
    ],
)
def test_what_is_no_rise_is_refused(told, message):
    with pytest.raises(InvalidInput, match=message):
        Rise(**({"target": 0.02, "before": 0.01, "after": 0.10} | told))


@pytest.mark.parametrize(("per_day", "days"), [(0, 7), (100, 0), (float("nan"), 7), (100, -1)])
def test_numbers_that_make_no_sense_are_refused(per_day, days):
    with pytest.raises(InvalidInput):
        rate_for_delay(RISE, per_day, days)

"""Risk monitors over long streams: how often they alarm for nothing, and that they alarm when the risk doubles."""

import numpy as np
import pytest

from benchmarks.monitor_delays import CHANCES, DELTA, TARGET, Change, delays, false_alarms

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("chances", CHANCES)
@pytest.mark.parametrize("start", ["first", "any"])
def test_at_the_very_target_fewer_streams_than_delta_ever_alarm(start: str, chances: str) -> None:
    alarms = false_alarms(start, chances, streams=500, labels=5_000, rng=np.random.default_rng(20261121))

    assert len(alarms) < DELTA * 500


@pytest.mark.parametrize("chances", CHANCES)
@pytest.mark.parametrize("start", ["first", "any", "each"])
def test_a_doubled_risk_is_found(start: str, chances: str) -> None:
    doubled = Change(labels_before=1_000, risk_before=TARGET, risk_after=2 * TARGET)

    found = delays(doubled, start, chances, streams=40, rng=np.random.default_rng(20261121))

    assert np.isfinite(found).mean() > 0.9
    assert np.median(found) < 3_000


def test_a_long_good_past_delays_an_alarm_that_bets_from_the_first_label_on() -> None:
    late = Change(labels_before=10_000, risk_before=TARGET / 2, risk_after=3 * TARGET)
    rng = np.random.default_rng(20261121)

    first, later = (np.median(delays(late, start, "one", streams=20, rng=rng)) for start in ("first", "any"))

    assert first > 2 * later

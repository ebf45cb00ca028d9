"""More than can be served: what there is no room for is refused at once, and the rest is served as ever."""

import time

import pytest

from tests.faults.conftest import OPEN_REQUESTS, Site, Trial
from tests.faults.load import Load, account_of

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_all_hosts_hang_and_everybody_comes(site: Site, trial: Trial):
    crowds = []

    def fault(load):
        hung = site.replicas("host-digits")
        for process in hung:
            process.suspend()
        crowd = Load(site.url, site.inputs, callers=4 * OPEN_REQUESTS, timeout_seconds=60)
        with crowd:
            time.sleep(8)
            for process in hung:
                process.resume()
        crowds.append(crowd)

    trial(site, fault)
    (crowd,) = crowds
    refused = [told for told in crowd.told if told.status == 503]
    assert set(crowd.troubles) == {"503 Overloaded"}
    assert all(told.retry_after >= 1 for told in refused)
    quick = sorted(told.seconds for told in refused)
    print(f"refused {len(quick)}: {1000 * quick[len(quick) // 2]:.0f} ms, at most {1000 * quick[-1]:.0f} ms")
    assert account_of(site.dsn, crowd).clean


def test_who_gives_a_time_limit_is_told_in_time(site: Site, trial: Trial):
    late = []

    def fault(load):
        hung = site.replicas("host-digits")
        for process in hung:
            process.suspend()
        with Load(site.url, site.inputs, headers={"X-Request-Timeout": "0.5"}) as hasty:
            time.sleep(4)
            for process in hung:
                process.resume()
            hasty.wait_for(20)
        late.append(hasty)

    trial(site, fault)
    (hasty,) = late
    assert set(hasty.troubles) == {"504 DeadlinePassed"}
    account = account_of(site.dsn, hasty)
    assert account.clean, account
    assert account.unanswered == 0  # nothing was being written when the time was over: the hosts had not answered

"""How often logins are tried, and who pays for whom."""

from contextlib import suppress

import pytest

from demur.serve.access import login_limits
from demur.serve.access.login_limits import AT_PROVIDER, LoginLimits
from demur.serve.access.rates import Rate
from demur.serve.access.refusals import TooOften

SELDOM = Rate(per_second=0.001, burst=3)


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(login_limits, "OF_ADDRESS", SELDOM)
    monkeypatch.setattr(login_limits, "OF_ACCOUNT", SELDOM)
    monkeypatch.setattr(login_limits, "IN_ALL", Rate(per_second=0.001, burst=10))
    return LoginLimits()


def passed(count, who, tries):
    n = 0
    for _ in range(tries):
        with suppress(TooOften):
            count(who)
            n += 1
    return n


def test_each_address_has_a_limit_of_its_own(limits):
    assert passed(limits.count_address, "203.0.113.7", 5) == 3
    assert passed(limits.count_address, "203.0.113.8", 5) == 3
    assert passed(limits.count_address, None, 50) == 50  # where nobody knows it
    assert passed(limits.count_address, "unix:", 5) == 3  # what is no address is taken as it is


def test_who_has_a_whole_network_counts_once(limits):
    assert passed(limits.count_address, "2001:db8::1", 2) == 2
    assert passed(limits.count_address, "2001:db8::ffff:2", 5) == 1
    assert passed(limits.count_address, "2001:db8:0:1::1", 5) == 3
    assert passed(limits.count_address, "::ffff:203.0.113.7", 5) == 3
    assert passed(limits.count_address, "::ffff:203.0.113.8", 5) == 3


def test_each_account_has_a_limit_below_that_of_all(limits):
    assert passed(limits.count_account, "first", 9) == 3
    assert [passed(limits.count_account, name, 9) for name in ("a", "b", "c", "d")] == [3, 3, 1, 0]


def test_who_tries_too_often_is_told_when_to_try_again(limits):
    passed(limits.count_address, "203.0.113.7", 3)
    with pytest.raises(TooOften) as refused:
        limits.count_address("203.0.113.7")
    assert refused.value.seconds == pytest.approx(1000, rel=0.1)


def test_what_is_remembered_has_a_bound(limits, monkeypatch):
    monkeypatch.setattr(login_limits, "MOST_REMEMBERED", 100)
    for at in range(1000):
        limits.count_address(f"10.0.{at // 256}.{at % 256}")
    assert len(limits._addresses._known) == 100


def test_so_many_are_at_the_provider_at_a_time(limits):
    places = [limits.at_provider(None) for _ in range(AT_PROVIDER + 1)]
    for place in places[:-1]:
        place.__enter__()
    with pytest.raises(TooOften), places[-1]:
        pass
    places[0].__exit__(None, None, None)
    with limits.at_provider(None):
        pass


def test_all_of_them_together_are_fewer_than_a_burst_of_one():
    assert login_limits.OF_ACCOUNT.burst < login_limits.IN_ALL.burst
    assert login_limits.OF_ACCOUNT.per_second < login_limits.IN_ALL.per_second

"""How often logins are tried: by each address where it is known, by each account, and in all.

Only whoever shows a code or key that was made here counts in all, so no stranger uses up what others need.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from threading import BoundedSemaphore, Lock
from time import monotonic

from demur.serve.access.rates import Bucket, Rate
from demur.serve.access.refusals import TooOften

OF_ADDRESS = Rate(per_second=1, burst=30)
"""Behind one address there may be a whole office."""

OF_ACCOUNT = Rate(per_second=0.2, burst=10)
IN_ALL = Rate(per_second=5, burst=50)

MOST_REMEMBERED = 10_000
"""Addresses, and accounts, of which it is known how often they tried; of more, the one that was seen last but longest
ago is forgotten."""

AT_PROVIDER = 8
"""Logins at a provider that are being checked at a time, in each replica."""

HOST_BITS = 64
"""Of an address of version 6, which are all of one place."""


class LoginLimits:
    """Counts the logins that are tried in one process. It is used from several threads."""

    def __init__(self) -> None:
        self._addresses, self._accounts = _Buckets(OF_ADDRESS), _Buckets(OF_ACCOUNT)
        self._all = Bucket(IN_ALL, monotonic())
        self._lock = Lock()
        self._places = BoundedSemaphore(AT_PROVIDER)

    def count_address(self, address: str | None) -> None:
        """Count a try from an address, if it is known; raise `TooOften` where there were too many."""
        if address is not None:
            with self._lock:
                _take(self._addresses.of(_place(address)))

    def count_account(self, account: str) -> None:
        """Count a try of somebody who shows a code or key that was made here, or raise `TooOften`."""
        with self._lock:
            _take(self._accounts.of(account), self._all)

    @contextmanager
    def at_provider(self, address: str | None) -> Iterator[None]:
        """A place for one login that a provider is asked about; raises `TooOften` where there is none."""
        self.count_address(address)
        if not self._places.acquire(blocking=False):
            raise _too_often(1.0)
        try:
            yield
        finally:
            self._places.release()


class _Buckets:
    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._known: OrderedDict[str, Bucket] = OrderedDict()

    def of(self, name: str) -> Bucket:
        bucket = self._known.setdefault(name, Bucket(self._rate, monotonic()))
        self._known.move_to_end(name)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return bucket


def _take(*buckets: Bucket) -> None:
    now = monotonic()
    if (seconds := max(bucket.wait(1, now) for bucket in buckets)) > 0:
        raise _too_often(seconds)
    for bucket in buckets:
        bucket.take(1)


def _too_often(seconds: float) -> TooOften:
    refused = TooOften("too many logins are tried at the moment; try again a little later")
    refused.seconds = seconds
    return refused


def _place(address: str) -> str:
    """What an address counts as: of version 6, the network that one place has."""
    try:
        known = ip_address(address)
    except ValueError:  # a proxy may tell it in a form of its own
        return address
    if isinstance(known, IPv6Address) and known.ipv4_mapped is None:
        return str(ip_network((known, HOST_BITS), strict=False))
    return str(known)

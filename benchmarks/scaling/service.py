"""A simulated service: proxies, gateways that gather, hosts, and a PostgreSQL whose commits share one log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.scaling.costs import Costs
from benchmarks.scaling.simulation import Clock, Gathering, Processors, Station, Then, Variation, WriteAheadLog
from demur.serve.config.hosts.host import BatchConfig
from demur.serve.contract.batching import PATIENCE_SECONDS
from demur.serve.gateway.writer import COMMIT_SIZE

BATCH = BatchConfig()
"""How demur gathers unless told otherwise."""

WARM_UP = 0.2
"""Share of the simulated time that is not looked at."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many there are of each part, and which processors they have."""

    gateways: int
    hosts: int
    cells: int = 1
    """Groups of gateways and hosts, as even as can be: a gateway calls the hosts of its own group alone."""

    proxies: int = 1
    postgres_cores: float = 1.0
    shared: dict[str, float] | None = None
    """Processors that parts share, by name, where not each part has its own; `pool_of` then names those of a part."""

    others: float = 0.0
    """Programs of others that always have work, for each of the processors that are shared."""

    pool_of: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked: by so many callers who wait for each answer, or so many requests a second at random times."""

    rows: int
    callers: int = 0
    per_second: float = 0.0
    """Requests; where there are no `callers`."""

    seconds: float = 5.0


@dataclass(frozen=True)
class Predicted:
    """What the simulation saw after its warm-up."""

    per_second: float
    """Predictions."""

    p50: float
    p99: float
    busy: dict[str, float]
    """Processors that each part used on average; of `flush` the share of time in which the log was written."""

    call: float
    """Rows in a call of a host, on average."""

    commit: float


class _Gateway:
    """One gateway with what waits in it."""

    def __init__(self, service: "Service", number: int) -> None:
        self.service = service
        self.open = 0
        self.station = service.station("gateway", 1, number)
        self.backend = service.station("postgres", 1)
        self.hosts = [
            at for at in range(service.layout.hosts) if at % service.layout.cells == number % service.layout.cells
        ]
        hosts = len(self.hosts)
        self.calls = Gathering(
            service.clock, self._call, most=BATCH.max_size, in_flight=BATCH.in_flight * hosts, alone=hosts,
            patience_seconds=PATIENCE_SECONDS,
        )  # fmt: skip
        self.commits = Gathering(
            service.clock, self._commit, most=COMMIT_SIZE, in_flight=1, alone=1, patience_seconds=PATIENCE_SECONDS
        )

    def ask(self, rows: int, then: Then) -> None:
        """Read a request, let it be decided and written, and answer it: half of the work before, half after."""
        cost = self.service.costs.parts["gateway"]
        work = (cost.requests + cost.predictions * rows) / 2
        self.open += 1

        def answered() -> None:
            self.open -= 1
            then()

        parts = [min(BATCH.max_size, rows - at) for at in range(0, rows, BATCH.max_size)]
        left = [len(parts)]

        def written() -> None:
            left[0] -= 1
            if not left[0]:
                self.station.do(work, answered)

        def read() -> None:
            for part in parts:
                self.calls.submit(part, written)

        self.station.do(work, read)

    def _call(self, batch: list[tuple[int, Then]], back: Then) -> None:
        rows = sum(size for size, _ in batch)
        work = self.service.costs.parts["gateway"].calls / 2

        def written() -> None:
            for _, then in batch:
                then()

        def finish() -> None:
            self.station.do(work, lambda: self.commits.submit(rows, written))

        def decided() -> None:
            back()
            finish()

        self.station.do(work, lambda: self.service.decide(self.hosts, rows, decided))

    def _commit(self, batch: list[tuple[int, Then]], back: Then) -> None:
        rows = sum(size for size, _ in batch)
        cost = self.service.costs.parts["postgres"]

        def done() -> None:
            back()
            for _, then in batch:
                then()

        self.backend.do(cost.commits + cost.predictions * rows, lambda: self.service.log.flush(done))


class Service:
    """All of it."""

    def __init__(self, layout: Layout, costs: Costs, rng: np.random.Generator) -> None:
        self.layout, self.costs = layout, costs
        self.clock = Clock()
        self._vary = Variation(rng, costs.cv)
        self._pools = {
            name: Processors(self.clock, cores, layout.others * cores) for name, cores in (layout.shared or {}).items()
        }
        self._stations: dict[str, list[Station]] = {}
        self.log = WriteAheadLog(self.clock, costs.flush_seconds, Variation(rng, costs.flush_cv))
        self.hosts = [self.station("host", 1, number) for number in range(layout.hosts)]
        self._open_calls = [0] * layout.hosts

        self.proxies = [self.station("proxy", 1, number) for number in range(layout.proxies)]
        self.gateways = [_Gateway(self, number) for number in range(layout.gateways)]
        self._turn = 0

    def station(self, part: str, servers: int, number: int | None = None) -> Station:
        """Make a station of a part; with a number it has a processor of its own, unless processors are shared."""
        if self.layout.pool_of:
            pool = self._pools[self.layout.pool_of[part]]
        else:
            name, cores = (part, self.layout.postgres_cores) if number is None else (f"{part} {number}", 1.0)
            pool = self._pools.setdefault(name, Processors(self.clock, cores))
        made = Station(pool, servers, self._vary)
        self._stations.setdefault(part, []).append(made)
        return made

    def request(self, rows: int, then: Then) -> None:
        """Ask the gateway with the fewest open requests, by way of a proxy; half of its work before, half after."""
        cost = self.costs.parts["proxy"]
        work = (cost.requests + cost.predictions * rows) / 2
        self._turn += 1
        proxy = self.proxies[self._turn % len(self.proxies)]

        def pass_on() -> None:
            turn = self._turn
            several = self.gateways[turn % len(self.gateways) :] + self.gateways[: turn % len(self.gateways)]
            min(several, key=lambda one: one.open).ask(rows, lambda: proxy.do(work, then))

        proxy.do(work, pass_on)

    def decide(self, hosts: Sequence[int], rows: int, then: Then) -> None:
        """Let that one of these hosts decide which has the fewest open calls."""
        cost = self.costs.parts["host"]
        self._turn += 1
        turn = self._turn % len(hosts)
        number = min((*hosts[turn:], *hosts[:turn]), key=self._open_calls.__getitem__)
        self._open_calls[number] += 1

        def done() -> None:
            self._open_calls[number] -= 1
            then()

        self.hosts[number].do(cost.calls + cost.predictions * rows, done)

    def spent(self) -> dict[str, float]:
        """Processor seconds so far, by part."""
        found = {part: sum(one.spent for one in there) for part, there in self._stations.items()}
        others = sum(pool.spent_by_others for pool in self._pools.values())
        return {**found, "flush": self.log.spent, "others": others}

    def batches(self) -> Any:
        """Calls, their rows, commits, their rows."""
        told = [(g.calls.batches, g.calls.rows, g.commits.batches, g.commits.rows) for g in self.gateways]
        return np.array(told).sum(axis=0)


def simulate(layout: Layout, costs: Costs, load: Load, seed: int = 0) -> Predicted:
    """Let a service work for `load.seconds`, and say what came of it."""
    rng = np.random.default_rng(seed)
    service = Service(layout, costs, rng)
    clock, begin = service.clock, load.seconds * WARM_UP
    latencies: list[float] = []
    note = _noting(clock, latencies, begin)
    if load.callers:
        _closed(service, load, note)
    else:
        _open(service, load, rng, note)
    clock.run(begin)
    spent, batches = service.spent(), service.batches()
    clock.run(load.seconds)
    seconds = load.seconds - begin
    calls, called, commits, committed = service.batches() - batches
    p50, p99 = np.percentile(latencies, [50, 99]) if latencies else (np.inf, np.inf)
    return Predicted(
        per_second=len(latencies) * load.rows / seconds,
        p50=float(p50),
        p99=float(p99),
        busy={part: (after - spent[part]) / seconds for part, after in service.spent().items()},
        call=called / max(calls, 1),
        commit=committed / max(commits, 1),
    )


def _noting(clock: Clock, latencies: list[float], begin: float) -> Callable[[float], None]:
    def note(since: float) -> None:
        if clock.now >= begin:
            latencies.append(clock.now - since)

    return note


def _closed(service: Service, load: Load, note: Callable[[float], None]) -> None:
    caller = service.station("caller", 1, 0)
    cost = service.costs.parts["caller"]
    work = (cost.requests + cost.predictions * load.rows) / 2

    def ask() -> None:
        since = service.clock.now

        def answered() -> None:
            note(since)
            ask()

        caller.do(work, lambda: service.request(load.rows, lambda: caller.do(work, answered)))

    for _ in range(load.callers):
        ask()


def _open(service: Service, load: Load, rng: np.random.Generator, note: Callable[[float], None]) -> None:
    gaps = rng.exponential(1 / load.per_second, int(1.5 * load.per_second * load.seconds) + 100)
    for since in np.cumsum(gaps).tolist():
        if since > load.seconds:
            break
        service.clock.later(
            since,
            lambda since=since: service.request(load.rows, lambda: note(since)),  # type: ignore[misc]
        )

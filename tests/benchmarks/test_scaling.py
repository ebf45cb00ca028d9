"""The model of benchmarks/scaling keeps known laws of queues, and refuses files that it cannot use."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from benchmarks.scaling import measurement, plan
from benchmarks.scaling.__main__ import main
from benchmarks.scaling.comparison import Comparison, naive
from benchmarks.scaling.costs import Cost, Costs, fit, fitted_points
from benchmarks.scaling.measurement import PARTS, BadMeasurement, Growth, KeyCosts, Mark, Measurement, Point
from benchmarks.scaling.report import show_growth, show_signed_errors
from benchmarks.scaling.service import Layout, Load, Predicted, Service, simulate
from benchmarks.scaling.simulation import Clock, Gathering, Processors, Station, Variation, WriteAheadLog

RNG_SEED = 7


def queue(*, load: float, servers: int, cv: float, n: int = 30_000) -> tuple[float, float]:
    """Mean wait and utilisation of a queue with random arrivals and a mean service of one second."""
    rng, clock = np.random.default_rng(RNG_SEED), Clock()
    pool = Processors(clock, servers)
    station = Station(pool, servers, Variation(rng, cv))
    times: list[float] = []
    arrivals = np.cumsum(rng.exponential(1 / (load * servers), n)).tolist()

    def arrive(at: int) -> None:
        since = clock.now
        station.do(1.0, lambda: times.append(clock.now - since))
        if at + 1 < n:
            clock.later(arrivals[at + 1] - clock.now, lambda: arrive(at + 1))

    clock.later(arrivals[0], lambda: arrive(0))
    clock.run(arrivals[-1])
    return float(np.mean(times)) - 1.0, pool.spent / clock.now / servers


@pytest.mark.parametrize(
    ("load", "servers", "cv", "wait"),
    [
        (0.5, 1, 1.0, 1.0),  # M/M/1: rho / (1 - rho)
        (0.8, 1, 1.0, 4.0),
        (0.8, 1, 0.0, 2.0),  # M/D/1: half of it, by Pollaczek and Khinchine
        (0.8, 1, 0.5, 2.5),  # M/G/1: (1 + cv^2) / 2 of it
        (0.8, 2, 1.0, 1.778),  # M/M/2: rho^2 / (1 - rho^2)
    ],
)
def test_the_mean_wait_is_the_known_one(load: float, servers: int, cv: float, wait: float) -> None:
    found, utilisation = queue(load=load, servers=servers, cv=cv)
    assert found == pytest.approx(wait, rel=0.15)
    assert utilisation == pytest.approx(load, rel=0.03)  # the law of utilisation


def test_shared_processors_are_shared_alike() -> None:
    clock, ended = Clock(), []
    pool = Processors(clock, 2)
    for seconds in (1.0, 1.0, 1.0, 2.0):
        pool.run(seconds, lambda: ended.append(clock.now))
    clock.run(100.0)
    assert ended == pytest.approx([2.0, 2.0, 2.0, 3.0])  # half a processor each for two seconds, then one alone
    assert pool.spent == pytest.approx(5.0)


def test_one_flush_serves_all_who_wait() -> None:
    clock, ended = Clock(), []
    log = WriteAheadLog(clock, 1.0, Variation(np.random.default_rng(0), 0.0))
    for at in (0.0, 0.1, 0.9, 1.1):
        clock.later(at, lambda: log.flush(lambda: ended.append(clock.now)))
    clock.run(10.0)
    assert ended == pytest.approx([1.0, 2.0, 2.0, 3.0])


def test_what_waits_leaves_together() -> None:
    clock, sizes = Clock(), []

    def send(batch, back):
        sizes.append(sum(size for size, _ in batch))
        clock.later(1.0, back)

    gathering = Gathering(clock, send, most=4, in_flight=1, alone=1, patience_seconds=0.1)
    for _ in range(6):
        gathering.submit(1, lambda: None)
    clock.run(10.0)
    assert sizes == [1, 4, 1]


def test_a_small_batch_waits_for_a_moment_beside_another() -> None:
    clock, sent = Clock(), []

    def send(batch, back):
        sent.append((clock.now, sum(size for size, _ in batch)))
        clock.later(1.0, back)

    gathering = Gathering(clock, send, most=4, in_flight=2, alone=1, patience_seconds=0.1)
    for rows in (3, 1):
        gathering.submit(rows, lambda: None)
    clock.run(10.0)
    assert sent == [(0.0, 3), (pytest.approx(0.1), 1)]


COSTS = Costs(
    parts={
        "caller": Cost(requests=1e-5),
        "proxy": Cost(requests=2e-5),
        "gateway": Cost(requests=5e-5, predictions=2e-5, calls=5e-4),
        "host": Cost(predictions=4e-5, calls=1e-3),
        "postgres": Cost(predictions=2e-5, commits=3e-4),
    },
    background=0.1,
    cv=0.3,
    flush_seconds=1e-3,
    flush_cv=0.2,
    wal_bytes=1000.0,
)


def test_the_service_obeys_the_law_of_utilisation() -> None:
    found = simulate(Layout(gateways=2, hosts=2), COSTS, Load(rows=1, per_second=500, seconds=10))
    assert found.per_second == pytest.approx(500, rel=0.05)
    for part, names in (("proxy", {}), ("gateway", {"call": found.call}), ("host", {"call": found.call})):
        per_row = COSTS.parts[part].per_row(1, names.get("call", 1), 1)
        assert found.busy[part] == pytest.approx(found.per_second * per_row, rel=0.05)


def test_callers_saturate_the_part_that_has_least_room() -> None:
    slow = COSTS.larger("host", 10)
    found = simulate(Layout(gateways=1, hosts=1), slow, Load(rows=64, callers=8, seconds=10))
    assert found.busy["host"] == pytest.approx(1.0, abs=0.02)
    assert found.per_second == pytest.approx(1 / slow.parts["host"].per_row(64, 64, 64), rel=0.05)
    doubled = simulate(Layout(gateways=1, hosts=2), slow, Load(rows=64, callers=8, seconds=10))
    assert doubled.per_second == pytest.approx(2 * found.per_second, rel=0.1)


def test_beyond_saturation_the_queue_grows() -> None:
    slow = COSTS.larger("host", 10)
    room = 1 / slow.parts["host"].per_row(1, 64, 1)
    one = Layout(gateways=1, hosts=1)
    below, above = (simulate(one, slow, Load(rows=1, per_second=share * room, seconds=4)) for share in (0.5, 1.5))
    assert below.p99 < 0.3 < above.p50
    assert above.per_second < 1.1 * room


def test_a_gateway_calls_the_hosts_of_its_cell_alone() -> None:
    apart = Service(Layout(gateways=2, hosts=4, cells=2), COSTS, np.random.default_rng(0))
    assert [gateway.hosts for gateway in apart.gateways] == [[0, 2], [1, 3]]


def test_smaller_cells_have_larger_batches() -> None:
    load = Load(rows=1, per_second=3000, seconds=1)
    whole, cells = (simulate(Layout(gateways=4, hosts=8, cells=n), COSTS, load) for n in (1, 4))
    assert cells.call > whole.call


def test_a_plan_keeps_its_limits() -> None:
    found = plan.fleet(10_000, 64, COSTS, most_busy=0.6, p99=0.1)
    busiest = max(share for part, share in plan.shares(found).items() if part != "flush")
    assert busiest < 0.65  # and what comes at random
    assert found.found.p99 <= 0.1
    assert found.room * 0.6 >= 10_000
    assert plan.fleet(10_000, 64, COSTS.larger("host", 3), most_busy=0.6, p99=0.1).layout.hosts > found.layout.hosts


def fleet(*, p99: float = 0.05, hosts: float = 0.5, call: float = 64.0) -> plan.Fleet:
    busy = {"proxy": 0.1, "gateway": 0.2, "host": hosts, "postgres": 0.3, "flush": 1.0}
    found = Predicted(per_second=100.0, p50=0.01, p99=p99, busy=busy, call=call, commit=1.0)
    return plan.Fleet(rate=100.0, rows=1, layout=Layout(gateways=1, hosts=1), found=found, first="host", room=200.0)


@pytest.mark.parametrize(
    ("found", "factor", "words"),
    [
        (fleet(), 1.0, []),
        (fleet(), 2.0, []),  # the limit itself is kept
        (fleet(), 2.1, ["p99 is too long if it is 2.1 times this one"]),
        (fleet(p99=0.11), 2.1, ["p99 is too long"]),
        (fleet(hosts=0.99), 1.0, ["hosts are full"]),
        (fleet(hosts=0.99, call=17.4), 1.0, ["hosts never rest, with 17 rows in a call"]),
        (fleet(p99=0.11, hosts=0.99), 1.0, ["p99 is too long", "hosts are full"]),
    ],
)
def test_what_a_plan_misses_is_said(found: plan.Fleet, factor: float, words: list[str]) -> None:
    assert plan.misses(found, p99=0.1, factor=factor) == words


def test_a_plan_that_cannot_keep_its_p99_says_so() -> None:
    slow = replace(COSTS, flush_seconds=0.2)  # more gateways and hosts do not help
    found = plan.fleet(100, 1, slow, most_busy=0.6, p99=0.1)
    assert (found.layout.gateways, found.layout.hosts) == (1, 1)
    assert plan.misses(found, p99=0.1) == ["p99 is too long"]


def point(costs: Costs = COSTS, **told) -> Point:
    found = {"rows": 1, "callers": 1, "requests": 1000, "calls": 1000, "commits": 1000, **told}
    work = {
        "requests": found["requests"],
        "predictions": found["requests"] * found["rows"],
        "calls": found["calls"],
        "commits": found["commits"],
    }
    spent = {part: sum(getattr(cost, name) * done for name, done in work.items()) for part, cost in costs.parts.items()}
    common = {
        "layout": "one node", "apart": "", "gateways": 1, "hosts": 1, "seconds": 10.0, "p50": 0.01, "p99": 0.02,
        "cv": 0.2, "others": 0.0, "wal_bytes": 1000.0 * work["predictions"], "spent": {**spent, "ray": 1.0},
    }  # fmt: skip
    return Point(**{**common, **found})


POINTS = [
    point(),
    point(callers=16, requests=4000, calls=800, commits=700),
    point(callers=64, requests=8000, calls=300, commits=200),
    point(rows=16, callers=4, requests=2000, calls=900, commits=800),
    point(rows=64, requests=900, calls=900, commits=900),
]


def test_costs_are_found_again() -> None:
    found = fit(POINTS, flush_seconds=1e-3, flush_cv=0.2)
    for part, cost in COSTS.parts.items():
        assert asdict(found.parts[part]) == pytest.approx(asdict(cost), rel=1e-6, abs=1e-12)
    assert found.background == pytest.approx(0.1)
    assert found.wal_bytes == pytest.approx(1000)


def test_larger_services_are_not_fitted() -> None:
    more = [replace(POINTS[0], gateways=2), replace(POINTS[0], layout="three nodes", hosts=2)]
    assert fitted_points([*POINTS, *more], "one node") == POINTS
    assert fitted_points([*POINTS, *more], "three nodes") == more[1:]
    assert fitted_points([replace(POINTS[0], others=9.0), POINTS[1]], "one node", 0.5) == POINTS[1:2]
    with pytest.raises(BadMeasurement, match="nothing was measured on four nodes; there is: one node, three nodes"):
        fitted_points([*POINTS, *more], "four nodes")


def test_a_guess_without_a_model_goes_by_the_processors_that_others_left() -> None:
    small = point(callers=16, requests=4000, others=5.0)  # others left 1.5 of 2 processors
    large = point(callers=16, requests=4000, others=10.0, gateways=2)
    assert naive(large, [small, large], 2) == pytest.approx(400 / 1.5)
    assert naive(small, [small, large], 2) is None
    assert naive(point(callers=64, gateways=2), [small, large], 2) is None  # the small one was not asked that
    apart = replace(small, apart="host", requests=2000)
    assert naive(replace(large, apart="host"), [small, apart, large], 2) == pytest.approx(200 / 1.5)


def test_errors_are_shown_with_their_sign(capsys) -> None:
    told = Predicted(per_second=150.0, p50=0.01, p99=0.02, busy={}, call=1.0, commit=1.0)
    one = Comparison(point(p99=0.02), told, None, fitted=False)  # 100 a second were measured
    two = Comparison(point(p99=0.06, gateways=2), replace(told, per_second=80.0), 120.0, fitted=False)
    more = Comparison(point(p99=0.08, gateways=2), told, 140.0, fitted=False)
    assert show_signed_errors([one, two, more]) == pytest.approx(3.0)
    shown = capsys.readouterr().out
    for line in (
        "| one node: 1, 1 | 1 | 1 | +50% |  |",
        "| one node: 2, 1 | 2 | 1 | +15% | +30% |",
        "| all with 2 gateways | 2 | 1 | +15% | +30% |",
        "A measured p99 is 3.0 times the predicted one (median); it is longer in 2 of 3 points.",
    ):
        assert line in shown
    assert show_signed_errors([]) == 1.0


@pytest.mark.parametrize(
    ("points", "why"),
    [
        (POINTS[:2], "2 points are too few"),
        ([*POINTS[1:], POINTS[1]], None),
        ([replace(one, callers=2) for one in POINTS], "no point has one caller alone"),
        ([*POINTS, replace(POINTS[0], spent=dict.fromkeys(PARTS, 0.0))], "no processor time of: caller"),
    ],
)
def test_too_little_to_fit(points: list[Point], why: str | None) -> None:
    if why is None:
        fit(points, flush_seconds=1e-3, flush_cv=0.2)
        return
    with pytest.raises(BadMeasurement, match=why):
        fit(points, flush_seconds=1e-3, flush_cv=0.2)


def test_a_file_comes_back(tmp_path) -> None:
    found = Measurement(cores=2, flush_seconds=1e-3, flush_cv=0.2, points=POINTS)
    measurement.write(found, tmp_path / "a.json")
    assert measurement.read(tmp_path / "a.json") == found


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (None, r"No such file or directory; write it with `python -m benchmarks\.scaling measure --json"),
        ("{", "is no JSON"),
        ("[]", "is not of the format demur-scaling-1"),
        ({"format": "another"}, "is not of the format demur-scaling-1"),
        ({"points": []}, "has no points"),
        ({"points": [{"rows": 1}]}, "TypeError"),
        ({"cores": "two"}, "ValueError"),
        ({"spent": {}}, "lacks the processor time of: caller, proxy"),
        ({"requests": 0}, "has no requests"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, change, why: str) -> None:
    path = tmp_path / "a.json"
    if isinstance(change, dict):
        measurement.write(Measurement(cores=2, flush_seconds=1e-3, flush_cv=0.2, points=POINTS), path)
        told = json.loads(path.read_text())
        of_point = {name: value for name, value in change.items() if name in ("spent", "requests")}
        told["points"][0] |= of_point
        path.write_text(json.dumps(told | {name: change[name] for name in change if name not in of_point}))
    elif change is not None:
        path.write_text(change)
    with pytest.raises(BadMeasurement, match=why):
        measurement.read(path)


GROWTH = Growth(
    shared_buffers="128MB",
    marks=[
        Mark(
            records=1000, insert=10.0, seconds=1e-5, wal=1000.0, random_insert=12.0, random_wal=1500.0, look_up=90.0,
            tables={"records": 600_000, "payloads": 400_000}, indexes={"records_pkey": 40_000},
        )
    ],
    delete=5.0, delete_wal=200.0, segment=5.0, segment_bytes=90.0, disk=1e8,
    keys=KeyCosts(keys=1000, insert=13.0, wal=424.0, table=126.0, primary_key=88.0, by_record=32.0),
)  # fmt: skip


def test_the_tables_are_shown(tmp_path, monkeypatch, capsys) -> None:
    files = tmp_path / "points.json", tmp_path / "growth.json"
    points = [*POINTS, replace(POINTS[2], gateways=2)]
    measurement.write(Measurement(cores=2, flush_seconds=1e-3, flush_cv=0.2, points=points), files[0])
    measurement.write(GROWTH, files[1])
    assert measurement.read_growth(files[1]) == GROWTH
    words = ["scaling", "model", "--json", str(files[0]), "--growth", str(files[1]), "--rates", "50"]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(plan, "SECONDS", (0.5, 2.0))
    main()
    shown = capsys.readouterr().out
    for line in (
        "| 50 | 1 | 1 | 1 | 1 |", "Measured / predicted", "| indexes | 40 GB |", "predictions a second, 1 in",
        "| all with 2 gateways | 1 |", "A measured p99 is ", "| misses |", "as many `Idempotency-Key`s", "| 0.25 TB |",
        "| as above, all processes of a PostgreSQL under a service, 64 rows in a commit | 194,430 |",
    ):  # fmt: skip
        assert line in shown


def test_a_file_of_growth_without_keys_is_read(tmp_path, capsys) -> None:
    path = tmp_path / "growth.json"
    measurement.write(replace(GROWTH, keys=None), path)
    told = json.loads(path.read_text())
    del told["keys"]  # as it was written before keys were measured
    path.write_text(json.dumps(told))
    grown = measurement.read_growth(path)
    assert grown == replace(GROWTH, keys=None)
    show_growth(grown)
    assert "Idempotency-Key" not in capsys.readouterr().out


def test_a_missing_file_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["scaling", "model", "--json", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit, match=r"none\.json: No such file or directory; write it with"):
        main()
    with pytest.raises(BadMeasurement, match=r"write it with `python -m benchmarks\.scaling growth"):
        measurement.read_growth(tmp_path / "none.json")


def test_others_get_as_much_as_ours() -> None:
    clock, ended = Clock(), []
    pool = Processors(clock, 2, others=3)
    pool.run(1.0, lambda: ended.append(clock.now))
    clock.run(4.0)
    pool.run(0.0, lambda: None)
    clock.run(4.0)
    assert ended == pytest.approx([2.0])  # two processors among four
    assert pool.spent_by_others == pytest.approx(3.0 + 4.0)  # half a processor each, then all

"""What `measure` found, as a file: points, each with its load, its latencies, and the processor time of each part."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PARTS = ("caller", "proxy", "gateway", "host", "postgres", "ray")
"""Who spends processor time: the caller of the benchmark, HAProxy with Serve's proxies, gateways, hosts, PostgreSQL,
and the rest of Ray."""


class BadMeasurement(ValueError):
    """A file of measurements cannot be used. The message says which and why; measure again."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One load on one service."""

    layout: str
    """`one node` (gateways call hosts over sockets) or `three nodes` (by Ray's handles)."""

    apart: str
    """What had processor 0 for itself, all else sharing the others; empty where all shared all."""

    gateways: int
    hosts: int
    rows: int
    """Predictions in a request."""

    callers: int
    seconds: float
    requests: int
    calls: int
    """Batches that hosts decided."""

    commits: int
    wal_bytes: float
    p50: float
    """Seconds, as `p99`."""

    p99: float
    cv: float
    """Standard deviation of the latencies, divided by their mean."""

    spent: dict[str, float]
    """Seconds of processor time by part."""

    others: float
    """Seconds of processor time of everything else on the machine."""

    @property
    def predictions(self) -> int:
        return self.requests * self.rows

    @property
    def per_second(self) -> float:
        return self.predictions / self.seconds

    @property
    def service(self) -> tuple[str, int, int]:
        return self.layout, self.gateways, self.hosts


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Points, and what was found beside them."""

    cores: float
    flush_seconds: float
    """Median time of a write of 8 kB that the disk acknowledges."""

    flush_cv: float
    points: list[Point] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What writing cost at one size of the log; times are microseconds of processor time of PostgreSQL."""

    records: int
    insert: float
    """For a row, 64 of them in a commit, with ids that grow with time."""

    seconds: float
    """On the clock, for such a row."""

    wal: float
    """Bytes of the write-ahead log for a row."""

    random_insert: float
    random_wal: float
    """With ids that are random."""

    look_up: float
    """A record by its id, anywhere in the log."""

    tables: dict[str, int]
    indexes: dict[str, int]
    """Bytes of each table, its large values included, and of each index."""

    @property
    def bytes_per_record(self) -> float:
        return (sum(self.tables.values()) + sum(self.indexes.values())) / self.records


@dataclass(frozen=True, kw_only=True)
class KeyCosts:
    """What an `Idempotency-Key` costs beside its record, where keys are random."""

    keys: int
    insert: float
    """Microseconds of processor time of PostgreSQL, 64 keys in a commit."""

    wal: float
    """Bytes of the write-ahead log, as the three below."""

    table: float
    primary_key: float
    """The index that starts with the caller's text."""

    by_record: float

    @property
    def bytes_per_key(self) -> float:
        return self.table + self.primary_key + self.by_record


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What `growth` found."""

    shared_buffers: str
    marks: list[Mark]
    delete: float
    """Microseconds of PostgreSQL for a deleted record with its input, the vacuum of both tables included."""

    delete_wal: float
    segment: float
    """Microseconds of the writing process for a row of a Parquet segment."""

    segment_bytes: float
    disk: float
    """Bytes a second, in writes of 8 MB that the disk acknowledges."""

    keys: KeyCosts | None = None
    """Files of earlier versions have none."""


def write(found: Measurement | Growth, path: Path) -> None:
    """Write a file that `read` or `read_growth` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": FORMAT[type(found)], **asdict(found)}, indent=1) + "\n")


def read(path: Path) -> Measurement:
    """Return what a file of `measure` says; raises `BadMeasurement`."""
    told = _content(path, FORMAT[Measurement], "measure")
    try:
        points = [_point(one) for one in told.pop("points")]
        found = Measurement(**{name: float(value) for name, value in told.items()}, points=points)
    except (KeyError, TypeError, ValueError) as error:
        raise BadMeasurement(f"{path}: {type(error).__name__}: {error}") from None
    if not points:
        raise BadMeasurement(f"{path} has no points")
    return found


def read_growth(path: Path) -> Growth:
    """Return what a file of `growth` says; raises `BadMeasurement`."""
    told = _content(path, FORMAT[Growth], "growth")
    try:
        keys = KeyCosts(**told["keys"]) if told.get("keys") else None
        found = Growth(**{**told, "marks": [Mark(**one) for one in told["marks"]], "keys": keys})
    except (KeyError, TypeError) as error:
        raise BadMeasurement(f"{path}: {type(error).__name__}: {error}") from None
    if not found.marks:
        raise BadMeasurement(f"{path} has no sizes")
    return found


def _content(path: Path, form: str, command: str) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except OSError as error:
        raise BadMeasurement(
            f"{path}: {error.strerror}; write it with `python -m benchmarks.scaling {command} --json {path}`"
        ) from None
    except ValueError as error:
        raise BadMeasurement(f"{path} is no JSON: {error}") from None
    if not isinstance(told, dict) or told.pop("format", None) != form:
        raise BadMeasurement(f"{path} is not of the format {form}, which `{command}` writes")
    return told


def _point(told: Any) -> Point:
    point = Point(**told)
    if missing := [part for part in PARTS if part not in point.spent]:
        raise ValueError(f"a point lacks the processor time of: {', '.join(missing)}")
    if min(point.seconds, point.requests, point.calls, point.commits, point.rows, point.p50) <= 0:
        raise ValueError("a point has no requests, calls, commits, or no time")
    return point


FORMAT: dict[type, str] = {Measurement: "demur-scaling-1", Growth: "demur-growth-1"}
"""What each file says of itself."""

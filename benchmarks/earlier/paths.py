"""Whatever the speed of predictions must not cost: cases, outcomes, pages, audits and exports, measured in one tree.

Run by `python -m benchmarks.earlier`, in the tree that is measured, so it uses only what an earlier tree has as well.
Prints one line of JSON for each path: its name, and milliseconds on the wall and of processors for one of its items.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psutil
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from benchmarks import audit_size
from demur.review import queue, settling
from demur.review.item import NewCase, ReviewVerdict
from demur.serve.contract.commit import Writing
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.gateway import journal
from demur.serve.web.review.app import console_app
from demur.traffic import log, outcome_log
from demur.traffic.database import Database
from demur.traffic.record import Entry, Record
from tests.review.simulation import LABELS, MODEL, configured, held_cases, truth

WAITING = 10_000
GROUP = 16
"""Predictions that are written together."""

VISITS = 20
TIMES = 9
"""Turns of each path, of which the median counts; the first one more does not."""


class Watch:
    """The processor time of this process and of a PostgreSQL, and what paths took.

    It is like `benchmarks.processor_time`, which an earlier tree may not have.
    """

    def __init__(self, server: Path) -> None:
        self._server = server

    def processors(self) -> float:
        """Return seconds, of the server's processes that live: to the nanosecond where the kernel tells them."""
        pid = int((self._server / "postgres" / "postmaster.pid").read_text().split()[0])
        return time.process_time() + sum(self._spent(child) for child in psutil.Process(pid).children())

    def _spent(self, process: psutil.Process) -> float:
        try:
            return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                return times.user + times.system
            return 0.0

    def take(self, name: str, work: Callable[[], object], items: int, *, times: int = TIMES) -> None:
        """Do some work several times, and print the median of what each of its items took."""
        wall, spent = [], []
        for _ in range(times + 1):
            began, before = time.perf_counter(), self.processors()
            work()
            wall.append((time.perf_counter() - began) * 1000 / items)
            spent.append((self.processors() - before) * 1000 / items)
        tell(name, statistics.median(wall[1:]), statistics.median(spent[1:]))


def tell(name: str, wall: float, processors: float) -> None:
    print(json.dumps({"path": name, "wall": wall, "processors": processors}), flush=True)


@contextmanager
def waiting() -> Iterator[tuple[Database, Watch, list[UUID]]]:
    """A database with many open cases."""
    with (
        tempfile.TemporaryDirectory(prefix="demur-bench-") as folder,
        EmbeddedPostgres(Path(folder)) as server,
    ):
        database = open_database(server.dsn)
        ids = held_cases(database, WAITING)
        with database.transaction() as connection:
            connection.execute("analyze")
        yield database, Watch(Path(folder)), ids
        database.close()


def held() -> Writing:
    """A prediction that a person is asked about."""
    record = Record(
        id=uuid7(), created_at=datetime.now(UTC), model=MODEL, artifact="animals-1", group=None, prediction=LABELS[0],
        top_labels=list(LABELS[:2]), top_probabilities=[0.5, 0.3], prediction_set=list(LABELS[:2]),
        scores={"improbability": 0.5}, confidence=0.5, action="review", reason="confidence is below the limit",
        label_probability=1.0, timings={},
    )  # fmt: skip
    case = NewCase(record_id=record.id, model=MODEL, created_at=record.created_at, confidence=record.confidence)
    return Writing(Entry(record=record, input="a small animal with fur"), case)


def cases() -> None:
    with waiting() as (database, watch, _):
        groups = iter([[held() for _ in range(GROUP)] for _ in range(50 * (TIMES + 1))])

        def write() -> None:
            for group in itertools.islice(groups, 50):
                journal.commit(database, group)

        watch.take(f"a held prediction and its case, {GROUP} at a time", write, 50 * GROUP)
        numbers = itertools.count()

        def finish() -> None:
            for _ in range(50):
                name = f"reviewer {next(numbers)}"
                with database.transaction() as connection:
                    claim = queue.claim_next(connection, name, lease_seconds=600)
                assert claim is not None
                verdict = ReviewVerdict(label=truth(claim.case_id), saw_prediction=True)
                with database.transaction() as connection:
                    queue.answer(connection, claim.case_id, name, token=claim.token, verdict=verdict, undo_seconds=0)
                    settling.settle(connection, settling.Settlement(), claim.case_id)

        watch.take("a case taken, answered and settled", finish, 50)


def outcomes() -> None:
    with waiting() as (database, watch, ids):
        one_by_one, together = iter(ids[: WAITING // 2]), iter(ids[WAITING // 2 :])

        def singly() -> None:
            for record_id in itertools.islice(one_by_one, 100):
                with database.transaction() as connection:
                    log.add_outcome(connection, record_id, label=LABELS[0], source="api", author=None)

        def many() -> None:
            told = [
                outcome_log.NewOutcome(record_id=record_id, label=LABELS[0], source="api", author=None)
                for record_id in itertools.islice(together, 500)
            ]
            with database.transaction() as connection:
                outcome_log.models_of(connection, [one.record_id for one in told])
                outcome_log.append(connection, told)

        watch.take("an outcome by itself", singly, 100)
        watch.take("an outcome, 500 at a time", many, 500)


def pages() -> None:
    with waiting() as (database, watch, ids):
        app = console_app(configured(lease_seconds=600, undo_seconds=5), database)
        visitor = TestClient(app, root_path="/review", headers={"X-Demur-Reviewer": "ada"})
        for name, path in (
            (f"page: list of {WAITING:,} cases", "/"),
            ("page: a case", f"/cases/{ids[7]}"),
            ("page: overview", "/overview"),
            ("API: list of cases", "/v1/cases"),
        ):

            def visit(path: str = path) -> None:
                for _ in range(VISITS):
                    visitor.get(path).raise_for_status()

            watch.take(name, visit, VISITS)


def audits() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="demur-bench-") as folder,
        audit_size.filled(Path(folder), 1_000_000, all_known=False) as dsn,
    ):
        export = f"{folder}/export"
        for name, what, arguments in (
            ("audit of 1,000,000 records, from PostgreSQL", audit_size.of_the_database, (dsn,)),
            ("export of 1,000,000 records", audit_size.exporting, (dsn, export)),
            ("audit of that export", audit_size.of_the_export, (export,)),
        ):
            before = audit_size.server_seconds(Path(folder))
            done = audit_size.alone(what, *arguments)
            servers = audit_size.server_seconds(Path(folder)) - before
            tell(name, sum(done.seconds.values()) * 1000, (done.cpu_seconds + servers) * 1000)


def parquet() -> None:
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder:
        audit_size.write_export(folder, audit_size.made(10_000_000))
        done = audit_size.alone(audit_size.of_the_export, folder)
        tell("audit of 10,000,000 records, from Parquet", sum(done.seconds.values()) * 1000, done.cpu_seconds * 1000)


PARTS = {one.__name__: one for one in (cases, outcomes, pages, audits, parquet)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    for part in parser.parse_args().parts:
        PARTS[part]()

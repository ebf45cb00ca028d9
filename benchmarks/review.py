"""How fast cases are taken and finished, by how many people at once, and whether all goes well: `make bench-review`.

Everything is real: a console under uvicorn in a process of its own, its PostgreSQL, and people who speak HTTP. Beside
it the same pattern, take one and finish it, on the queue's functions alone and on procrastinate, on the same server.
"""

import argparse
import asyncio
import logging
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from psycopg import connect, sql
from rich.console import Console
from rich.table import Table

from demur.review import cases, queue, settling
from demur.review.cases import Filter
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict, Status
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic.database import Database
from tests.review.simulation import Habits, broken_promises, configured, held_cases, review_all, served, truth

CONNECTIONS = 8
"""To PostgreSQL, for each of the contestants, as a console has them."""

LEASE_SECONDS = 2.0
UNDO_SECONDS = 0.5

out = Console()


def serve(dsn: str, lease_seconds: float, undo_seconds: float, tell: Any) -> None:
    """A console, until this process is ended."""
    from demur.serve.web.review.app import console_app
    from demur.serve.web.review.service import ReviewService

    database = open_database(dsn)
    config = configured(lease_seconds=lease_seconds, undo_seconds=undo_seconds)
    with served(
        console_app(config, database), sweep=ReviewService(config, database).sweep, every_seconds=0.25
    ) as address:
        tell.send(address)
        time.sleep(3600)


@contextmanager
def console(dsn: str, *, lease_seconds: float, undo_seconds: float) -> Iterator[str]:
    """The address of a console in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(dsn, lease_seconds, undo_seconds, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


@contextmanager
def schema(dsn: str, name: str) -> Iterator[str]:
    """The address of an empty schema."""
    with connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        yield f"{dsn}&options=-csearch_path%3D{name}"
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@contextmanager
def filled(dsn: str, name: str, n: int, *, several: float = 0.0) -> Iterator[tuple[str, Database]]:
    """A database of its own with so many waiting cases."""
    with schema(dsn, name) as address:
        database = open_database(address)
        held_cases(database, n, several=several)
        with database.transaction() as connection:
            connection.execute("analyze")
        yield address, database
        database.close()


def unruly(dsn: str, people: int, n: int) -> None:
    """People who vanish, dawdle, repeat and regret; then every promise is checked."""
    with filled(dsn, "unruly", n, several=0.2) as (address, database):
        with console(address, lease_seconds=LEASE_SECONDS, undo_seconds=UNDO_SECONDS) as url:
            began = time.perf_counter()
            told = asyncio.run(review_all(url, reviewers=people, habits=Habits(), lease_seconds=LEASE_SECONDS))
            seconds = time.perf_counter() - began
        with database.transaction() as connection:
            broken = broken_promises(connection, told)
            counts = connection.execute(
                "select count(*) filter (where to_status = 'claimed'), count(*) filter (where to_status = 'answered'),"
                " count(*) filter (where to_status = 'resolved'), count(*) from review_events"
            ).fetchone()
            lapsed = connection.execute(
                "select count(*) from review_events where detail ->> 'why' = 'the lease ran out'"
            ).fetchone()
            ways = connection.execute("select resolution, count(*) from review_items group by 1 order by 2 desc")
            resolutions = ", ".join(f"{count:,} {way}" for way, count in ways)
    assert counts is not None
    assert lapsed is not None
    out.print(f"[bold]{people} unruly reviewers, {n:,} cases over HTTP[/]: {seconds:.1f} s")
    out.print(f"  events: {counts[3]:,}; claims {counts[0]:,}, answers {counts[1]:,}, resolved {counts[2]:,}")
    out.print(f"  resolutions: {resolutions}; leases that ran out: {lapsed[0]:,}")
    out.print(f"  what they did: {', '.join(f'{kind} {times:,}' for kind, times in sorted(told.happened.items()))}")
    out.print(f"  answers that came too late, and were kept: {len(told.lost):,}")
    out.print(f"  claims per second: {counts[0] / seconds:.0f}")
    out.print(f"  broken promises: {len(broken)}")
    for problem in broken[:20]:
        out.print(f"    {problem}")
    if broken:
        raise SystemExit(1)


async def orderly(url: str, people: int) -> int:
    """Take, answer, and so on until nothing is left; return how many."""
    connector = aiohttp.TCPConnector(limit=people)
    async with aiohttp.ClientSession(url, connector=connector) as http:

        async def work(name: str) -> int:
            done = 0
            headers = {"X-Demur-Reviewer": name}
            while True:
                async with http.post("/v1/cases/next", headers=headers) as reply:
                    if reply.status == 204:
                        return done
                    reply.raise_for_status()
                    claim = await reply.json()
                body = {"token": claim["token"], "label": "cat"}
                async with http.post(f"/v1/cases/{claim['case_id']}/answer", json=body, headers=headers) as reply:
                    reply.raise_for_status()
                    await reply.read()
                done += 1

        return sum(await asyncio.gather(*(work(f"reviewer {i}") for i in range(people))))


def over_http(dsn: str, people: int, n: int) -> float:
    with filled(dsn, "http", n) as (address, _), console(address, lease_seconds=600, undo_seconds=0) as url:
        began = time.perf_counter()
        assert asyncio.run(orderly(url, people)) == n
        return time.perf_counter() - began


def functions_alone(dsn: str, people: int, n: int) -> float:
    """`claim_next`, then `answer` and `settle`: two transactions for each case."""
    rules = settling.Settlement()

    with filled(dsn, "functions", n) as (address, _):
        database = Database(address, max_connections=CONNECTIONS, patience_seconds=60)

        def work(number: int) -> int:
            done, name = 0, f"reviewer {number}"
            while True:
                with database.transaction() as connection:
                    claim = queue.claim_next(connection, name, lease_seconds=600)
                if claim is None:
                    return done
                verdict = ReviewVerdict(label=truth(claim.case_id), saw_prediction=True)
                with database.transaction() as connection:
                    queue.answer(connection, claim.case_id, name, token=claim.token, verdict=verdict, undo_seconds=0)
                    settling.settle(connection, rules, claim.case_id)
                done += 1

        with ThreadPoolExecutor(people) as pool:
            began = time.perf_counter()
            assert sum(pool.map(work, range(people))) == n
            seconds = time.perf_counter() - began
        database.close()
        return seconds


def on_procrastinate(dsn: str, people: int, n: int) -> float | None:
    """Fetch a job, finish it: two statements for each. None where the package is not installed."""
    try:
        from procrastinate import App, PsycopgConnector
        from procrastinate.jobs import Status as JobStatus
    except ImportError:
        return None

    logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it would have its tasks in a module of their own

    async def contest(address: str) -> float:
        app = App(connector=PsycopgConnector(conninfo=address, min_size=1, max_size=CONNECTIONS, timeout=60))

        @app.task(name="case")  # type: ignore[untyped-decorator]
        async def case(id: int) -> None:
            pass

        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            await case.batch_defer_async(*({"id": i} for i in range(n)))
            await app.connector.execute_query_async("analyze")
            jobs = app.job_manager

            async def work() -> int:
                worker, done = await jobs.register_worker(), 0
                while (job := await jobs.fetch_job(None, worker)) is not None:
                    await jobs.finish_job(job, JobStatus.SUCCEEDED, delete_job=False)
                    done += 1
                return done

            began = time.perf_counter()
            assert sum(await asyncio.gather(*(work() for _ in range(people)))) == n
            return time.perf_counter() - began

    with schema(dsn, "procrastinate") as address:
        return asyncio.run(contest(address))


def at_size(dsn: str, n: int) -> None:
    """How long single steps take when very many cases wait."""
    table = Table(title=f"{n:,} cases waiting", title_justify="left")
    for column in ("step", "median ms", "95% ms"):
        table.add_column(column, justify="left" if column == "step" else "right")

    with filled(dsn, "large", n) as (_, database):
        held_cases(database, max(1, n // 1000), model="rare")
        with database.transaction() as connection:
            connection.execute("analyze")

        def timed(name: str, times: int, step: Callable[[Any, int], object]) -> None:
            took = []
            for i in range(times + 1):
                with database.transaction() as connection:
                    began = time.perf_counter()
                    step(connection, i)
                    took.append(1000 * (time.perf_counter() - began))
            took = sorted(took[1:])  # the first one plans
            table.add_row(name, f"{statistics.median(took):.2f}", f"{took[int(0.95 * (len(took) - 1))]:.2f}")

        def listed(
            which: Filter, *, offset: int = 0, scope: ReviewerScope = EVERYTHING
        ) -> Callable[[Any, int], object]:
            return lambda connection, _: cases.listed(connection, which, scope=scope, limit=51, offset=offset)

        waiting, rare = Filter(statuses=(Status.WAITING,)), ReviewerScope(models=("rare",))
        timed("claim_next", 200, lambda c, i: queue.claim_next(c, f"r{i}", lease_seconds=600))
        timed("claim_next, one model in a thousand", 50, lambda c, i: queue.claim_next(
            c, f"s{i}", lease_seconds=600, scope=rare
        ))  # fmt: skip
        timed("backlog", 20, lambda c, _: cases.backlog(c))
        timed("first page of 50, waiting", 50, listed(waiting))
        timed("page 100, waiting", 20, listed(waiting, offset=5000))
        timed("first page, all that is open", 20, listed(Filter(statuses=OPEN)))
        timed("first page of a rare model", 20, listed(Filter(statuses=(Status.WAITING,), model="rare")))
        timed("first page, overdue", 20, listed(Filter(statuses=OPEN, overdue=True)))
        timed("sweep, nothing due", 20, lambda c, _: settling.sweep(c, settling.Settlement()))
    out.print(table)


OPEN = (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=100_000, help="for the last table; 0 leaves it out")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="demur-bench-") as folder,
        EmbeddedPostgres(Path(folder)) as server,
    ):
        unruly(server.dsn, options.people, options.cases)
        table = Table(title=f"take and finish, {options.people} at once", title_justify="left")
        for column in ("", "cases per second", "seconds"):
            table.add_column(column, justify="left" if column == "" else "right")
        for name, contest in (
            ("review API over HTTP, one console", over_http),
            ("the queue's functions, without HTTP", functions_alone),
            ("procrastinate, fetch_job and finish_job", on_procrastinate),
        ):
            seconds = contest(server.dsn, options.people, options.cases)
            if seconds is None:
                table.add_row(name, "not installed", "")
            else:
                table.add_row(name, f"{options.cases / seconds:.0f}", f"{seconds:.1f}")
        out.print(table)
        if options.waiting:
            at_size(server.dsn, options.waiting)


if __name__ == "__main__":
    main()

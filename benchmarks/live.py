"""What the live view and the counts of the front page cost a service that answers 1,000 predictions a second.

    python -m benchmarks.live [--minutes 10] [--looks 50]

The log of the last minutes is made, in a real PostgreSQL. What a look costs is the processor time of this process and
of the server, both together. The page looks every two seconds, however many people watch; counts are taken every 15.
"""

import argparse
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from demur.review.load import open_cases
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.web.front.live import COUNTED, MOST, WINDOW, summary
from demur.traffic.database import Database
from demur.traffic.decision_counts import DecisionCounter
from demur.traffic.latest import latest_decisions

PER_SECOND = 1_000
LOOK_SECONDS, COUNT_SECONDS = 2.0, 15.0

MAKE = """
insert into records (id, created_at, model, artifact, prediction, top_labels, top_probabilities, prediction_set, scores,
                     confidence, action, reason, label_probability, timings)
select gen_random_uuid(), now() - make_interval(secs => n::float8 / %(rate)s), 'digits', 'digits-1', '"3"', '{3}',
       '{0.9}', '{3}', '{"entropy": 0.2}', 0.5 + random() / 2,
       case when random() < 0.15 then 'review' else 'answer' end, 'confidence 0.95 is at or above 0.90', 0.02,
       '{"queued": 1.0, "model": 8.0}'
  from generate_series(1, %(n)s) n
"""


def processor_seconds(server: psutil.Process) -> float:
    """Processor time so far of this process, and of the server with all that it has started."""
    spent = 0.0
    for process in (psutil.Process(), server, *server.children(recursive=True)):
        times = process.cpu_times()
        spent += times.user + times.system
    return spent


def cost(work: Callable[[], object], times: int, server: psutil.Process) -> float:
    """Processor seconds of one time."""
    work()
    before = processor_seconds(server)
    for _ in range(times):
        work()
    return (processor_seconds(server) - before) / times


def look(database: Database) -> None:
    now = datetime.now(UTC)
    with database.transaction() as connection:
        summary(latest_decisions(connection, "digits", since=now - WINDOW, most=MOST), now, 0.9)
        open_cases(connection, at_most=COUNTED)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--minutes", type=int, default=10, help="length of the log that is made")
    asked.add_argument("--looks", type=int, default=50)
    told = asked.parse_args()
    out = Console()
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder)) as server:
        database = open_database(server.dsn)
        n = told.minutes * 60 * PER_SECOND
        with out.status(f"making {n:,} records"), database.transaction() as connection:
            connection.execute(MAKE, {"rate": PER_SECOND, "n": n})
            connection.execute("analyze records")  # as PostgreSQL does by itself in time
        with database.transaction() as connection:
            pid = connection.info.backend_pid
        process = psutil.Process(pid).parent()
        assert process is not None
        counter = DecisionCounter(database, ["digits"])
        table = Table("work", "processor time, ms", "how often", "share of one processor", title=f"{n:,} records")
        for words, work, seconds, times in (
            ("a look of the live view, one model", lambda: look(database), LOOK_SECONDS, told.looks),
            ("counting for the front page, one model", counter.count, COUNT_SECONDS, max(2, told.looks // 5)),
        ):
            spent = cost(work, times, process)
            table.add_row(words, f"{1000 * spent:.1f}", f"every {seconds:g} s", f"{spent / seconds:.2%}")
        out.print(table)
        database.close()


if __name__ == "__main__":
    main()

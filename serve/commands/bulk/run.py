"""A run over all rows of a file: what it asks, what it writes, and where a second one goes on."""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from demur.client.errors import DemurError, InvalidRequest, NotAllowed, NotFound, ServiceFailed
from demur.client.items import NewOutcome
from demur.client.results import Outcome, Prediction
from demur.client.sync_client import Client
from demur.serve.commands.bulk.columns import Columns, word_of
from demur.serve.commands.bulk.result_file import BulkCounts, write_results
from demur.serve.commands.bulk.result_log import ENDING, ResultLog
from demur.traffic.row_file import RowFile
from demur.traffic.table_file import BadDataFile, Row, ending_of, no_column

ABOUT_A_ROW = (InvalidRequest, ServiceFailed)
"""What is wrong with one row. Anything else is wrong with all of them, and ends the run."""

AT_ONCE = 64
"""Results that are written together."""

OUTCOMES_AT_ONCE = 256
"""Outcomes of a batch. It never changes: the same file makes the same batches, and is so told once."""

PREDICTED = ("row", "id", "action", "prediction", "confidence", "reason", "error")
TOLD = ("row", "label", "source", "error")

T = TypeVar("T")

Advance = Callable[[int], object]
Result = dict[str, Any]


class RunStopped(RuntimeError):
    """Nobody could answer any more. What was answered is kept, and the same command goes on from there."""


class FileExists(ValueError):
    """The file of results is there already. Name another one, or remove it."""


@dataclass(frozen=True, kw_only=True)
class OutcomeColumns:
    """What the columns of a file of outcomes are called, and what holds where a row does not say it."""

    id: str = "id"
    label: str = "label"
    source: str = "api"
    author: str | None = None

    def named(self) -> dict[str, str | None]:
        """All of them, for the settings of a run."""
        return asdict(self)

    def outcome(self, where: str, row: Row) -> NewOutcome | DemurError:
        """What is told of a row, or why nothing can be."""
        for needed, option in ((self.id, "--id-column"), (self.label, "--label-column")):
            if needed not in row:
                return InvalidRequest(f"{where}: {no_column(needed, row, option)}")
        label = row[self.label]
        if type(label) is int:  # as a table has it whose labels are 0 and 1, and as a fit reads it
            label = str(label)
        if not isinstance(label, str | list):
            why = "is empty" if label is None else "is neither a text nor a list of texts"
            return InvalidRequest(f"{where}: {self.label!r} {why}")
        source, author = word_of(row.get("source")) or self.source, word_of(row.get("author")) or self.author
        return NewOutcome(id=str(row[self.id]), label=label, source=source, author=author)


def check_out(out: Path) -> None:
    """Raise `BadDataFile` or `FileExists` where results cannot be written to a file of this name."""
    ending_of(out)
    if not out.parent.is_dir():
        raise BadDataFile(f"{out}: there is no folder {out.parent}; make it first")
    if out.exists() and not out.with_name(out.name + ENDING).exists():
        raise FileExists(f"{out} is there already; name another file, or remove it")


def key_of(run: str, file: RowFile, settings: Mapping[str, Any]) -> str:
    """The beginning of the Idempotency-Keys of a run: other content, or other settings, make another one."""
    told = json.dumps([run, file.sha256, dict(settings)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:40]


def check_first_row(rows: Iterable[tuple[str, Row]], made: Callable[[str, Row], Any]) -> None:
    """Raise `BadDataFile` where nothing can be made of the first row: a wrong column is wrong in all of them."""
    for where, row in islice(rows, 1):
        problem = made(where, row)
        if isinstance(problem, DemurError):
            raise BadDataFile(problem.told)


def first_row(rows: Iterable[tuple[str, Row]]) -> Row:
    """The first row; an empty one where there is none."""
    return next((row for _, row in islice(rows, 1)), {})


def predict_rows(
    client: Client,
    model: str,
    file: RowFile,
    log: ResultLog,
    columns: Columns,
    *,
    batch_size: int,
    key: str,
    advance: Advance,
) -> None:
    """Ask about each row that is not done yet, and write what became of it. Raises `RunStopped`."""
    start = log.rows // batch_size * batch_size  # where a batch began
    made = (columns.item(where, row) for where, row in islice(file.rows(), start, None))
    answers = client.predict_iter(
        model, made, on_error="return", batch_size=batch_size, idempotency_key=key, first=start
    )
    _write(log, file, answers, predicted, ABOUT_A_ROW, start, advance)


def tell_rows(
    client: Client,
    file: RowFile,
    log: ResultLog,
    columns: OutcomeColumns,
    *,
    key: str,
    advance: Advance,
) -> None:
    """Tell what each row says that is not told yet, and write what became of it. Raises `RunStopped`."""
    start = log.rows // OUTCOMES_AT_ONCE * OUTCOMES_AT_ONCE
    made = (columns.outcome(where, row) for where, row in islice(file.rows(), start, None))
    answers = client.outcomes_iter(
        made, on_error="return", batch_size=OUTCOMES_AT_ONCE, idempotency_key=key, first=start
    )
    _write(log, file, answers, _told, (*ABOUT_A_ROW, NotFound, NotAllowed), start, advance)


def _write(
    log: ResultLog,
    file: RowFile,
    answers: Generator[T | DemurError],
    result: Callable[[int, T | DemurError], Result],
    about_a_row: tuple[type[DemurError], ...],
    start: int,
    advance: Advance,
) -> None:
    """Write the results of answers, the first of which is to row `start + 1`. What is written already stays."""
    gathered: list[Result] = []

    def write() -> None:
        log.append(gathered)
        advance(len(gathered))
        gathered.clear()

    try:
        with closing(answers):  # so that nothing more is asked once it stops
            for number, answer in enumerate(answers, start=start + 1):
                if isinstance(answer, DemurError) and not isinstance(answer, about_a_row):
                    raise answer
                if number > log.rows + len(gathered):
                    gathered.append(result(number, answer))
                if len(gathered) >= AT_ONCE:
                    write()
        write()
    except DemurError as error:
        write()
        done = f"{log.rows:,} of {file.count:,} rows are done"
        raise RunStopped(f"{error.told}; {done}, and the same command goes on from there") from error


def predicted(number: int, answer: Prediction | DemurError) -> Result:
    """The result of a row that was asked about."""
    if isinstance(answer, DemurError):
        return {**dict.fromkeys(PREDICTED), "row": number, "error": answer.told}
    return {
        "row": number,
        "id": answer.id,
        "action": answer.action,
        "prediction": answer.prediction,
        "confidence": answer.confidence,
        "reason": answer.reason,
        "error": None,
    }


def _told(number: int, answer: Outcome | DemurError) -> Result:
    if isinstance(answer, DemurError):
        return {"row": number, "label": None, "source": None, "error": answer.told}
    return {"row": number, "label": answer.label, "source": answer.source, "error": None}


def finish(log: ResultLog, out: Path | None, columns: Sequence[str]) -> BulkCounts:
    """Write the results of all rows to their file, if there is one, and count them."""
    tally = BulkCounts()
    if out is None:
        for _ in tally.counted(log.results()):
            pass
    else:
        lists = any(isinstance(one.get(name), list) for one in log.results() for name in ("prediction", "label"))
        write_results(tally.counted(log.results()), out, columns, lists=lists)
    log.close()
    log.remove()
    return tally

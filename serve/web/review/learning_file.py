"""Replies that people judged, written to a file of JSON lines, and noted as seen by whoever asked."""

from collections.abc import Iterable, Sequence
from typing import BinaryIO
from uuid import UUID

import orjson

from demur.review import access, cases
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.site import ReviewSite
from demur.traffic.database import Database
from demur.traffic.learning_rows import LearningForm, LearningRow, learning_rows

NOTED_AT_ONCE = 1000


def check_writes_texts(model: str, task: TaskConfig) -> None:
    """Raise `InvalidRequest` for a model whose replies nobody could correct."""
    if not task.writes:
        raise InvalidRequest(
            f"{model!r} has a {task.kind} task: preference pairs and training rows are made of texts that a model"
            " writes; export its cases as csv, parquet or jsonl"
        )


def write_learning(
    site: ReviewSite, person: str, model: str, form: LearningForm, case_ids: Sequence[UUID], to: BinaryIO
) -> int:
    """Write what people said of the replies of these cases as rows to learn from; return how many. Whoever asks has
    been found to lead."""
    with site.database.transaction() as connection:
        records = list({case.record_id for case in cases.some(connection, case_ids).values()})
        precedence = site.config.precedence(model)
        rows = learning_rows(connection, model, form, precedence=precedence, records=records)
        return write_rows(rows, to, site.database, person)


def write_rows(rows: Iterable[LearningRow], to: BinaryIO, database: Database, person: str) -> int:
    """Write a row a line, and return how many there are. That `person` saw the case of a row is on record before the
    row is written."""
    n = 0
    some: list[LearningRow] = []
    for row in rows:
        some.append(row)
        if len(some) == NOTED_AT_ONCE:
            n += _write(some, to, database, person)
            some = []
    return n + _write(some, to, database, person)


def _write(rows: list[LearningRow], to: BinaryIO, database: Database, person: str) -> int:
    ids = [row.record_id for row in rows]
    with database.transaction() as connection:
        cases = connection.execute("select id from review_items where id = any(%s)", (ids,)).fetchall()
        access.note(connection, [one for (one,) in cases], person, through="export", shown=["everything"])
    for row in rows:
        to.write(orjson.dumps(row.content) + b"\n")
    return len(rows)

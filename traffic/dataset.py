"""Labelled rows: from a file that somebody prepared, or from the log."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from demur.traffic.database import Connection, Database
from demur.traffic.file_form import FileForm
from demur.traffic.outcomes import LATEST, THE_ONE_OF_R, Precedence, listed
from demur.traffic.record import Answer
from demur.traffic.table_file import BadDataFile, Row, no_column, rows_of

BESIDE = ("group", "cluster")
"""Columns that are never part of an input."""


class SpreadRow(dict[str, Any]):
    """An input that a file spreads over columns: each with its value, a text where the file knows nothing else. Which
    of the columns are the input, only the model can say."""

    complaint: str = ""
    """What to tell about the file where the model takes one value."""


NO_INPUT: dict[str, None] = {"input": None}
"""What the log holds, and reviewers are shown, of a prediction that was made elsewhere and came without its input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenRow:
    """A row of a model that runs elsewhere."""

    input: Any
    """What people are shown; None where nothing came."""

    output: Any
    """What the model said."""


@dataclass(frozen=True, kw_only=True)
class LabelledFile:
    """Inputs and their right labels, in the file's order."""

    path: Path
    sha256: str
    inputs: list[Any]
    labels: list[Answer]
    groups: list[str | None]
    said: list[Answer | None] | None = None
    """What the model had said about each, where the labels are those of the log; None for a file."""

    clusters: list[str | None] | None = None
    """The cluster of each row, such as a patient; None: no row names one."""

    def __len__(self) -> int:
        return len(self.inputs)


def read_inputs(path: Path, form: FileForm | None = None) -> LabelledFile:
    """Read rows as `read_labelled_file` does, with or without a label: none is read, and each is an empty text."""
    return read_labelled_file(path, form, with_labels=False)


def read_labelled_file(path: Path, form: FileForm | None = None, *, with_labels: bool = True) -> LabelledFile:
    """Read rows with an `input`, a `label` and perhaps a `group` and a `cluster` from .jsonl, .csv or .parquet.

    A label is a text, or a list of texts (under `label` or `labels`) where labels do not exclude each other. In a CSV
    what is JSON (an array or an object) is read as such; everything else is text. In a file without a column `input`
    the other columns are the input, as a `SpreadRow`, and so they are where the form wants whole rows; the column that
    it calls the input is `input` there. Raises `BadDataFile`.
    """
    chosen = form or FileForm()
    inputs, labels, groups, clusters = [], [], [], []
    any_spread = False
    for where, row in rows_of(path, chosen):
        column = "labels" if chosen.label == "label" and "label" not in row and "labels" in row else chosen.label
        spread = (column in row or any_spread or not with_labels) and (
            chosen.whole or (chosen.input == FileForm.input and chosen.input not in row)
        )
        any_spread |= spread
        for needed, key in ((chosen.input, "input_column"), (column, "label_column")):
            if (needed == chosen.input and spread) or (needed == column and not with_labels):
                continue
            if needed not in row:
                raise BadDataFile(f"{where}: {no_column(needed, row, chosen.setting(key))}")
            if row[needed] is None or (row[needed] == "" and needed == column):
                raise BadDataFile(f"{where}: {needed!r} is empty")
        if chosen.cluster not in row and chosen.cluster != FileForm.cluster:
            raise BadDataFile(f"{where}: {no_column(chosen.cluster, row, chosen.setting('cluster_column'))}")
        label = row[column] if with_labels else ""
        inputs.append(_spread(row, column, chosen) if spread else row[chosen.input])
        labels.append([str(one) for one in label] if isinstance(label, list) else str(label))
        groups.append(None if row.get("group") in (None, "") else str(row["group"]))
        clusters.append(None if row.get(chosen.cluster) in (None, "") else str(row[chosen.cluster]))
    if not inputs:
        raise BadDataFile(f"{path}: there are no rows")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LabelledFile(path=path, sha256=digest, inputs=inputs, labels=labels, groups=groups, clusters=clusters)


def _spread(row: Row, label: str, form: FileForm) -> SpreadRow:
    kept = {name: value for name, value in row.items() if name not in (label, form.cluster, *BESIDE)}
    if form.input in kept:
        kept[FileForm.input] = kept.pop(form.input)
    spread = SpreadRow(kept)
    spread.complaint = no_column(form.input, row, form.setting("input_column"))
    return spread


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedRow:
    """A record as far as it takes to decide it again: with its input, if that is still kept, and the outcome that
    counts."""

    id: UUID
    created_at: datetime
    prediction: Answer | None
    action: str
    has_input: bool
    """False once the time of the input was up: then `input` is None."""

    input: Any
    """A `GivenRow` where the request brought what the model said."""

    outcome: Answer | None
    group: str | None
    cluster: str | None
    label_probability: float
    """The chance, when it was decided, that its label would be asked for."""

    reply: str | None = None
    """The text, where the model wrote one: the outcome says whether that is right."""

    @property
    def said(self) -> Answer | None:
        """What the outcome is about."""
        return self.prediction if self.reply is None else self.reply


LOGGED = (
    f" from records r left join payloads p on p.record_id = r.id left join lateral {THE_ONE_OF_R} o on true"
    " where r.model = %(model)s"
    "   and r.created_at >= coalesce(%(since)s::timestamptz, '-infinity')"
    "   and r.created_at < coalesce(%(until)s::timestamptz, 'infinity')"
    "   and (o.label is not null or not %(labelled)s)"
)


def count_logged(
    connection: Connection, model: str, *, since: datetime | None, until: datetime | None, labelled: bool = False
) -> int:
    """How many records `logged_pages` will come to; with `labelled`, only those with an outcome."""
    row = connection.execute(
        f"select count(*){LOGGED}",
        {"model": model, "since": since, "until": until, "labelled": labelled, "precedence": listed(LATEST)},
    ).fetchone()
    return 0 if row is None else int(row[0])


def logged_pages(
    database: Database,
    model: str,
    *,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    labelled: bool = False,
    size: int,
) -> Iterator[list[LoggedRow]]:
    """Yield the records decided in [since, until) in order of time, `size` at a time, each page read by itself.

    However many there are, one page is in memory, and no transaction stays open while the caller works on it.
    """
    last: LoggedRow | None = None
    while True:
        with database.transaction() as connection:
            rows = connection.execute(
                "select r.id, r.created_at, r.prediction, r.action, p.record_id is not null, p.input, o.label,"
                '       r."group", r.label_probability, p.reply, p.output, r.cluster'
                f"{LOGGED} and (%(last_at)s::timestamptz is null"
                "   or (r.created_at, r.id) > (%(last_at)s::timestamptz, %(last_id)s::uuid))"
                " order by r.created_at, r.id limit %(size)s",
                {
                    "model": model,
                    "since": since if last is None else last.created_at,  # lets the index skip what was read
                    "until": until,
                    "labelled": labelled,
                    "precedence": listed(precedence),
                    "last_at": None if last is None else last.created_at,
                    "last_id": None if last is None else last.id,
                    "size": size,
                },
            ).fetchall()
        page = [
            LoggedRow(
                id=row[0],
                created_at=row[1],
                prediction=row[2],
                action=row[3],
                has_input=row[4],
                input=row[5] if row[10] is None else GivenRow(input=_what_came(row[5]), output=row[10]),
                outcome=row[6],
                group=row[7],
                cluster=row[11],
                label_probability=row[8],
                reply=row[9] and row[9]["text"],  # not in SQL, where a text holds no character 0
            )
            for row in rows
        ]
        if page:
            yield page
        if len(page) < size:
            return
        last = page[-1]


def _what_came(stored: Any) -> Any:
    return None if stored == NO_INPUT else stored

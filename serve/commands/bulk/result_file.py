"""Results of the rows of a file, written as .jsonl, .csv or .parquet, and counted."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as parquet

from demur.client.files import whole_file
from demur.traffic.spreadsheet import as_cell
from demur.traffic.table_file import ending_of

Result = Mapping[str, Any]

SHOWN = 20
"""Refused rows that a report lists."""

AT_ONCE = 1000

TYPES = {"row": pa.int64(), "confidence": pa.float64()}
"""Of columns that hold no text."""


@dataclass(kw_only=True)
class BulkCounts:
    """What became of all rows."""

    rows: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    first_refused: list[str] = field(default_factory=list)

    def counted(self, results: Iterable[Result]) -> Iterator[Result]:
        """Yield the results, and count them meanwhile."""
        for result in results:
            self.rows += 1
            if result["error"] is None:
                self.actions[result.get("action") or "written"] += 1
            else:
                self.refused += 1
                if len(self.first_refused) < SHOWN:
                    self.first_refused.append(f"row {result['row']}: {result['error']}")
            yield result

    def sentences(self) -> list[str]:
        """What became of the rows, in words."""
        if not self.rows:
            return ["there are no rows, so nothing was sent"]
        parts = [f"{n:,} {NAMES.get(action, action)}" for action, n in sorted(self.actions.items())]
        told = [f"{self.rows:,} rows: {', '.join([*parts, f'{self.refused:,} refused'])}", *self.first_refused]
        if self.refused > len(self.first_refused):
            told.append(f"and {self.refused - len(self.first_refused):,} more")
        return told


NAMES = {"answer": "answered", "review": "held for review", "abstain": "held, and nobody is asked"}


def write_results(results: Iterable[Result], out: Path, columns: Sequence[str], *, lists: bool) -> None:
    """Write results to a file, which is there whole or not at all. `lists`: a prediction is a list of labels."""
    with whole_file(out) as file:
        WRITERS[ending_of(out)](results, file, columns, lists)


def _write_jsonl(results: Iterable[Result], to: BinaryIO, columns: Sequence[str], _lists: bool) -> None:
    for result in results:
        line = json.dumps({name: result.get(name) for name in columns}, ensure_ascii=False)
        to.write(line.encode() + b"\n")


def _write_csv(results: Iterable[Result], to: BinaryIO, columns: Sequence[str], _lists: bool) -> None:
    text = io.TextIOWrapper(to, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(result.get(name)) for name in columns] for result in results)
    text.flush()
    text.detach()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return as_cell(value) if isinstance(value, str) else value


def _write_parquet(results: Iterable[Result], to: BinaryIO, columns: Sequence[str], lists: bool) -> None:
    text = pa.string()
    kinds = {**TYPES, **({"prediction": pa.list_(text), "label": pa.list_(text)} if lists else {})}
    schema = pa.schema([(name, kinds.get(name, text)) for name in columns])
    with parquet.ParquetWriter(to, schema) as writer:
        rows = iter(results)
        while some := list(islice(rows, AT_ONCE)):
            writer.write_table(pa.Table.from_pylist([dict(one) for one in some], schema))


WRITERS = {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}

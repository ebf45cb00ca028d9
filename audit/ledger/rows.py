"""The rows of a ledger as a table, for whoever wants to count again."""

from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from demur.audit.ledger.ledger import CodedColumn, Ledger
from demur.uncertainty.checks import Array

AT_ONCE = 131_072
"""Rows in a group of the file."""


def table_of(ledger: Ledger) -> pa.Table:
    """One row for each record: what was decided, what is known of it, and how likely it was that a person is asked.

    Null is what is not known. `quality` is how right the prediction was, 0 to 1; `drawn`, whether a person was asked,
    with `label_probability` as it was logged; `reviewed`, whether one has spoken. Scores are columns like
    `score.entropy`.
    """
    columns = {
        "id": ledger.ids,
        "at": pa.array(ledger.times).cast(pa.timestamp("us", tz="UTC")),
        "action": _texts(ledger.actions),
        "artifact": _texts(ledger.artifacts),
        "group": _texts(ledger.groups),
        "cluster": _texts(ledger.clusters),
        "predicted": _texts(ledger.predicted),
        "true": _texts(ledger.true),
        "quality": _numbers(ledger.quality),
        "source": _texts(ledger.sources),
        "confidence": _numbers(ledger.confidence),
        "top_probability": _numbers(ledger.top_probability),
        "set_size": _numbers(ledger.set_size),
        "covered": _numbers(ledger.covered),
        "right_labels": _numbers(ledger.right_labels),
        "label_probability": _numbers(ledger.label_probability),
        "drawn": pa.array(ledger.drawn),
        "reviewed": pa.array(ledger.reviewed),
        **{f"score.{name}": _numbers(values) for name, values in ledger.scores.items()},
    }
    return pa.table({name: column for name, column in columns.items() if column is not None})


def write_rows(ledger: Ledger, file: IO[bytes]) -> None:
    """Write them as Parquet."""
    pq.write_table(table_of(ledger), file, compression="zstd", row_group_size=AT_ONCE)


def _texts(coded: CodedColumn | None) -> pa.Array | None:
    """None where labels do not exclude each other: such predictions are in the log alone."""
    if coded is None:
        return None
    codes = pa.array(coded.codes, mask=coded.codes < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(coded.names, pa.string()))


def _numbers(values: Array) -> pa.Array:
    return pa.array(values, from_pandas=True)  # NaN becomes null

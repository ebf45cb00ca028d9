"""The rows of a ledger as Parquet."""

import io

import numpy as np
import pyarrow.parquet as pq

from demur.audit.ledger.rows import write_rows
from tests.audit.report.simulated import simulated


def test_the_rows_come_back():
    ledger = simulated(500, np.random.default_rng(0)).ledger
    file = io.BytesIO()
    write_rows(ledger, file)
    rows = pq.read_table(io.BytesIO(file.getvalue()))
    assert rows.num_rows == 500
    assert {"id", "at", "action", "true", "quality", "label_probability", "score.entropy"} <= set(rows.column_names)
    assert rows["action"].to_pylist() == [ledger.actions.names[code] for code in ledger.actions.codes]
    known = np.array([value is not None for value in rows["quality"].to_pylist()])
    np.testing.assert_array_equal(known, ledger.known)  # what is not known is null, and never 0
    np.testing.assert_array_equal(known, [value is not None for value in rows["true"].to_pylist()])
    assert str(rows.schema.field("at").type) == "timestamp[us, tz=UTC]"
    again = io.BytesIO()
    write_rows(ledger, again)
    assert again.getvalue() == file.getvalue()

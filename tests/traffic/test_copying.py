import math
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import orjson
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from uuid_utils.compat import uuid7

from demur.serve.contract.commit import Unwritable, Writing
from demur.serve.database.opening import open_database
from demur.serve.gateway.journal import REFUSALS, commit
from demur.traffic import copying, log
from demur.traffic.columns import RecordColumns
from demur.traffic.copying import append_columns, copy_columns
from demur.traffic.record import Entry, Record

JSON_COLUMNS = ("prediction", "scores", "timings", "cost", "input", "reply", "output")
ROWS = (
    f"select {log.RECORD_COLUMNS}, {log.PAYLOAD_COLUMNS}, {', '.join(f'{name}::text' for name in JSON_COLUMNS)}"
    " from records left join payloads on record_id = id order by id"
)


def block(n=3, **changes):
    """Columns of what is answered and plain, unless told otherwise."""
    values = {
        "model": "toy",
        "artifact": "toy-1",
        "created_at": datetime(2026, 3, 29, 1, 59, 59, 999_999, UTC),
        "ids": [uuid7() for _ in range(n)],
        "groups": [None] * n,
        "clusters": [None] * n,
        "predictions": ["7"] * n,
        "top_labels": [["7", "1"]] * n,
        "top_probabilities": [[0.61, 0.1 + 0.2]] * n,
        "label_confidences": [None] * n,
        "prediction_sets": [["7"]] * n,
        "scores": {"z": [1e-300] * n, "a": [0.25] * n},
        "confidence": [0.61] * n,
        "actions": ["answer"] * n,
        "reasons": ["confidence 0.61 is at least 0.5, the limit"] * n,
        "label_probabilities": [0.05] * n,
        "queued": [0.125] * n,
        "model_milliseconds": 1.5,
        "costs": [None] * n,
        "replies": [None] * n,
        "inputs": [[[0.0, 1.0], [1.0, 0.0]]] * n,
        "outputs": [None] * n,
        "input_expires_at": datetime(2026, 6, 1, tzinfo=UTC),
        "keys": [None] * n,
    }
    return RecordColumns(**{**values, **changes})


def kept(database):
    with database.transaction() as connection:
        return connection.execute(ROWS).fetchall()


def copied(database, blocks):
    with database.by_themselves() as connection:
        copy_columns(connection, blocks)


def emptied(database):
    with database.transaction() as connection:
        connection.execute("delete from payloads; delete from records")


texts = st.text(alphabet=st.characters(codec=None), max_size=6) | st.sampled_from(
    ["", "%b", "\\u0000", '"', "NULL", "{}", "\\N", "é😀\u2028", "\x7f", "\x1f\n\t\b", "0" * 300]
)
plain_texts = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
floats = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e22, 0.1 + 0.2])
shares = st.floats(0, 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | floats | plain_texts | st.just("\0"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(plain_texts | st.integers(0, 9), inner, max_size=3)
        | st.just(np.eye(2, dtype=np.float32))
    ),
    max_leaves=5,
)


def of_rows(n, values):
    return st.lists(values, min_size=n, max_size=n)


@st.composite
def blocks(draw, text):
    n = draw(st.integers(1, 3))
    labels = st.lists(text, max_size=3)
    size = draw(st.integers(0, 3))
    lists = of_rows(n, st.lists(floats, max_size=3)) | of_rows(n, st.lists(shares, min_size=size, max_size=size))
    costs = st.fixed_dictionaries(
        {"prompt_tokens": st.integers(0, 9), "seconds": floats},
        optional={"elsewhere": st.dictionaries(text, st.integers(0, 9), max_size=2)},
    )
    zones = st.sampled_from([UTC, timezone(timedelta(hours=5.75))])
    moments = st.datetimes(datetime(1999, 1, 1), datetime(2100, 1, 1), timezones=zones)  # noqa: DTZ001 - zones above
    return block(
        n,
        model=draw(text),
        artifact=draw(text),
        created_at=draw(moments),
        groups=draw(of_rows(n, st.none() | text)),
        clusters=draw(of_rows(n, st.none() | text)),
        predictions=draw(of_rows(n, st.none() | text | labels)),
        top_labels=draw(of_rows(n, labels)),
        top_probabilities=draw(lists),
        label_confidences=draw(of_rows(n, st.none() | st.lists(floats, max_size=2))),
        prediction_sets=draw(of_rows(n, labels)),
        scores=draw(st.dictionaries(text, of_rows(n, st.none() | floats), max_size=3)),
        confidence=draw(of_rows(n, st.none() | floats) | of_rows(n, shares)),
        actions=draw(of_rows(n, st.sampled_from(["answer", "review", "abstain"]))),
        reasons=draw(of_rows(n, text)),
        label_probabilities=draw(of_rows(n, shares)),
        queued=draw(of_rows(n, floats)),
        model_milliseconds=draw(floats),
        costs=draw(of_rows(n, st.none() | costs)),
        replies=draw(of_rows(n, st.none() | st.fixed_dictionaries({"text": text, "finish_reason": text}))),
        inputs=draw(of_rows(n, json_values)),
        outputs=draw(of_rows(n, st.none() | json_values)),
        input_expires_at=draw(st.none() | moments),
    )


@pytest.mark.slow
@given(groups=st.lists(blocks(plain_texts), max_size=3))
def test_the_log_is_as_if_written_one_by_one(database, groups):
    emptied(database)
    copied(database, groups)
    by_copy = kept(database)
    with database.transaction() as connection:
        read = log.find(connection, [row[0] for row in by_copy])
    emptied(database)
    entries = [one for written in groups for one in written.entries()]
    results = commit(database, [Writing(one) for one in entries])
    assert not any(isinstance(one, Exception) for (one,) in results)
    assert repr(by_copy) == repr(kept(database))  # by their texts: -0.0 is another number than 0.0
    assert len(by_copy) == len(entries)
    with database.transaction() as connection:
        again = log.find(connection, list(read))
    assert {name: repr(one) for name, one in read.items()} == {name: repr(one) for name, one in again.items()}


@pytest.mark.slow
@given(written=blocks(texts), fault=st.sampled_from(["none", "action", "share", "nan", "integer", "no text"]))
def test_what_the_log_refuses_is_refused(database, written, fault):
    """Surrogates, the character 0, and what breaks the rules of the table. The block is then written nowhere, and the
    connection can be used on."""
    emptied(database)
    if fault == "action":
        written.actions[-1] = "escalate"
    elif fault in ("share", "nan"):
        written.label_probabilities[0] = 1.5 if fault == "share" else math.nan
    elif fault == "integer":
        written.inputs[-1] = 2**64
    elif fault == "no text":
        written.reasons[-1] = None
    with database.by_themselves() as connection:
        try:
            copy_columns(connection, [written])
            refused = False
        except REFUSALS:
            refused = True
        assert (not refused) == bool(connection.execute("select count(*) from records").fetchone()[0])
    by_copy = kept(database)
    emptied(database)
    results = commit(database, [Writing(one) for one in written.entries()])
    assert refused == any(isinstance(one, Unwritable) for (one,) in results)
    assert refused or repr(by_copy) == repr(kept(database))


def test_each_field_of_a_record_is_written():
    """A field that is added to the record must be added to COPY as well."""
    known = {name.strip().strip('"') for name in copying.RECORD_COLUMNS.split(",")}
    assert {one.name for one in fields(Record)} == known | {"steps", "reply"}
    assert {name.strip() for name in log.PAYLOAD_COLUMNS.split(",")} == {
        name.strip() for name in copying.PAYLOAD_COLUMNS.split(",")
    }
    assert {one.name for one in fields(Entry)} == {"record", "input", "output", "input_expires_at", "key", "shadow"}


def test_what_is_in_the_log_already_takes_the_others_with_it(database):
    first, second = block(), block()
    copied(database, [first])
    with database.by_themselves() as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            copy_columns(connection, [second, first])
        assert len(connection.execute("select from records").fetchall()) == 3
        log.append(connection, [*second.entries(), *first.entries()])  # what a caller does then
    assert sorted(row[0] for row in kept(database)) == sorted([*first.ids, *second.ids])


@pytest.mark.parametrize("before", ["", "select 1"])
def test_it_is_part_of_the_transaction_that_is_open(database, before):
    written = block()
    with pytest.raises(ZeroDivisionError), database.transaction() as connection:  # noqa: PT012
        if before:
            connection.execute(before)
        copy_columns(connection, [written])
        assert len(log.find(connection, written.ids)) == 3
        raise ZeroDivisionError
    assert kept(database) == []
    with database.transaction() as connection:
        copy_columns(connection, [written])
    assert len(kept(database)) == 3


def test_a_refusal_within_a_transaction_takes_all_of_it(database):
    bad = replace(block(), reasons=["a", "\0", "c"])
    with pytest.raises(psycopg.DataError, match="invalid byte"), database.transaction() as connection:  # noqa: PT012
        copy_columns(connection, [block()])
        copy_columns(connection, [bad])
    assert kept(database) == []


def test_large_inputs_go_piece_by_piece(database):
    inputs = ["é" * 3_000_000, {"a": "x" * 2_000_000}, [1.5]]
    written = block(inputs=inputs)
    copied(database, [written])
    with database.transaction() as connection:
        assert [log.find_input(connection, one) for one in written.ids] == inputs


@pytest.mark.parametrize("ending", ["the writer", "the server's process"])
def test_of_a_write_that_breaks_off_nothing_is_kept(dsn, database, ending):
    """A process that ends after the records and before the inputs leaves neither of them."""
    written = block()
    tables = [
        copying.HEAD + copying.rows(3, copying.record_columns(written)) + copying.TAIL,
        copying.HEAD + copying.rows(3, copying.payload_columns(written))[:-5],
    ]

    def broken_off():
        yield tables[0]
        if ending == "the writer":
            raise ZeroDivisionError
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", (writer.info.backend_pid,))
        yield tables[1]

    writer = psycopg.connect(dsn, autocommit=True)
    with pytest.raises((ZeroDivisionError, psycopg.OperationalError)):
        writer.wait(copying._copied(writer.pgconn, copying.COPY, broken_off()))
    writer.close()
    with database.transaction() as connection:
        connection.execute("lock table records, payloads")  # the other one has let go of them
    assert kept(database) == []
    copied(database, [written])


def test_a_connection_of_another_encoding_writes_the_same(dsn, database):
    written = block(12, groups=["é", None, "ß"] * 4, reasons=["ü"] * 12)
    other = open_database(dsn + "&client_encoding=LATIN1")
    with other.by_themselves() as connection:
        append_columns(connection, [written])
    other.close()
    with database.transaction() as connection:
        read = log.find(connection, written.ids)
    assert read == {one: written.record(at) for at, one in enumerate(written.ids)}


def test_an_input_that_is_json_already_goes_as_it_is(database):
    written = block(inputs=[orjson.Fragment(b"[1.10, 2e0]"), orjson.Fragment(b'"a"'), 3])
    copied(database, [written])
    assert [row[log.RECORD_COLUMNS.count(",") + 2] for row in kept(database)] == [[1.1, 2.0], "a", 3]


@pytest.mark.parametrize("rows", [1, copying.FEWEST - 1, copying.FEWEST])
def test_few_rows_and_many_are_written(database, rows):
    first, second = block(1), block(rows - 1)
    with database.by_themselves() as connection:
        append_columns(connection, [first, second])
        if rows < copying.FEWEST:
            append_columns(connection, [first, second])  # changes nothing
        else:
            with pytest.raises(psycopg.errors.UniqueViolation):
                append_columns(connection, [first, second])
        read = log.find(connection, first.ids + second.ids)
    assert read == {one.record.id: one.record for one in first.entries() + second.entries()}


def test_nothing_to_write_changes_nothing(database):
    for write in (append_columns, copy_columns):
        with database.by_themselves() as connection:
            write(connection, [])
            write(connection, [block(0)])
    assert kept(database) == []


def test_long_lists_of_labels_are_not_kept_in_memory(database):
    """Lists of few labels come again and again; each set of hundreds may be another one."""
    before = copying._few_labels.cache_info().currsize
    labels = [f"label {n}" for n in range(300)]
    written = block(prediction_sets=[labels[:at] for at in (100, 200, 300)])
    copied(database, [written])
    assert copying._few_labels.cache_info().currsize <= before + 1
    assert [len(row[9]) for row in kept(database)] == [100, 200, 300]

"""Every test reads a real PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from psycopg import connect

from demur.audit.ledger.from_database import read_ledger
from demur.audit.ledger.gathering import UnreadableScores
from demur.audit.ledger.ledger import ANSWER, NONE, UNLOGGED, CodedColumn, Ledger
from demur.audit.ledger.settled import settled_moment
from demur.review.item import Kind
from demur.serve.contract.commit import CommitResult, Writing
from demur.serve.gateway import journal
from demur.traffic import log
from demur.traffic.database import Database, DatabaseUnavailable
from demur.traffic.record import Answer, Record
from tests.conftest import entry, new_case, resolve

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=300)


def write(database: Database, *, minutes: float = 0, asked: Kind | None = None, **changes: Any) -> Record:
    made = entry(created_at=NOON + timedelta(minutes=minutes), **changes)
    case = new_case(made, kind=asked) if asked else None
    [[done]] = journal.commit(database, [Writing(made, case)])
    assert isinstance(done, CommitResult)
    return done.record


def tell(database: Database, record: Record, label: Answer, source: str = "api", *, minutes: float = 60) -> None:
    with database.transaction() as connection:
        log.add_outcome(connection, record.id, label=label, source=source, author=None)
        connection.execute(
            "update outcomes set created_at = %s where id = (select max(id) from outcomes)",
            (NOON + timedelta(minutes=minutes),),
        )


def read(database: Database, **changes: Any) -> Ledger:
    asked = {"precedence": (), "since": None, "until": None, "as_of": LATER}
    return read_ledger(database, "toy", **{**asked, **changes})


def texts(coded: CodedColumn | None) -> list[str | None]:
    assert coded is not None
    return [None if code == NONE else coded.names[code] for code in coded.codes]


def same(values: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(values, dtype=float), np.asarray(expected, dtype=float), equal_nan=True)


def test_columns_of_single_labels(database: Database) -> None:
    held = write(database, minutes=1, group="north", prediction_set=["7", "1"])
    write(
        database,
        prediction="1",
        action="answer",
        artifact=None,
        confidence=None,
        label_probability=0.02,
        prediction_set=[],
        scores={"entropy": 2},
        top_probabilities=[],
        top_labels=[],
    )
    write(database, model="another")
    tell(database, held, "1")
    ledger = read(database)
    assert ledger.extent.since == NOON
    assert ledger.extent.until == LATER
    assert ledger.times.tolist() == [NOON.replace(tzinfo=None), (NOON + timedelta(minutes=1)).replace(tzinfo=None)]
    assert ledger.ids[1].as_py() == held.id.bytes
    assert texts(ledger.actions) == ["answer", "review"]
    assert ledger.answered.tolist() == [True, False]
    assert ledger.actions.names[ANSWER] == "answer"
    assert texts(ledger.artifacts) == [None, "toy-1"]
    assert texts(ledger.groups) == [None, "north"]
    assert texts(ledger.predicted) == ["1", "7"]
    assert texts(ledger.true) == [None, "1"]
    assert texts(ledger.sources) == [None, "api"]
    assert same(ledger.quality, [np.nan, 0])
    assert same(ledger.covered, [np.nan, 1])
    assert same(ledger.set_size, [0, 2])
    assert same(ledger.confidence, [np.nan, 0.61])
    assert same(ledger.top_probability, [np.nan, 0.61])
    assert same(ledger.label_probability, [0.02, 1])
    assert {name: column.tolist() for name, column in ledger.scores.items()} == {
        "entropy": [2, pytest.approx(np.nan, nan_ok=True)],
        "softmax_response": [pytest.approx(np.nan, nan_ok=True), 0.39],
    }
    assert same(ledger.true_probability, [np.nan, 0.1 + 0.2])
    assert ledger.top is None
    assert ledger.mentions is None


def test_label_sets(database: Database) -> None:
    several: dict[str, Any] = {
        "label_confidence": [0.9, 0.5],
        "top_labels": ["a", "b"],
        "top_probabilities": [0.8, 0.4],
    }
    likely = write(database, prediction=["a", "b"], prediction_set=["a"], **several)
    wide = {**several, "top_labels": ["a", "b", "c"], "label_confidence": [0.9, 0.5, 0.1]}
    nothing = write(database, minutes=1, prediction=[], prediction_set=["c"], **wide | {"top_probabilities": [0.3] * 3})
    write(database, minutes=2, prediction=None, prediction_set=[], top_labels=[], top_probabilities=[])
    tell(database, likely, ["b", "d"])
    tell(database, nothing, [])
    ledger = read(database)
    assert ledger.predicted is None
    assert ledger.true is None
    assert same(ledger.quality, [1 / 3, 1, np.nan])
    assert same(read(database, exact=True).quality, [0, 1, np.nan])
    assert same(ledger.covered, [0, 1, np.nan])
    assert ledger.top is not None
    assert same(ledger.top.probabilities, [[0.8, 0.4, np.nan], [0.3, 0.3, 0.3], [np.nan] * 3])
    assert same(ledger.top.calibrated, [[0.9, 0.5, np.nan], [0.9, 0.5, 0.1], [np.nan] * 3])
    assert same(ledger.top.hits, [[0, 1, np.nan], [0, 0, 0], [np.nan] * 3])
    assert ledger.true_probability is None
    said = ledger.mentions
    assert said is not None
    assert said.rows.tolist() == [0, 0, 0]
    assert texts(said.labels) == ["a", "b", "d"]
    assert said.predicted.tolist() == [True, True, False]
    assert said.right.tolist() == [False, True, True]
    assert said.probability.tolist() == [0.8, 0.4, UNLOGGED]


def test_what_became_known_later_is_not_there_yet(database: Database) -> None:
    record = write(database, asked=Kind.HELD)
    tell(database, record, "7", minutes=60)
    tell(database, record, "1", "review", minutes=120)
    early = read(database, as_of=NOON + timedelta(minutes=60))
    assert texts(early.true) == ["7"]
    assert early.drawn.tolist() == [True]
    assert early.reviewed.tolist() == [False]
    assert texts(read(database, as_of=NOON + timedelta(minutes=59)).true) == [None]
    late = read(database)
    assert texts(late.true) == ["1"]
    assert late.reviewed.tolist() == [True]
    with database.transaction() as connection:
        connection.execute("update records set label_probability = 0.5")
        connection.execute("update review_items set created_at = %s", (NOON + timedelta(minutes=90),))
    assert read(database, as_of=NOON + timedelta(minutes=89)).drawn.tolist() == [False]
    assert read(database, as_of=NOON + timedelta(minutes=90)).drawn.tolist() == [True]


def test_a_range_ends_before_its_end_and_at_the_latest_when_it_is_looked_at(database: Database) -> None:
    for minutes in range(4):
        write(database, minutes=minutes)
    since, until = NOON + timedelta(minutes=1), NOON + timedelta(minutes=3)
    assert len(read(database, since=since, until=until)) == 2
    looked_at = read(database, as_of=NOON + timedelta(minutes=1))
    assert len(looked_at) == 1
    assert looked_at.extent.until == NOON + timedelta(minutes=1)
    none = read(database, since=until, until=since)
    assert len(none) == 0
    assert none.extent.since == none.extent.until
    assert len(read_ledger(database, "nobody", precedence=(), since=None, until=None, as_of=LATER)) == 0


@pytest.mark.parametrize(
    ("precedence", "counts"),
    [((), "3"), (("review",), "2"), (("court", "review"), "1"), (("review", "court"), "2"), (("nobody",), "3")],
)
def test_precedence(database: Database, precedence: tuple[str, ...], counts: str) -> None:
    record, other = write(database), write(database, minutes=1)
    for label, source in (("0", "review"), ("1", "court"), ("2", "review"), ("3", "api")):
        tell(database, record, label, source)
    tell(database, other, "7", "api")
    ledger = read(database, precedence=precedence)
    assert texts(ledger.true) == [counts, "7"]
    assert ledger.true is not None
    assert ledger.true.names == tuple(sorted({counts, "7"}))  # what does not count leaves no trace
    assert ledger.reviewed.tolist() == [True, False]


def test_who_was_drawn_and_about_whom_a_person_has_spoken(database: Database) -> None:
    """A label from outside has an unknown probability, whether its record waits for a person or not."""
    held = write(database, minutes=0, asked=Kind.HELD)
    checked = write(database, minutes=1, asked=Kind.SPOT_CHECK, action="answer", label_probability=0.1)
    outside = write(database, minutes=2, action="answer", label_probability=0.1)
    never = write(database, minutes=3, action="abstain", label_probability=0, asked=Kind.SPOT_CHECK)
    with database.transaction() as connection:
        resolve(connection, held.id, "ada", "7")
    for record in (checked, outside, never):
        tell(database, record, "7")
    ledger = read(database, as_of=datetime.now(UTC) + timedelta(days=1))
    assert ledger.drawn.tolist() == [True, True, False, False]
    assert ledger.reviewed.tolist() == [True, False, False, False]
    assert ledger.known.all()


def test_the_order_is_that_of_time_and_then_of_ids(database: Database) -> None:
    records = [write(database, minutes=minutes) for minutes in (2, 0, 1, 1, 1, 0)]
    expected = [record.id.bytes for record in sorted(records, key=lambda record: (record.created_at, record.id))]
    assert [one.as_py() for one in read(database).ids] == expected


def test_scores_that_are_no_numbers_are_named(database: Database) -> None:
    write(database)
    with database.transaction() as connection:
        connection.execute("update records set scores = %s", ('{"entropy":\n "high"}',))
    with pytest.raises(UnreadableScores, match="scores of some record"):
        read(database)
    with database.transaction() as connection:
        connection.execute("update records set scores = %s", ('{"entropy":\n 1}',))
    assert read(database).scores["entropy"].tolist() == [1]


def test_progress_reaches_the_end(database: Database) -> None:
    for minutes in range(3):
        write(database, minutes=minutes)
    told: list[tuple[int, int]] = []
    read(database, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 3)
    assert told[-1] == (3, 3)


def test_no_database(tmp_path: Any) -> None:
    with pytest.raises(DatabaseUnavailable, match="is not available"):
        read_ledger(
            f"postgresql://postgres:@/postgres?host={tmp_path}",
            "toy",
            precedence=(),
            since=None,
            until=None,
            as_of=NOON,
        )


def test_nothing_settles_while_it_is_written(database: Database) -> None:
    record = write(database)
    none = timedelta(0)
    with connect(database.dsn) as writer, database.transaction() as reader:
        before = datetime.now(UTC)
        log.add_outcome(writer, record.id, label="1", source="api", author=None)
        settled = settled_moment(reader, lateness=none)
        writer.commit()
        [outcome] = log.outcomes_of(writer, record.id)
        assert settled < outcome.created_at
        assert settled < before + timedelta(seconds=1)
        writer.rollback()
        assert settled_moment(reader, lateness=none) > outcome.created_at
        assert settled_moment(reader) < datetime.now(UTC) - timedelta(seconds=4)

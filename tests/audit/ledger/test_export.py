"""What is exported and read back is what the database says, whatever happens on the way."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demur.audit.ledger import export as exporting
from demur.audit.ledger.export import RangeTaken, export
from demur.audit.ledger.exported import ExportedMeanwhile, ExportFolder, ExportUnreadable, NotExported, Run
from demur.audit.ledger.from_database import read_ledger
from demur.audit.ledger.from_parquet import days_with_records, exported_end, read_exported
from demur.audit.ledger.ledger import Ledger
from demur.calibration_store.folder import Folder
from demur.review.item import Kind
from demur.serve.contract.commit import CommitResult, Writing
from demur.serve.gateway import journal
from demur.traffic import log
from demur.traffic.database import Database
from demur.traffic.record import Answer, Record
from tests.conftest import entry, new_case, resolve

DAY = timedelta(days=1)
FIRST = datetime(2026, 11, 1, 22, tzinfo=UTC)
PRECEDENCE = ("court", "review")


def write(database: Database, at: datetime, *, asked: Kind | None = None, **changes: Any) -> Record:
    made = entry(created_at=at, **changes)
    case = new_case(made, kind=asked) if asked else None
    [[done]] = journal.commit(database, [Writing(made, case)])
    assert isinstance(done, CommitResult)
    return done.record


def tell(database: Database, record: Record, label: Answer, source: str, at: datetime) -> None:
    with database.transaction() as connection:
        log.add_outcome(connection, record.id, label=label, source=source, author=None)
        connection.execute("update outcomes set created_at = %s where id = (select max(id) from outcomes)", (at,))


def some_traffic(database: Database) -> list[Record]:
    """Two days of it, with all that makes rows differ."""
    records = []
    for n in range(12):
        at = FIRST + timedelta(minutes=30 * (n // 2))
        answered = n % 3 == 0
        changes: dict[str, Any] = {
            "prediction": str(n % 4) if n != 5 else None,
            "prediction_set": [str(k) for k in range(n % 4)],
            "group": ("north", "south", None)[n % 3],
            "cluster": f"patient {n // 4}",
            "confidence": None if n == 4 else n / 12,
            "scores": {} if n == 7 else {"entropy": n / 3, **({"late score": 1.0} if n > 8 else {})},
            "action": "answer" if answered else "review",
            "label_probability": 0.25 if answered else 1.0,
        }
        asked = (Kind.SPOT_CHECK if n % 2 else None) if answered else Kind.HELD
        records.append(write(database, at, asked=asked, **changes))
    for n, record in enumerate(records):
        if n % 2:
            tell(database, record, str(n % 3), ("api", "court", "review")[n % 3], record.created_at + DAY)
        if n % 4 == 1:
            tell(database, record, "9", "api", record.created_at + 2 * DAY)
    return records


def flat(ledger: Ledger) -> dict[str, Any]:
    """All of it, as what can be compared."""
    return {field.name: _plain(getattr(ledger, field.name)) for field in fields(ledger)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return value.dtype, ["NaN" if each != each else each for each in value.ravel().tolist()]
    if isinstance(value, pa.Array):
        return value.to_pylist()
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def both(database: Database, url: Path, **changes: Any) -> tuple[Any, Any]:
    asked = {"precedence": PRECEDENCE, "since": None, "until": None, "as_of": exported_end(str(url), "toy"), **changes}
    return flat(read_exported(str(url), "toy", **asked)), flat(read_ledger(database, "toy", **asked))


def rows(url: Path, kind: str) -> int:
    exported = ExportFolder(str(url), "toy")
    return sum(file.rows for run in exported.runs for file in run.files if file.kind == kind)


@pytest.fixture
def traffic(database: Database) -> list[Record]:
    return some_traffic(database)


def test_the_ledger_is_that_of_the_database(database: Database, traffic: Any, tmp_path: Path) -> None:
    export(database, str(tmp_path), "toy")
    wanted: list[dict[str, Any]] = [
        {},
        {"as_of": FIRST + DAY + timedelta(minutes=60)},
        {"since": FIRST + timedelta(minutes=30), "until": FIRST + timedelta(minutes=130)},
        {"since": FIRST + timedelta(hours=3)},
        {"until": FIRST},
        {"precedence": ()},
        {"since": datetime(2026, 11, 2, 1, tzinfo=timezone(timedelta(hours=2)))},  # a day earlier in UTC
    ]
    for changes in wanted:
        from_parquet, from_database = both(database, tmp_path, **changes)
        assert from_parquet == from_database, changes


def test_label_sets_come_back_as_well(database: Database, tmp_path: Path) -> None:
    several: dict[str, Any] = {
        "label_confidence": [0.9, 0.5],
        "top_labels": ["a", "b"],
        "top_probabilities": [0.8, 0.4],
    }
    for n in range(6):
        at = FIRST + timedelta(hours=n)
        empty = {"prediction": None, "top_labels": [], "top_probabilities": [], "prediction_set": []}
        record = write(database, at, **({"prediction": ["a", "b"][: n % 3]} | several if n != 3 else empty))
        if n != 2:
            tell(database, record, ["b", "c"][: n % 3], "api", at)
    export(database, str(tmp_path), "toy")
    from_parquet, from_database = both(database, tmp_path)
    assert from_parquet == from_database
    assert from_parquet["mentions"]["rows"][1]


def test_a_second_run_adds_what_is_new_to_the_day_of_its_record(
    database: Database, traffic: list[Record], tmp_path: Path
) -> None:
    url = str(tmp_path)
    first = export(database, url, "toy", until=FIRST + timedelta(hours=3))
    assert first.rows == {"records": 12, "outcomes": 0, "reviews": 0}
    held = traffic[1]
    with database.transaction() as connection:
        resolve(connection, held.id, "ada", "7")
        connection.execute(
            "update review_items set ended_at = ended_at - interval '1 minute' where id = %s", (held.id,)
        )
        connection.execute("update outcomes set created_at = created_at - interval '1 minute'")
    late = write(database, FIRST + timedelta(hours=3) - timedelta(minutes=5))
    second = export(database, url, "toy")
    assert second.rows == {"records": 1, "outcomes": 10, "reviews": 1}
    assert {file.day for file in second.files if file.kind == "reviews"} == {held.created_at.date()}
    assert {file.day for file in second.files if file.kind == "records"} == {late.created_at.date()}
    from_parquet, from_database = both(database, tmp_path)
    assert from_parquet == from_database
    third = export(database, url, "toy")
    assert sum(third.rows.values()) == 0


def test_each_day_can_be_read_by_itself(database: Database, traffic: Any, tmp_path: Path) -> None:
    url = str(tmp_path)
    export(database, url, "toy")
    parts = [part for part, _ in days_with_records(ExportFolder(url, "toy"), FIRST + timedelta(minutes=30), None)]
    assert [part[0] for part in parts] == [FIRST + timedelta(minutes=30), FIRST + timedelta(hours=2)]
    for since, until in parts:
        from_parquet, from_database = both(database, tmp_path, since=since, until=until)
        assert from_parquet == from_database
        assert from_parquet["ids"]


def test_a_run_that_dies_half_way_loses_and_doubles_nothing(
    database: Database, traffic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Any, *paths: Any) -> None:
        raise KeyboardInterrupt

    for step in ("move", "create"):
        with monkeypatch.context() as broken:
            broken.setattr(Folder, step, die)
            with pytest.raises(KeyboardInterrupt):
                export(database, str(tmp_path), "toy")
        with pytest.raises(NotExported):
            exported_end(str(tmp_path), "toy")
    export(database, str(tmp_path), "toy")
    assert rows(tmp_path, "records") == 12
    from_parquet, from_database = both(database, tmp_path)
    assert from_parquet == from_database


def test_of_two_runs_at_once_one_counts(database: Database, traffic: Any, tmp_path: Path) -> None:
    slow = ExportFolder(str(tmp_path), "toy")
    assert slow.runs == []
    export(database, str(tmp_path), "toy")
    with pytest.raises(ExportedMeanwhile, match="run it again"):
        slow.add(Run(begin=None, end=FIRST, files=[]))
    assert rows(tmp_path, "records") == 12


def test_inputs_stay_where_they_are_unless_they_are_asked_for(database: Database, traffic: Any, tmp_path: Path) -> None:
    export(database, str(tmp_path / "plain"), "toy")
    assert not list(tmp_path.rglob("inputs-*"))
    done = export(database, str(tmp_path / "inputs"), "toy", inputs=True)
    assert done.rows["inputs"] == 12
    [one, *_] = tmp_path.rglob("inputs-*")
    assert orjson.loads(pq.read_table(one)["input"][0].as_py()) == [[0.0, 1.0], [1.0, 0.0]]


def test_a_place_that_begins_later_is_not_filled_backwards(database: Database, traffic: Any, tmp_path: Path) -> None:
    begin = FIRST + timedelta(minutes=30)
    assert export(database, str(tmp_path), "toy", since=begin).rows["records"] == 10
    with pytest.raises(RangeTaken, match="2026-11-01T22:30:00"):
        export(database, str(tmp_path), "toy", since=FIRST)
    export(database, str(tmp_path), "toy", since=begin)
    assert rows(tmp_path, "records") == 10
    from_parquet, from_database = both(database, tmp_path, since=begin)
    assert from_parquet == from_database


def test_what_is_not_there_is_not_made_up(database: Database, traffic: Any, tmp_path: Path) -> None:
    url = str(tmp_path)
    with pytest.raises(NotExported, match="run demur export first"):
        read_exported(url, "toy", precedence=(), since=None, until=None, as_of=FIRST)
    export(database, url, "toy", until=FIRST + DAY)
    with pytest.raises(NotExported, match="reaches up to"):
        read_exported(url, "toy", precedence=(), since=None, until=None, as_of=FIRST + DAY)
    [listed] = tmp_path.rglob("*.json")
    listed.write_text(listed.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(ExportUnreadable, match="version 2"):
        exported_end(url, "toy")


def test_large_files_have_row_groups_that_fit_in_memory(
    database: Database, traffic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "ROWS_AT_ONCE", 2)
    told: list[tuple[int, int]] = []
    export(database, str(tmp_path), "toy", progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 12
    [first, *_] = sorted(tmp_path.rglob("records-*.parquet"))
    assert pq.ParquetFile(first).num_row_groups > 1
    from_parquet, from_database = both(database, tmp_path)
    assert from_parquet == from_database

"""The same export in a bucket of a real S3 server."""

from datetime import timedelta
from typing import Any

import pytest

from demur.audit.ledger.export import export
from demur.audit.ledger.exported import ExportedMeanwhile, ExportFolder, Run
from demur.audit.ledger.from_parquet import days_with_records
from demur.traffic.database import Database
from tests.audit.ledger.test_export import FIRST, both, some_traffic
from tests.calibration_store.test_s3 import s3, server, url

pytestmark = pytest.mark.slow

__all__ = ["s3", "server", "url"]


def test_it_is_written_added_to_and_read_back(database: Database, url: Any) -> None:
    some_traffic(database)
    export(database, url, "toy", until=FIRST + timedelta(hours=1))
    slow = ExportFolder(url, "toy")
    assert len(slow.runs) == 1
    assert export(database, url, "toy").rows["records"] == 8
    assert len(list(days_with_records(ExportFolder(url, "toy"), None, None))) == 2
    from_parquet, from_database = both(database, url)
    assert from_parquet == from_database
    with pytest.raises(ExportedMeanwhile):
        slow.add(Run(begin=None, end=FIRST, files=[]))

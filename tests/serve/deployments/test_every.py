"""What is done again and again: a failure is logged, in one line where its own words say enough, and tried again."""

import logging
import threading

import pytest

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.serve.deployments.every import every
from demur.traffic.database import DatabaseUnavailable


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (DatabaseUnavailable("PostgreSQL is away"), 1),
        (ArtifactsUnreachable("the folder is away"), 1),
        (ZeroDivisionError("a mistake of ours"), None),
    ],
)
def test_an_outage_is_one_line_and_a_mistake_is_shown_with_its_place(error, lines, caplog):
    tries, again = [], threading.Event()

    def job():
        tries.append(1)
        if len(tries) > 1:
            again.set()
            threading.Event().wait()  # the thread ends with the tests
        raise error

    with caplog.at_level(logging.ERROR, logger="demur.deployments"):
        every(0.01, job, name="looking")
        assert again.wait(timeout=30)
    (record,) = caplog.records
    assert "looking failed" in record.getMessage()
    assert (record.exc_info is None) == (lines == 1)
    if lines == 1:
        assert str(error) in record.getMessage()

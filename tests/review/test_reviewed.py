"""Examples for language models: what reviewers said, and only that."""

from datetime import UTC, datetime, timedelta

from demur.review.reviewed import reviewed_inputs
from demur.traffic import log
from demur.traffic.outcomes import LATEST
from tests.conftest import entry


def test_only_inputs_whose_latest_outcome_is_a_review_are_examples(database):
    start = datetime(2026, 11, 1, tzinfo=UTC)
    entries = [entry(created_at=start + timedelta(minutes=i)) for i in range(5)]
    ids = [one.record.id for one in entries]
    with database.transaction() as connection:
        log.append(connection, entries)
        log.add_outcome(connection, ids[0], label="3", source="review", author="ada")
        log.add_outcome(connection, ids[1], label="4", source="api", author=None)  # nobody looked at it
        log.add_outcome(connection, ids[2], label="5", source="review", author="ada")
        log.add_outcome(connection, ids[2], label="6", source="api", author=None)  # and was overruled
        log.add_outcome(connection, ids[3], label="7", source="api", author=None)
        log.add_outcome(connection, ids[3], label="8", source="review", author="bob")
        connection.execute("delete from payloads where record_id = %s", (ids[4],))
        log.add_outcome(connection, ids[4], label="9", source="review", author="ada")  # the input is forgotten
        model, inputs = entries[0].record.model, [one.input for one in entries]
        found = reviewed_inputs(connection, model, precedence=LATEST)
        assert found == [(inputs[0], "3"), (inputs[3], "8")]
        assert reviewed_inputs(connection, model, precedence=LATEST, most=1) == [(inputs[3], "8")]
        assert reviewed_inputs(connection, "another", precedence=LATEST) == []

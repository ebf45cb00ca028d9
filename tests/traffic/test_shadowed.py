from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from demur.traffic import log
from demur.traffic.outcomes import LATEST
from demur.traffic.record import ShadowDecision
from demur.traffic.shadowed import read_shadowed
from tests.conftest import entry

START = datetime(2026, 11, 1, tzinfo=UTC)


def decided(number, artifact, **changes):
    shadow = ShadowDecision(
        artifact=artifact, prediction="1", confidence=0.9, action="answer", reason="", prediction_set=["1"]
    )
    return replace(
        entry(created_at=START + timedelta(hours=number), **changes.pop("record", {})),
        shadow=replace(shadow, **changes) if artifact else None,
    )


def test_both_sides_of_the_records_that_the_shadow_saw(database):
    entries = [
        decided(
            2,
            "toy-2",
            record={"timings": {"model": 1.5, "shadow": 0.25}},
            prediction=None,
            confidence=None,
            action="review",
        ),
        decided(1, "toy-2", record={"label_probability": 0.02, "action": "answer", "timings": {"queued": 1}}),
        decided(3, "toy-3"),
        decided(4, None),
        decided(5, "toy-2", record={"model": "other"}),
        decided(9, "toy-2"),
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for label in ("1", "7"):
            log.add_outcome(connection, entries[1].record.id, label=label, source="api", author=None)
        log.add_outcome(connection, entries[0].record.id, label="1", source="review", author="ada")
        log.add_outcome(connection, entries[0].record.id, label="7", source="api", author=None)
        seen = read_shadowed(connection, "toy", "toy-2", precedence=LATEST, until=START + timedelta(hours=9))
        assert len(read_shadowed(connection, "toy", "toy-2", precedence=LATEST, since=START + timedelta(hours=2))) == 2
        nothing = read_shadowed(connection, "toy", "toy-9", precedence=LATEST)
    assert seen.ids == [str(entries[1].record.id), str(entries[0].record.id)]
    assert seen.artifacts == ["toy-1", "toy-1"]
    assert seen.outcomes == ["7", "7"]
    assert seen.reviewed.tolist() == [False, True]  # the correction came unasked, the label before it did not
    assert seen.label_probability.tolist() == [0.02, 1]
    assert (seen.told.predictions, seen.told.actions) == (["7", "7"], ["answer", "review"])
    assert (seen.shadow.predictions, seen.shadow.actions) == (["1", None], ["answer", "review"])
    np.testing.assert_array_equal(seen.shadow.confidence, [0.9, np.nan])
    np.testing.assert_array_equal(seen.told.confidence, [0.61, 0.61])
    np.testing.assert_array_equal(seen.model_milliseconds, [np.nan, 1.5])
    np.testing.assert_array_equal(seen.shadow_milliseconds, [np.nan, 0.25])
    assert len(nothing) == 0
    assert nothing.told.confidence.shape == (0,)

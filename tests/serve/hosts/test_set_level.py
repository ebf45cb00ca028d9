"""A host makes prediction sets at the level to which labels have moved it."""

from dataclasses import asdict, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from uuid_utils.compat import uuid7

from demur.audit.state import control_states
from demur.calibration_store.artifact import pack
from demur.calibration_store.store import ArtifactStore
from demur.policies.control import ControlledValue
from demur.policies.set_size import SetSize
from demur.serve.config.control import settings_of
from demur.serve.config.file import ModelConfig
from demur.traffic.database import Database
from tests.conftest import digit_rows
from tests.serve.conftest import identity_of
from tests.serve.hosting import RunningHost

CONTROL = {"kind": "adaptive_sets", "alpha": 0.1}


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def movable(quickstart, tmp_path):
    """A store with an artifact whose sets can be moved, and one whose sets cannot; and the configuration."""
    store = ArtifactStore(str(tmp_path / "artifacts"))
    fitted = ArtifactStore(quickstart.artifacts).in_force("digits")
    assert fitted.selector.sets.ranked is not None
    names = {}
    for name, ranked in (("new", fitted.selector.sets.ranked), ("old", None)):
        sets = replace(fitted.selector.sets, keep_predicted=False, ranked=ranked)
        selector = replace(fitted.selector, sets=sets, policy=SetSize())
        files = pack(selector, model="digits", identity=identity_of(fitted), facts={})
        store.save("digits", files)
        names[name] = files.name
    told = quickstart.models["digits"].model_dump() | {
        "policy": {"kind": "conformal"},
        "prediction_set": {"kind": "split", "keep_predicted": False},
        "spot_check": 0.5,
        "control": CONTROL,
    }
    return store, names, ModelConfig.model_validate(told)


@pytest.fixture
def inputs(digits):
    return [np.asarray(row["input"], dtype=np.float32)[np.newaxis] for row in digit_rows(digits)[:50]]


def put(database, config, value):
    with database.transaction() as connection:
        state = control_states.shared(
            connection,
            uuid7(),
            model="digits",
            settings=settings_of(config),
            course=asdict(ControlledValue.at(0.1)),
            now=clock(),
        )
        control_states.keep(
            connection,
            state.lane,
            asdict(ControlledValue(start=0.1, value=value)),
            holder=None,
            artifact=None,
            now=clock(),
        )


def test_sets_follow_the_level(movable, inputs, database):
    store, names, config = movable
    store.promote("digits", names["new"], by="tests", why="", clock=clock)
    host = RunningHost("digits", config, store)
    sizes = []
    for value in (0.1, 0.02, -0.1, 1.2):
        put(database, config, value)
        host.set_level.learn(database)
        (share,) = host.decide(inputs)
        sizes.append(sum(map(len, share.decided.prediction_sets)) / len(inputs))
        note = f"adaptive_sets: the present error level of the sets is {100 * value:.3g}%"
        assert all(reason.endswith(note) for reason in share.decided.reasons)
    assert sizes[0] < sizes[1] < sizes[2] == 10
    assert sizes[3] == 0


def test_without_a_database_what_was_known_stays(movable, database, dsn):
    store, names, config = movable
    store.promote("digits", names["new"], by="tests", why="", clock=clock)
    level = RunningHost("digits", config, store).set_level
    put(database, config, 0.03)
    level.learn(database)
    away = Database(dsn.replace("host=", "host=/nowhere/"), patience_seconds=0.1)
    level.learn(away)
    away.close()
    assert level.level == 0.03


def test_an_artifact_whose_sets_cannot_be_moved_is_not_taken_up_and_says_what_is_missing(movable):
    store, names, config = movable
    store.promote("digits", names["old"], by="tests", why="", clock=clock)
    host = RunningHost("digits", config, store)
    assert host.artifact_name is None
    assert "keeps no calibration scores" in host.trouble
    store.promote("digits", names["new"], by="tests", why="", clock=clock)
    host.refresh()
    assert host.artifact_name == names["new"]


def test_without_the_control_such_an_artifact_works_as_ever(movable, inputs):
    store, names, config = movable
    store.promote("digits", names["old"], by="tests", why="", clock=clock)
    host = RunningHost("digits", config.model_copy(update={"control": None}), store)
    assert host.set_level is None
    (share,) = host.decide(inputs)
    assert "adaptive_sets" not in share.decided.reasons[0]

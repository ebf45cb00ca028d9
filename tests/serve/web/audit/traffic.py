"""Traffic of which every outcome is known, so that an audit of it finds what was put into it."""

from datetime import datetime, timedelta

from demur.serve.config.file import Config
from demur.traffic import log
from demur.traffic.database import Database
from tests.conftest import entry

CLASSIFIER = {
    "host": {"kind": "classifier", "checkpoint": "not/loaded/here"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.3},
    "task": {"kind": "multiclass", "labels": ["1", "7"]},
}


def config_of(*models: str, artifacts: str = "nowhere/artifacts", **rest: object) -> Config:
    """A configuration of these models, none of which is ever loaded."""
    return Config.model_validate({"models": dict.fromkeys(models, CLASSIFIER), "artifacts": artifacts, **rest})


def write_traffic(database: Database, model: str, *, n: int, wrong: int, first: datetime) -> None:
    """`n` answers a second apart, of which the last `wrong` are wrong; it is known when the last one is given."""
    entries = [
        entry(
            model=model,
            action="answer",
            prediction="7",
            confidence=0.99 - 0.2 * at / n,
            created_at=first + timedelta(seconds=at),
        )
        for at in range(n)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for at, one in enumerate(entries):
            log.add_outcome(connection, one.record.id, label="7" if at < n - wrong else "1", source="lab", author=None)
        connection.execute(
            "update outcomes set created_at = %s where record_id = any(%s)",
            (first + timedelta(seconds=n), [one.record.id for one in entries]),
        )

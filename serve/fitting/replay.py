"""A model run again on logged inputs, and decided by another artifact than was in force then."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from demur.audit.metrics.likeness import likeness
from demur.audit.replay import NothingToReplay, Replay, replay
from demur.serve.config.file import Config
from demur.serve.contract.decided import as_columns
from demur.serve.fitting.labelled_rows import said_again
from demur.serve.fitting.rerun import ROWS_AT_A_TIME, Progress, Read, Rerun
from demur.traffic.database import Database
from demur.traffic.dataset import LoggedRow, count_logged, logged_pages
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True)
class ReplayedTraffic:
    """A replay, and what could not take part in it."""

    model: str
    artifact: str
    since: datetime | None
    until: datetime | None
    forgotten: int
    """Records whose input was deleted when its time was up."""

    unusable: int
    """Records whose input the model does not take any more."""

    rewritten: int
    """Records with an outcome whose text the model does not write again: whether the new one is right, nobody has
    said, so the risks are without them."""

    numbers: Replay

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "artifact": self.artifact,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "forgotten": self.forgotten,
            "unusable": self.unusable,
            "rewritten": self.rewritten,
            **self.numbers.as_json(),
        }


def replay_traffic(
    config: Config,
    model: str,
    artifact: str,
    database: Database,
    *,
    since: datetime | None,
    until: datetime | None,
    progress: Progress,
) -> ReplayedTraffic:
    """Decide the records in [since, until) again. One page of inputs is in memory at a time."""
    rerun = Rerun(config, model, [artifact])
    with database.transaction() as connection:
        total = count_logged(connection, model, since=since, until=until)
    if total == 0:
        raise NothingToReplay(f"there are no records of {model!r} in this range; widen it, or send traffic first")
    then: list[str] = []
    now: list[str] = []
    quality_then: list[float | None] = []
    quality_now: list[float | None] = []
    done, forgotten, unusable, rewritten = 0, 0, 0, 0
    for page in logged_pages(
        database, model, precedence=config.precedence(model), since=since, until=until, size=ROWS_AT_A_TIME
    ):
        kept = [record for record in page if record.has_input]
        pairs = [(record, rerun.read_if_possible(record.input)) for record in kept]
        usable = [(record, value) for record, value in pairs if value is not None]
        forgotten += len(page) - len(kept)
        unusable += len(kept) - len(usable)
        if usable:
            records = [record for record, _ in usable]
            actions, predictions, same = _decide(rerun, [value for _, value in usable], records)
            outcomes = [record.outcome if again else None for record, again in zip(records, same, strict=True)]
            rewritten += sum(
                record.outcome is not None and not again for record, again in zip(records, same, strict=True)
            )
            then += [record.action for record in records]
            now += actions
            quality_then += [_worth(record.prediction, told) for record, told in zip(records, outcomes, strict=True)]
            quality_now += [_worth(guess, told) for guess, told in zip(predictions, outcomes, strict=True)]
        done += len(page)
        progress(done, total)
    if not now:
        raise NothingToReplay(
            f"none of the {total:,} records of {model!r} in this range can be run again: the inputs of"
            f" {forgotten:,} were forgotten (keep_inputs_days), and {unusable:,} are not what the model takes"
        )
    return ReplayedTraffic(
        model=model,
        artifact=artifact,
        since=since,
        until=until,
        forgotten=forgotten,
        unusable=unusable,
        rewritten=rewritten,
        numbers=replay(then, now, quality_then, quality_now),
    )


def _decide(
    rerun: Rerun, inputs: Sequence[Read], records: Sequence[LoggedRow]
) -> tuple[list[str], list[Answer | None], list[bool]]:
    """Actions, predictions, and whether the outcomes are about what is predicted now."""
    (judged,) = rerun.judge(inputs, [record.group for record in records])
    decided = as_columns(
        judged.artifact,
        rerun.task.labels,
        judged.output,
        judged.judgement,
        exclusive=rerun.task.exclusive,
        model_milliseconds=0.0,
    )
    same = said_again(judged.output, [record.said for record in records], rerun.task)
    return decided.actions, decided.predictions, same.tolist()


def _worth(guess: Answer | None, outcome: Answer | None) -> float | None:
    return None if outcome is None else likeness(guess, outcome)

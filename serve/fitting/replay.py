"""A model run again on logged inputs, and decided by another artifact than was in force then."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from demur.audit.metrics.head_to_head import without_nan
from demur.audit.metrics.likeness import likeness
from demur.audit.metrics.top_k import FiguresAtK, LabelRows, figures_of
from demur.audit.promised_shares import MissedSums, PromisedShare, promised_shares
from demur.audit.replay import NothingToReplay, Replay, replay
from demur.serve.config.file import Config
from demur.serve.config.task import TaskConfig
from demur.serve.contract.decided import as_columns
from demur.serve.fitting.labelled_rows import said_again
from demur.serve.fitting.rerun import ROWS_AT_A_TIME, Progress, Read, ReplayResult, Rerun
from demur.traffic.database import Database
from demur.traffic.dataset import LoggedRow, count_logged, logged_pages
from demur.traffic.record import Answer
from demur.uncertainty.checks import Mask


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
    promised: list[PromisedShare]
    """What the artifact promises about sets and labels, measured on the records with an outcome."""

    at_k: tuple[list[FiguresAtK], list[FiguresAtK]]
    """Then and now: figures of the most probable labels, as the artifact calibrates them; empty where labels exclude
    each other. Only the risk differs, since both are about what the model says now."""

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
            "promised": [without_nan(asdict(one)) for one in self.promised],
            "at_k": [[without_nan(asdict(one)) for one in side] for side in self.at_k],
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
    label_rows: tuple[list[LabelRows], list[LabelRows]] = ([], [])
    missed = MissedSums(), MissedSums()
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
            actions, predictions, same, judged = _decide(rerun, [value for _, value in usable], records)
            _add_label_rows(label_rows, judged, records, rerun.task)
            missed = _with_missed(missed, judged, records, same, rerun.task)
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
        promised=promised_shares(rerun.promises, *missed),
        at_k=(figures_of(label_rows[0]), figures_of(label_rows[1])),
    )


def _decide(
    rerun: Rerun, inputs: Sequence[Read], records: Sequence[LoggedRow]
) -> tuple[list[str], list[Answer | None], list[bool], ReplayResult]:
    """Actions, predictions, whether the outcomes are about what is predicted now, and all that was decided."""
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
    return decided.actions, decided.predictions, same.tolist(), judged


def _add_label_rows(
    to: tuple[list[LabelRows], list[LabelRows]], judged: ReplayResult, records: Sequence[LoggedRow], task: TaskConfig
) -> None:
    """Add the most probable labels of the records with an outcome, as they were answered then and are now."""
    known = np.array([_is_set_of(record.outcome, task) for record in records], dtype=bool)
    if task.exclusive or not known.any():
        return
    labels = [record.outcome if yes else [] for record, yes in zip(records, known.tolist(), strict=True)]
    told = [label if isinstance(label, list) else [] for label in labels]
    truth = np.zeros((0, 0), dtype=bool) if task.sparse else _truth(told, task)
    rows = judged.label_rows(told, truth, task)
    if rows is not None:
        answered = np.array([record.action == "answer" for record in records], dtype=bool)
        to[0].append(replace(rows, answered=answered).rows(known))
        to[1].append(rows.rows(known))


def _with_missed(
    sums: tuple[MissedSums, MissedSums],
    judged: ReplayResult,
    records: Sequence[LoggedRow],
    same: Sequence[bool],
    task: TaskConfig,
) -> tuple[MissedSums, MissedSums]:
    """Add what the sets and the predictions miss of the labels that hold, in the records with an outcome."""
    told = [_labels_of(record.outcome, task) if again else None for record, again in zip(records, same, strict=True)]
    known = np.array([labels is not None for labels in told], dtype=bool)
    if not known.any():
        return sums
    labels = [labels or [] for labels in told]
    some: Sequence[Answer] = [one[0] if task.exclusive and one else one for one in labels]
    truth = np.zeros((0, 0), dtype=bool) if task.sparse else _truth(labels, task)
    members, predicted, holds = judged.holding(some, truth, task)
    return sums[0].added(members[known], holds[known]), sums[1].added(predicted[known], holds[known])


def _labels_of(outcome: Answer | None, task: TaskConfig) -> list[str] | None:
    """The labels that hold; None where no outcome is known, or it names a label that the task has not."""
    labels = [outcome] if isinstance(outcome, str) else outcome
    return labels if labels is not None and all(label in task.table.index for label in labels) else None


def _is_set_of(outcome: Answer | None, task: TaskConfig) -> bool:
    """Whether an outcome is known, and is a list of labels that the task has."""
    return isinstance(outcome, list) and all(label in task.table.index for label in outcome)


def _truth(told: Sequence[Sequence[str]], task: TaskConfig) -> Mask:
    truth = np.zeros((len(told), len(task.labels)), dtype=bool)
    for row, labels in enumerate(told):
        truth[row, [task.table.index[label] for label in labels]] = True
    return task.closed(truth)


def _worth(guess: Answer | None, outcome: Answer | None) -> float | None:
    return None if outcome is None else likeness(guess, outcome)

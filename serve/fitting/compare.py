"""Two artifacts that judge the same labelled rows, of a file or of the log."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from demur.audit.metrics.head_to_head import Contender, HeadToHead, head_to_head, without_nan
from demur.audit.metrics.top_k import FiguresAtK, LabelRows, figures_of
from demur.serve.config.file import Config
from demur.serve.contract.decided import as_columns
from demur.serve.fitting.flip import MOST_FLIPS, Flip
from demur.serve.fitting.labelled_rows import is_label_of, rows_read, said_again, truth_about, truth_of
from demur.serve.fitting.rerun import ROWS_AT_A_TIME, Progress, Read, Rerun
from demur.traffic.database import Database
from demur.traffic.dataset import count_logged, logged_pages, read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.record import Answer
from demur.uncertainty.checks import Mask


class NothingToCompare(ValueError):
    """There are no labelled rows that both artifacts can judge. Widen the range, or give a labelled file."""


@dataclass(frozen=True, kw_only=True)
class ArtifactComparison:
    """What was found, and what could not take part in it."""

    a: str
    b: str
    forgotten: int
    """Labelled records whose input was deleted when its time was up."""

    unusable: int
    """Rows whose input or outcome does not fit the model any more."""

    rewritten: int
    """Rows where another text was judged than is written now: whether that is right, nobody has said."""

    undefined: int
    """Rows without a confidence under one artifact or the other: they would be held."""

    numbers: HeadToHead
    at_k: tuple[list[FiguresAtK], list[FiguresAtK]]
    """Of A and of B: figures of the most probable labels; empty where labels exclude each other."""

    flips: Sequence[Flip]
    """The first of them, in the order of the rows."""

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **parts,
            "numbers": self.numbers.as_json(),
            "at_k": [[without_nan(asdict(one)) for one in side] for side in self.at_k],
            "flips": [asdict(flip) for flip in self.flips],
        }


@dataclass(frozen=True, kw_only=True)
class ReadableRows:
    """Labelled rows of which some could be read."""

    ids: list[str]
    inputs: list[Read]
    groups: list[str | None]
    truth: Mask
    labels: list[Answer]
    said: list[Answer | None] | None
    """What the labels are about, where they are those of the log."""

    forgotten: int = 0
    unusable: int = 0


def compare_on_file(
    config: Config, model: str, a: str, b: str, data: Path, *, form: FileForm | None = None, progress: Progress
) -> ArtifactComparison:
    """Compare on a labelled file, every row of which must be sound."""
    rows = read_labelled_file(data, form or config.model(model).file_form)
    truth = truth_of(rows, config.model(model).task)
    rerun = Rerun(config, model, [a, b])

    def batches() -> Iterator[ReadableRows]:
        end = 0
        for inputs in rows_read(rows, rerun.read, at_a_time=ROWS_AT_A_TIME):
            start, end = end, end + len(inputs)
            yield ReadableRows(
                ids=[f"row {number}" for number in range(start + 1, end + 1)],
                inputs=inputs,
                groups=rows.groups[start:end],
                truth=truth[start:end],
                labels=rows.labels[start:end],
                said=None,
            )
            progress(end, len(rows))

    return _compare(rerun, batches())


def compare_on_traffic(
    config: Config,
    model: str,
    a: str,
    b: str,
    database: Database,
    *,
    since: datetime | None,
    until: datetime | None,
    progress: Progress,
) -> ArtifactComparison:
    """Compare on the records in [since, until) that have an outcome and an input. One page is in memory at a time."""
    rerun = Rerun(config, model, [a, b])
    with database.transaction() as connection:
        total = count_logged(connection, model, since=since, until=until, labelled=True)
    if total == 0:
        raise NothingToCompare(
            f"no record of {model!r} in this range has an outcome; widen it, or compare on a labelled file with --data"
        )
    index = rerun.task.table.index
    width = 1 if rerun.task.sparse else len(index)

    def truth(outcome: Answer, value: Any) -> Mask | None:
        if not is_label_of(outcome, value, rerun.task):
            return None
        if rerun.task.sparse:
            return np.ones(1, dtype=bool)  # what holds is known only with the candidates
        labels = [outcome] if isinstance(outcome, str) else outcome
        row = np.zeros(len(index), dtype=bool)
        row[[index[label] for label in labels]] = True
        return rerun.task.closed(row)  # it may have been told before the task had a label tree

    def batches() -> Iterator[ReadableRows]:
        done = 0
        for page in logged_pages(
            database,
            model,
            precedence=config.precedence(model),
            since=since,
            until=until,
            labelled=True,
            size=ROWS_AT_A_TIME,
        ):
            kept = [(record, record.outcome) for record in page if record.has_input and record.outcome is not None]
            read = [
                (record, rerun.read_if_possible(record.input), truth(outcome, record.input)) for record, outcome in kept
            ]
            whole = [(record, value, row) for record, value, row in read if value is not None and row is not None]
            yield ReadableRows(
                ids=[str(record.id) for record, _, _ in whole],
                inputs=[value for _, value, _ in whole],
                groups=[record.group for record, _, _ in whole],
                truth=np.array([row for _, _, row in whole], dtype=bool).reshape(len(whole), width),
                labels=[record.outcome for record, _, _ in whole if record.outcome is not None],
                said=[record.said for record, _, _ in whole],
                forgotten=len(page) - len(kept),
                unusable=len(kept) - len(whole),
            )
            done += len(page)
            progress(done, total)

    return _compare(rerun, batches())


def _compare(rerun: Rerun, batches: Iterable[ReadableRows]) -> ArtifactComparison:
    columns: tuple[list[Any], list[Any]] = ([], [])
    label_rows: tuple[list[LabelRows], list[LabelRows]] = ([], [])
    forgotten, unusable, rewritten, undefined = 0, 0, 0, 0
    flips: list[Flip] = []
    for batch in batches:
        forgotten += batch.forgotten
        unusable += batch.unusable
        if not batch.ids:
            continue
        judged = rerun.judge(batch.inputs, batch.groups)
        same = np.logical_and.reduce([said_again(one.output, batch.said, rerun.task) for one in judged])
        known = ~np.isnan(judged[0].judgement.confidence) & ~np.isnan(judged[1].judgement.confidence)
        rewritten += int((known & ~same).sum())
        undefined += int((~known).sum())
        sound = known & same
        for side, one in zip(columns, judged, strict=True):
            said = one.judgement
            if rerun.task.sparse:
                quality = one.quality_by_name(batch.labels, rerun.task)
            else:
                quality = one.quality(truth_about(one.output, batch, batch.truth, rerun.task))
            side.append((said.decisions.answered[sound], said.confidence[sound], quality[sound]))
        for named, one in zip(label_rows, judged, strict=True):
            rows = one.label_rows(batch.labels, batch.truth, rerun.task)
            named.extend([] if rows is None else [rows.rows(sound)])
        if len(flips) < MOST_FLIPS:
            a, b = (
                as_columns(
                    one.artifact,
                    rerun.task.labels,
                    one.output,
                    one.judgement,
                    exclusive=rerun.task.exclusive,
                    model_milliseconds=0.0,
                )
                for one in judged
            )
            differ = judged[0].judgement.decisions.answered != judged[1].judgement.decisions.answered
            flips += [
                Flip(
                    id=batch.ids[i],
                    prediction=b.predictions[i],
                    a=a.actions[i],
                    b=b.actions[i],
                    confidence_a=a.confidence[i],
                    confidence_b=b.confidence[i],
                )
                for i in np.flatnonzero(differ & sound).tolist()
            ]
    if not sum(len(answered) for answered, _, _ in columns[0]):
        raise NothingToCompare(
            f"no labelled row can be judged by both artifacts: the inputs of {forgotten:,} were forgotten"
            f" (keep_inputs_days), {unusable:,} do not fit the model, {undefined:,} have no confidence, and of"
            f" {rewritten:,} another text was judged than is written now"
        )
    return ArtifactComparison(
        a=rerun.artifacts[0],
        b=rerun.artifacts[1],
        forgotten=forgotten,
        unusable=unusable,
        rewritten=rewritten,
        undefined=undefined,
        numbers=head_to_head(Contender(**_joined(columns[0])), Contender(**_joined(columns[1]))),
        at_k=(figures_of(label_rows[0]), figures_of(label_rows[1])),
        flips=flips[:MOST_FLIPS],
    )


def _joined(parts: Sequence[Any]) -> dict[str, Any]:
    answered, confidence, quality = (np.concatenate(column) for column in zip(*parts, strict=True))
    return {"answered": answered, "confidence": confidence, "quality": quality}

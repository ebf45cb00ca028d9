"""Cases written to a file: as tasks of Label Studio, or all that is known of each as CSV, Parquet or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, get_args

from demur.review.exchange import Dossier
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.label_studio import InputKind, input_kind, label_config, task_json
from demur.serve.web.review.service import ReviewService
from demur.traffic.spreadsheet import as_cell

CaseFormat = Literal["label-studio", "csv", "parquet", "jsonl"]
FORMATS: tuple[CaseFormat, ...] = get_args(CaseFormat)

MEDIA_TYPES: dict[CaseFormat, str] = {
    "label-studio": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
}
ENDINGS: dict[CaseFormat, str] = {"label-studio": "json", "csv": "csv", "parquet": "parquet", "jsonl": "jsonl"}

ROWS_AT_ONCE = 1000

OPINION = (
    "reviewer",
    "at",
    "adjudicates",
    "label",
    "reason",
    "comment",
    "saw_prediction",
    "seconds",
    "undone_at",
    "text",
    "codes",
)


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    cases: int
    left_out: int
    """Cases that nobody could look at elsewhere: their input is no longer kept."""


def write_cases(
    dossiers: Iterable[Dossier], to: BinaryIO, form: CaseFormat, task: TaskConfig, *, with_predictions: bool = False
) -> CaseFile:
    """Write cases of one model, in their order. `with_predictions` is about Label Studio alone: the other forms hold
    all that is known anyway."""
    if form == "label-studio":
        return _write_tasks(dossiers, to, task, with_predictions=with_predictions)
    rows = (_row(dossier) for dossier in dossiers)
    write = {"jsonl": _write_jsonl, "csv": _write_csv}.get(form)
    n = write(rows, to) if write else _write_parquet(rows, to, task)
    return CaseFile(cases=n, left_out=0)


def config_for(reviews: ReviewService, model: str, task: TaskConfig, kind: InputKind | None) -> str:
    """The labelling configuration, for inputs like those that the cases of the model have."""
    if kind is None and task.kind in ("choice", "generate"):
        kind = input_kind(None, task)
    if kind is None:
        value = reviews.some_input(model)
        if value is None:
            raise InvalidRequest(f"input: there is no case of {model!r} to tell from; say text, image or table")
        kind = input_kind(value, task)
    return label_config(task, kind)


def _write_tasks(dossiers: Iterable[Dossier], to: BinaryIO, task: TaskConfig, *, with_predictions: bool) -> CaseFile:
    n = left_out = 0
    for dossier in dossiers:
        told = task_json(dossier, task, with_prediction=with_predictions)
        if told is None:
            left_out += 1
            continue
        to.write(b"[\n" if n == 0 else b",\n")
        to.write(_json(told))
        n += 1
    to.write(b"\n]\n" if n else b"[]\n")
    return CaseFile(cases=n, left_out=left_out)


def _row(dossier: Dossier) -> dict[str, Any]:
    case, record = dossier.case, dossier.record
    return {
        "case": str(case.id),
        "record": str(record.id),
        "model": case.model,
        "group": case.group,
        "kind": case.kind.value,
        "status": case.status.value,
        "priority": case.priority,
        "created_at": case.created_at,
        "due_at": case.due_at,
        "ended_at": case.ended_at,
        "resolution": case.resolution,
        "label": case.label,
        "input": dossier.value,
        "reply": record.reply["text"] if record.reply else None,
        "reasoning": record.reply.get("reasoning") if record.reply else None,
        "prediction": record.prediction,
        "prediction_set": record.prediction_set,
        "confidence": record.confidence,
        "action": record.action,
        "reason": record.reason,
        "artifact": record.artifact,
        "label_probability": record.label_probability,
        "scores": dict(record.scores),
        "opinions": [{key: getattr(said, key) for key in OPINION} for said in dossier.opinions],
    }


COLUMNS = (
    "case", "record", "model", "group", "kind", "status", "priority", "created_at", "due_at", "ended_at", "resolution",
    "label", "input", "reply", "reasoning", "prediction", "prediction_set", "confidence", "action", "reason",
    "artifact",
    "label_probability", "scores", "opinions",
)  # fmt: skip


def _write_jsonl(rows: Iterable[dict[str, Any]], to: BinaryIO) -> int:
    n = 0
    for n, row in enumerate(rows, start=1):  # noqa: B007 - the last number is the count
        to.write(_json(row) + b"\n")
    return n


def _write_csv(rows: Iterable[dict[str, Any]], to: BinaryIO) -> int:
    text = io.TextIOWrapper(to, encoding="utf-8", newline="", write_through=True)
    out = csv.DictWriter(text, COLUMNS)
    out.writeheader()
    n = 0
    for n, row in enumerate(rows, start=1):  # noqa: B007
        out.writerow({name: _cell(value) for name, value in row.items()})
    text.detach()
    return n


def _write_parquet(rows: Iterable[dict[str, Any]], to: BinaryIO, task: TaskConfig) -> int:
    import pyarrow as pa  # here, because it is large, and the pages seldom need it
    import pyarrow.parquet as parquet

    schema = _schema(task)
    n = 0
    with parquet.ParquetWriter(to, schema) as out:
        for some in _batches(rows):
            for row in some:
                row["input"] = _as_text(row["input"])
                row["scores"] = _json(row["scores"]).decode()
                for said in row["opinions"]:
                    said["label"] = _as_text(said["label"])
            out.write_table(pa.Table.from_pylist(some, schema=schema))
            n += len(some)
    return n


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == ROWS_AT_ONCE:
            yield some
            some = []
    yield some  # also where there is none: an empty file has columns too


def _schema(task: TaskConfig) -> Any:
    import pyarrow as pa

    text, time, number = pa.string(), pa.timestamp("us", tz="UTC"), pa.float64()
    answer = text if task.exclusive else pa.list_(text)
    said = {"at": time, "undone_at": time, "adjudicates": pa.bool_(), "saw_prediction": pa.bool_(), "seconds": number}
    said |= {"codes": pa.list_(text)}
    types = {
        **dict.fromkeys(("created_at", "due_at", "ended_at"), time),
        **dict.fromkeys(("label", "prediction"), answer),
        **dict.fromkeys(("confidence", "label_probability"), number),
        "priority": pa.int64(),
        "prediction_set": pa.list_(text),
        "opinions": pa.list_(pa.struct([(name, said.get(name, text)) for name in OPINION])),
    }
    return pa.schema([(name, types.get(name, text)) for name in COLUMNS])


def _cell(value: Any) -> Any:
    """Return what a cell holds: lists and objects as JSON, which `demur.traffic.dataset` reads back, nothing for None,
    and a text in which no program sees a formula."""
    if isinstance(value, list | dict):
        return _json(value).decode()
    if isinstance(value, str):
        return as_cell(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value).decode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)

"""Predicting the rows of files that outgrow one machine: Ray Data reads them, and workers ask the service."""

import hashlib
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa

from demur.client.errors import DemurError, InvalidRequest
from demur.client.items import Item, encoded
from demur.client.sync_client import Client
from demur.serve.commands.bulk.columns import Columns
from demur.serve.commands.bulk.result_file import TYPES, BulkCounts
from demur.serve.commands.bulk.result_log import ENDING, RunDiffers
from demur.serve.commands.bulk.run import (
    ABOUT_A_ROW,
    PREDICTED,
    FileExists,
    RunStopped,
    check_first_row,
    first_row,
    predicted,
)
from demur.traffic.file_form import FileForm
from demur.traffic.row_file import stream_rows
from demur.traffic.table_file import ENDINGS, BadDataFile, Row

BATCHES_PER_TASK = 16
ROWS_PER_FILE = 100_000
CORES_PER_WORKER = 0.25
"""A worker mostly waits for the service."""

SCHEMA = pa.schema([("path", pa.string()), *((name, TYPES.get(name, pa.string())) for name in PREDICTED)])


@dataclass(frozen=True, kw_only=True)
class PredictionJob:
    """Every row of a file, or of all files of a folder, to be predicted; the results go to a folder of Parquet files.
    Both may be URLs that fsspec understands; workers must see them."""

    source: str
    out: str
    model: str
    columns: Columns
    form: FileForm
    url: str | None
    key: str | None = field(repr=False)
    batch_size: int
    workers: int
    run: str | None

    def check(self) -> list[str]:
        """Return the files that are to be read. Raises `BadDataFile` or `FileExists` where it is clear beforehand that
        nothing comes of it."""
        files = _files(self.source)
        self._reading.check(files[0])
        system, path = fsspec.url_to_fs(self.out)
        if system.exists(path) and not system.exists(path.rstrip("/") + ENDING):
            raise FileExists(f"{self.out} is there already; name another folder, or remove it")
        return files

    def predict(self, files: list[str]) -> BulkCounts:
        """Predict the rows of these files. Ray must have been started or joined.

        Rows are asked about under keys that are made of the run, the file and the number of the row: a task that Ray
        does again, or a second run after one that was stopped, predicts nothing twice. Raises `RunStopped`.
        """
        import ray
        from ray.exceptions import RayError

        columns = self.columns.named()
        settings = {"model": self.model, "batch_size": self.batch_size, "columns": columns, "files": files}
        run = _begun(self.out, settings, self.run)
        asking = _Asking(self.url, self.key, self.model, self.batch_size, f"{run} {self.model}")
        ray.data.DataContext.get_current().enable_progress_bars = sys.stdout.isatty()
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what stops it is told in a sentence
        todo = ray.data.from_items([{"path": path} for path in files], override_num_blocks=len(files))
        answers = (
            todo.map_batches(self._reading, batch_size=1)
            .repartition(target_num_rows_per_block=1)
            .map_batches(
                asking,
                batch_size=1,
                batch_format="numpy",
                compute=ray.data.TaskPoolStrategy(size=self.workers),
                num_cpus=CORES_PER_WORKER,  # other than for reading, else one task would do both
            )
        )
        try:
            with warnings.catch_warnings(action="ignore"):  # that a small file keeps few workers busy
                answers.write_parquet(self.out, mode="overwrite", min_rows_per_file=ROWS_PER_FILE)
        except (RayError, DemurError) as error:
            raise RunStopped(f"{_why(error)}; the same command goes on from there") from None
        tally = _tally(self.out)
        _forget(self.out)
        return tally

    @property
    def _reading(self) -> "_RayRows":
        return _RayRows(self.columns, self.form, self.batch_size * BATCHES_PER_TASK)


class _RayRows:
    """Reads files, and yields their rows in chunks, each as the JSON of what is to be sent of them."""

    def __init__(self, columns: Columns, form: FileForm, size: int) -> None:
        self._columns, self._form, self._size = columns, form, size

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for path in batch["path"]:
            yield from self._chunks(str(path))

    def check(self, path: str) -> None:
        """Raise `BadDataFile` where nothing can be made of the first row of a file."""
        check_first_row(self._rows(path), self._columns_of(path).item)

    def _rows(self, path: str) -> Iterator[tuple[str, Row]]:
        return stream_rows(Path(path), lambda: fsspec.open(path, "rb").open(), self._form)

    def _chunks(self, path: str) -> Iterator[dict[str, Any]]:
        first, chunk, columns = 0, [], self._columns_of(path)
        for where, row in self._rows(path):
            chunk.append(_sent(columns, where, row))
            if len(chunk) == self._size:
                yield {"path": [path], "first": [first], "items": [encoded(chunk)]}
                first, chunk = first + len(chunk), []
        if chunk:
            yield {"path": [path], "first": [first], "items": [encoded(chunk)]}

    def _columns_of(self, path: str) -> Columns:
        return self._columns.of(Path(path), first_row(self._rows(path)))


class _Asking:
    """Asks the service about chunks of rows."""

    def __init__(self, url: str | None, key: str | None, model: str, batch_size: int, run: str) -> None:
        self._url, self._key = url, key
        self._model, self._batch_size, self._run = model, batch_size, run

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[pa.Table]:
        with Client(self._url, self._key) as client:
            for path, first, items in zip(batch["path"], batch["first"].tolist(), batch["items"], strict=True):
                yield self._answers(client, str(path), first, json.loads(items))

    def _answers(self, client: Client, path: str, first: int, items: list[dict[str, Any]]) -> pa.Table:
        made = (InvalidRequest(one["refused"]) if "refused" in one else Item(**one) for one in items)
        key = hashlib.sha256(f"{self._run} {path}".encode()).hexdigest()[:40]
        answers = client.predict_iter(
            self._model, made, on_error="return", batch_size=self._batch_size, idempotency_key=key, first=first
        )
        rows = []
        with closing(answers):
            for number, answer in enumerate(answers, start=first + 1):
                if isinstance(answer, DemurError) and not isinstance(answer, ABOUT_A_ROW):
                    raise answer
                result = {"path": path, **predicted(number, answer)}
                if isinstance(result["prediction"], list):  # a column has one type, whatever the task
                    result["prediction"] = json.dumps(result["prediction"], ensure_ascii=False)
                rows.append(result)
        return pa.Table.from_pylist(rows, SCHEMA)


def _sent(columns: Columns, where: str, row: Row) -> dict[str, Any]:
    """What is sent of a row, or why nothing can be, as JSON has it."""
    try:
        made = columns.item(where, row)
        if isinstance(made, DemurError):
            raise made
        told = {"input": made.input, "output": made.output, "group": made.group, "cluster": made.cluster}
        encoded(told)
    except InvalidRequest as error:
        return {"refused": error.told}
    return told


def _files(source: str) -> list[str]:
    """The files to read, in the order of their names."""
    system, path = fsspec.url_to_fs(source)
    if system.isdir(path):
        found = [one for one in sorted(system.ls(path, detail=False)) if Path(one).suffix.lower() in ENDINGS]
    else:
        found = [path] if system.exists(path) else []
    if not found:
        raise BadDataFile(f"{source}: there is no such file, and no folder with files that end in {', '.join(ENDINGS)}")
    return found if system.protocol[0] == "file" else [system.unstrip_protocol(one) for one in found]


def _begun(out: str, settings: Mapping[str, Any], run: str | None) -> str:
    """The name of the run, which is kept beside its results until they are whole."""
    system, path = fsspec.url_to_fs(out)
    told = path.rstrip("/") + ENDING
    if system.exists(told):
        begun = json.loads(system.cat_file(told))
        if {**begun, "run": None} != {**settings, "run": None} or run not in (None, begun["run"]):
            raise RunDiffers(f"{out}{ENDING} was begun with other settings; finish that run with them, or remove it")
        return str(begun["run"])
    name = run or uuid4().hex
    system.makedirs(system._parent(told), exist_ok=True)
    system.pipe_file(told, json.dumps({**settings, "run": name}).encode())
    return name


def _forget(out: str) -> None:
    system, path = fsspec.url_to_fs(out)
    system.rm_file(path.rstrip("/") + ENDING)


def _tally(out: str) -> BulkCounts:
    from pyarrow import dataset

    system, path = fsspec.url_to_fs(out)
    tally = BulkCounts()
    if not system.exists(path):  # there were no rows
        return tally
    written = dataset.dataset(path, filesystem=system, format="parquet")
    for batch in written.to_batches(columns=["path", "row", "action", "error"]):
        rows = ({**one, "row": f"{one['row']} of {one['path']}"} for one in batch.to_pylist())
        for _ in tally.counted(rows):
            pass
    return tally


def _why(error: Exception) -> str:
    """What stopped the workers, without the way that it took through them."""
    ours = [line.partition(": ")[2] for line in str(error).splitlines() if line.startswith("demur.")]
    return ours[-1] if ours else " ".join(str(error).split())[-500:]

"""What a model said about labelled rows, kept so that the next fit on them need not run it again.

A folder for each model, for nobody but its owner. Each file holds a few rows, and its name is the SHA-256 of all that
the output hangs on. Nothing is unpickled, and a file that cannot be read is passed over.
"""

import hashlib
import io
import json
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from demur.library.facts import versions
from demur.serve.config.file import Config
from demur.serve.fitting.moved_traffic import needs_of_fit
from demur.serve.fitting.rerun import LoadedModel
from demur.traffic.dataset import GivenRow
from demur.uncertainty.generation import Generation, Outage, Replies, Usage
from demur.uncertainty.output import Output

FORM = 1
"""The version of the form of the files. It is part of their names, so files of another form are not read."""

SUFFIX = ".npz"

OBJECTS = "objects"
"""The array of a file that holds, as the bytes of a JSON text, the parts of an output that are no numbers."""

UNFINISHED_SECONDS = 24 * 3600.0
"""A file that was begun so long ago will not be finished."""

WRITTEN = {one.__name__: one for one in (Replies, Generation, Usage, Outage)}

UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


class NotWritten(ValueError):
    """The output holds something that has no form in a file. The fit goes on without keeping it."""


class KeptOutputs:
    """The outputs of one model that are kept, and what became of them in this fit."""

    def __init__(self, folder: Path, *, hangs_on: Mapping[str, Any], most_bytes: int, fresh: bool = False) -> None:
        self._folder, self._most_bytes, self._fresh = folder, most_bytes, fresh
        self._hangs_on = json.dumps({"form": FORM, **hangs_on}, sort_keys=True, default=str)
        self._rows, self._broken, self._oldest = 0, 0, time.time()
        self._trouble = ""

    def of(self, inputs: Sequence[Any], run: Callable[[], Output]) -> Output:
        """Return what is kept about these inputs; else what `run` says, which is then kept."""
        name = self._name(inputs)
        if name is None or self._trouble:
            return run()
        path = self._folder / f"{name}{SUFFIX}"
        found = None if self._fresh else self._read(path, len(inputs))
        if found is not None:
            self._rows += len(inputs)
            return found
        output = run()
        self._write(path, output)
        return output

    def close(self) -> list[str]:
        """Delete what was used longest ago, down to the size that may be kept, and return what an operator should
        know."""
        try:
            self._delete_old()
        except OSError as error:
            self._trouble = self._trouble or str(error)
        said = []
        if self._rows:
            day = time.strftime("%Y-%m-%d", time.gmtime(self._oldest))
            said.append(
                f"The model was not run again on {self._rows:,} rows: what it said about them is kept, the oldest from"
                f" {day}. --fresh runs it on all rows"
            )
        if self._broken:
            said.append(f"{self._broken:,} files in {self._folder} could not be read, and were made again")
        if self._trouble:
            said.append(f"What the model said could not be kept in {self._folder}: {self._trouble}")
        return said

    def _name(self, inputs: Sequence[Any]) -> str | None:
        """None for inputs that nothing tells apart surely."""
        try:
            text = json.dumps([self._hangs_on, list(inputs)], sort_keys=True, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError):
            return None
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _read(self, path: Path, n: int) -> Output | None:
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            self._broken += 1
            return None
        try:
            made_at, output = output_from(content)
            if len(output) != n:
                raise ValueError(f"{path} holds {len(output)} rows, and {n} were asked for")
            self._oldest = min(self._oldest, made_at)
            os.utime(path)  # the time of the last use decides what is deleted first
        except UNREADABLE:
            self._broken += 1
            return None
        return output

    def _write(self, path: Path, output: Output) -> None:
        """Write a file, as a whole or not at all. Where that cannot be done, nothing is kept, and the fit goes on."""
        try:
            content = bytes_of(output, made_at=time.time())
            if len(content) > self._most_bytes:
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            handle, unfinished = tempfile.mkstemp(dir=self._folder, suffix=".part")  # readable by its owner alone
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(unfinished).replace(path)
            except BaseException:
                Path(unfinished).unlink(missing_ok=True)
                raise
        except (OSError, NotWritten) as error:
            self._trouble = str(error)

    def _delete_old(self) -> None:
        if not self._folder.is_dir():
            return
        files = [(path, path.stat()) for path in self._folder.iterdir()]
        for path, told in files:
            if path.suffix == ".part" and told.st_mtime < time.time() - UNFINISHED_SECONDS:
                path.unlink(missing_ok=True)
        kept = 0
        for path, told in sorted(files, key=lambda one: -one[1].st_mtime):
            if path.suffix != SUFFIX:
                continue
            kept += told.st_size
            if kept > self._most_bytes:
                path.unlink(missing_ok=True)


def kept_outputs(config: Config, models: Mapping[str, LoadedModel], *, fresh: bool) -> dict[str, KeptOutputs]:
    """What is kept of each model. Nothing of one that runs elsewhere, whose rows bring the output, nor of one that is
    shown the latest reviews."""
    kept = {}
    for step, loaded in models.items():
        model = config.model(step)
        shots = model.prompt.few_shot
        if model.host.is_given or model.calibration.keep_outputs_mb == 0 or (shots and shots.examples == "reviews"):
            continue
        asked = model.model_dump(mode="json", include={"task", "host", "prompt", "samples"})
        kept[step] = KeptOutputs(
            config.data / "outputs" / step,
            hangs_on={
                "versions": versions(),
                "identity": asdict(loaded.identity),
                "asked": asked,
                "needs": sorted(needs_of_fit(model)),
                "seed": model.calibration.seed,
            },
            most_bytes=model.calibration.keep_outputs_mb * 1_000_000,
            fresh=fresh,
        )
    return kept


def bytes_of(output: Output, *, made_at: float) -> bytes:
    """Return the content of a file. Raises `NotWritten`."""
    numbers, objects = {}, {}
    for name, part in output.parts().items():
        if part.dtype == object:
            objects[name] = [_described(value) for value in part.tolist()]
        else:
            numbers[name] = part
    text = json.dumps({"made_at": made_at, "parts": objects})
    file = io.BytesIO()
    np.savez(file, **numbers, **{OBJECTS: np.frombuffer(text.encode(), dtype=np.uint8)})  # type: ignore[arg-type]
    return file.getvalue()


def output_from(content: bytes) -> tuple[float, Output]:
    """Return when a file was made, and the output in it. Raises one of `UNREADABLE`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        parts: dict[str, Any] = {name: arrays[name] for name in arrays.files if name != OBJECTS}
        told = json.loads(arrays[OBJECTS].tobytes())
    for name, values in told["parts"].items():
        column = np.empty(len(values), dtype=object)
        column[:] = [_rebuilt(value) for value in values]
        parts[name] = column
    return float(told["made_at"]), Output(**parts)


def _described(value: Any) -> Any:
    """A value as JSON: lists are tuples, and everything else that JSON has not is an object with one key."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, tuple):
        return [_described(one) for one in value]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return {"array": value.tolist()}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    if isinstance(value, Mapping):
        return {"map": [[_described(key), _described(one)] for key, one in value.items()]}
    if is_dataclass(value) and type(value).__name__ in WRITTEN:
        return {type(value).__name__: {one.name: _described(getattr(value, one.name)) for one in fields(value)}}
    raise NotWritten(f"what the model said holds {type(value).__name__}")


def _rebuilt(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_rebuilt, value))
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return np.array(content, dtype=np.float64)
    if kind == "set":
        return frozenset(content)
    if kind == "map":
        return {_rebuilt(key): _rebuilt(one) for key, one in content}
    return WRITTEN[kind](**{name: _rebuilt(one) for name, one in content.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, GivenRow):
        return {"given_row": [value.input, value.output]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, datetime | date):
        return {"date": value.isoformat()}
    raise TypeError(f"{type(value).__name__} has no text of its own")

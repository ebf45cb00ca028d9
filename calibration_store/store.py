"""Where artifacts are kept, and which one is in force for each model.

    <url>/<model>/artifacts/<name>/arrays.safetensors   written first
    <url>/<model>/artifacts/<name>/manifest.json        written last: with it the artifact is there
    <url>/<model>/promotions/00000001.json              one file for each promotion; the highest number is in force

Promotions are only ever added, each under a number that can be taken once, so the history is the pointer and two
people who promote at the same moment both end up in it. Going back is one more entry, never one less.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import fsspec

from calibration_store.artifact import Artifact, ArtifactFiles, ArtifactRefused, unpack


class ArtifactNotFound(LookupError):
    """No such artifact, or none in force. Fit one with `demur fit`, put it in force with `demur artifacts promote`."""


class NothingToRollBack(LookupError):
    """No other artifact was in force before the present one. Promote the one that is wanted by its name."""


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """One entry of the history: from `at` on, `artifact` is in force."""

    number: int
    artifact: str
    at: str
    by: str
    why: str
    rolled_back: str | None = None
    """Of a rollback, the artifact that it put out of force; None for any other promotion."""


class ArtifactStore:
    """A folder, or anything else that fsspec can address by URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files: fsspec.AbstractFileSystem
        self._files, root = fsspec.core.url_to_fs(url, auto_mkdir=True)
        self._root = root.rstrip("/")

    def save(self, model: str, files: ArtifactFiles) -> None:
        """Store the files. An artifact that is there already has this very content and is left alone."""
        folder = f"{self._root}/{model}/artifacts/{files.name}"
        if not self._files.exists(f"{folder}/manifest.json"):
            self._files.pipe_file(f"{folder}/arrays.safetensors", files.arrays)
            self._files.pipe_file(f"{folder}/manifest.json", files.manifest)

    def load(self, model: str, name: str) -> Artifact:
        """Return a checked artifact, or raise `ArtifactNotFound` or `ArtifactRefused`."""
        folder = f"{self._root}/{model}/artifacts/{name}"
        if not self._files.exists(folder):
            known = ", ".join(self.names(model)) or "none"
            raise ArtifactNotFound(f"there is no artifact {name!r} for model {model!r} in {self.url} (there: {known})")
        contents = {}
        for file in ("manifest.json", "arrays.safetensors"):
            try:
                contents[file] = self._files.cat_file(f"{folder}/{file}")
            except FileNotFoundError:
                raise ArtifactRefused(f"artifact {name} is half written: {file} is missing; fit it again") from None
        return unpack(
            ArtifactFiles(name=name, manifest=contents["manifest.json"], arrays=contents["arrays.safetensors"])
        )

    def names(self, model: str) -> list[str]:
        """Names of all stored artifacts of a model, half-written ones included."""
        return self._children(f"{self._root}/{model}/artifacts")

    def promote(self, model: str, name: str, *, by: str, why: str, clock: Callable[[], datetime]) -> Promotion:
        """Put an artifact in force. It is read and checked first."""
        self.load(model, name)
        return self._append(model, Promotion(number=0, artifact=name, at=clock().isoformat(), by=by, why=why))

    def rollback(self, model: str, *, by: str, why: str, clock: Callable[[], datetime]) -> Promotion:
        """Put the artifact in force again that was in force before the present one. It is read and checked first.

        What was rolled back does not come back by rolling back once more: that goes one further. Where to is settled
        by what is in force at the call. Whoever rolls back the same artifact at the same moment arrives at the same
        one, and not one further than either of them meant.
        """
        line = _line(self.history(model))
        if not line:
            raise NothingToRollBack(f"no artifact was ever in force for model {model!r} in {self.url}")
        if len(line) == 1:
            raise NothingToRollBack(
                f"there is nothing to roll back to for model {model!r}: no other artifact was in force before"
                f" {line[0]}; put another one in force with `demur artifacts promote`"
            )
        earlier, present = line[-2:]
        self.load(model, earlier)
        at = clock().isoformat()
        return self._append(model, Promotion(number=0, artifact=earlier, at=at, by=by, why=why, rolled_back=present))

    def _append(self, model: str, entry: Promotion) -> Promotion:
        """Write the entry under the next number that is free, and return it with that number."""
        folder = f"{self._root}/{model}/promotions"
        while True:
            number = 1 + max((_number(file) for file in self._children(folder)), default=0)
            numbered = replace(entry, number=number)
            self._files.makedirs(folder, exist_ok=True)
            try:
                with self._files.open(f"{folder}/{number:08}.json", "xb") as file:
                    file.write(json.dumps(asdict(numbered)).encode())
            except FileExistsError:
                continue  # somebody else took this number; theirs came first
            return numbered

    def history(self, model: str) -> list[Promotion]:
        """All promotions of a model, oldest first."""
        files = self._children(f"{self._root}/{model}/promotions")
        return [entry for file in files if (entry := self._promotion(model, file))]

    def name_in_force(self, model: str) -> str | None:
        """Name of the artifact in force, or None. Cheap: hosts ask every other second."""
        for file in reversed(self._children(f"{self._root}/{model}/promotions")):
            if entry := self._promotion(model, file):
                return entry.artifact
        return None

    def in_force(self, model: str) -> Artifact:
        """Return the artifact in force, checked."""
        name = self.name_in_force(model)
        if name is None:
            raise ArtifactNotFound(
                f"no artifact is in force for model {model!r} in {self.url}; run"
                f" `demur fit {model} --data FILE --promote`"
            )
        return self.load(model, name)

    def _promotion(self, model: str, file: str) -> Promotion | None:
        """An entry, or None for one that broke off while it was written: it never took effect."""
        try:
            return Promotion(**json.loads(self._files.cat_file(f"{self._root}/{model}/promotions/{file}")))
        except (ValueError, TypeError):
            return None

    def _children(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            entries: list[Any] = self._files.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries)


def _number(file: str) -> int:
    stem = file.removesuffix(".json")
    return int(stem) if stem.isdigit() else 0


def _line(history: Sequence[Promotion]) -> list[str]:
    """The artifacts that lead up to the one in force, which is the last; none follows itself.

    A promotion makes the line longer, a rollback cuts it back to where its artifact stands.
    """
    line: list[str] = []
    for entry in history:
        if entry.rolled_back is not None and entry.artifact in line:
            while line[-1] != entry.artifact:
                line.pop()
        elif line[-1:] != [entry.artifact]:
            line.append(entry.artifact)
    return line

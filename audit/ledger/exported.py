"""What has been exported of a model: which files, and up to when.

    URL/model=digits/day=2026-11-21/records-FROM-TO.parquet    the records of that day
                                    outcomes-FROM-TO.parquet   what became known about them, whenever it did
                                    reviews-FROM-TO.parquet    cases about them, as they ended
                    /_exports/00000001.json                    one for each run: the files that it wrote

A file counts once a run names it. A run that dies half way has named none, and the next one begins where it began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Literal

import orjson

from demur.calibration_store.folder import Folder

Kind = Literal["records", "outcomes", "reviews", "inputs"]

VERSION = 1


class NotExported(LookupError):
    """There is no export of this model here, or none that reaches so far. Run `demur export` first."""


class ExportUnreadable(ValueError):
    """The list of files was written by a newer demur, or by something else. The message names it."""


class ExportedMeanwhile(RuntimeError):
    """Another run has exported the same model to the same place meanwhile. Nothing is lost; run it again."""


@dataclass(frozen=True, kw_only=True)
class File:
    """Some rows of one kind, about the records of one day."""

    path: str
    """Below the folder of the model."""

    kind: Kind
    day: date
    """In UTC."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the export: everything that was written after `begin` and up to `end`."""

    begin: datetime | None
    """None: from the first record on."""

    end: datetime
    files: Sequence[File]


class ExportFolder:
    """The export of one model under a URL."""

    def __init__(self, url: str, model: str) -> None:
        self.model = model
        self.folder = Folder(f"{url.rstrip('/')}/model={model}", holds="exported records")

    @cached_property
    def runs(self) -> list[Run]:
        """Oldest first; as they were when first asked for."""
        return [self._read(name) for name in self.folder.children("_exports") if name.endswith(".json")]

    @property
    def end(self) -> datetime | None:
        """Up to when everything has been exported; None before the first run."""
        return self.runs[-1].end if self.runs else None

    def files(self, kind: Kind, first: date, last: date) -> Iterator[File]:
        """Those about records of these days, both of them included."""
        for run in self.runs:
            yield from (file for file in run.files if file.kind == kind and first <= file.day <= last)

    def days(self) -> dict[date, int]:
        """Those of which there are records, in order, and how many."""
        found: dict[date, int] = {}
        for file in self.files("records", date.min, date.max):
            found[file.day] = found.get(file.day, 0) + file.rows
        return dict(sorted(found.items()))

    def add(self, run: Run) -> None:
        """Let the files of a run count, all at once; raise `ExportedMeanwhile` if another run was faster."""
        path = f"_exports/{len(self.runs) + 1:08d}.json"
        content = {"version": VERSION, "model": self.model, **asdict(run)}
        if not self.folder.create(path, orjson.dumps(content, option=orjson.OPT_INDENT_2)):
            raise ExportedMeanwhile(
                f"another run has exported {self.model!r} to {self.folder.url} meanwhile; run it again"
            )
        self.runs.append(run)

    def _read(self, name: str) -> Run:
        where = f"{self.folder.url}/_exports/{name}"
        try:
            content: dict[str, Any] = orjson.loads(self.folder.read(f"_exports/{name}"))
            if content["version"] != VERSION:
                raise ExportUnreadable(f"{where} is of version {content['version']}; read it with a newer demur")
            return Run(
                begin=None if content["begin"] is None else _moment(content["begin"]),
                end=_moment(content["end"]),
                files=[File(**{**file, "day": date.fromisoformat(file["day"])}) for file in content["files"]],
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ExportUnreadable):
                raise
            raise ExportUnreadable(f"{where} is not the list of an export's files: {error}") from None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)

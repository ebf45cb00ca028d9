"""What was compared in a tournament so far: one line of JSON for each round, so that it can go on after a break."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

from pydantic import Field, ValidationError

from demur.serve.config.settings import Section
from demur.serve.hosts.language.pair import Side

Match = tuple[int, int, Side | None]
"""The players that were shown as A and as B, by number, and the side that was found more surely positive."""


TOLD = frozenset({"schedule", "seed"})
"""Of what a journal begins with, what says something to people."""


class Round(Section):
    """One line."""

    round: Annotated[int, Field(ge=1)]
    matches: tuple[Match, ...]
    failed: int = 0
    """Of the matches without a verdict, those that the model gave no reply to."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class JournalRefused(ValueError):
    """A journal cannot be gone on with. The message says why, and what to do."""


class Journal:
    """An open journal, which nobody else may write meanwhile."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, anew: bool = False) -> None:
        """Open a journal, or begin one; with `anew`, what is in it is thrown away.

        A last line that was not written to its end is dropped: its round is played again. Raises `JournalRefused` where
        it was begun under another `header`, is in use, or is broken elsewhere.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if anew:
                self._file.truncate(0)
            self.rounds = self._read(json.loads(json.dumps(header)))
        except BlockingIOError:
            self._file.close()
            raise JournalRefused(f"{path} is being written by another `demur rank`; wait for it to end") from None
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def append(self, played: Round) -> None:
        """Add a round; it is on disk when this returns."""
        self._write(played.model_dump_json().encode())
        self.rounds.append(played)

    def _read(self, header: dict[str, Any]) -> list[Round]:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        if not lines:
            self._write(json.dumps(header).encode())
            return []
        self._check(lines[0], header)
        return [self._round(number, line) for number, line in enumerate(lines[1:], start=1)]

    def _check(self, line: bytes, header: dict[str, Any]) -> None:
        try:
            begun = json.loads(line)
        except ValueError:
            begun = None
        if not isinstance(begun, dict):
            raise JournalRefused(f"{self._path} is no journal of `demur rank`; give another --out, or --anew")
        other = [
            f"{name} {begun.get(name)}, not {value}" if name in TOLD else f"other {name}"
            for name, value in header.items()
            if begun.get(name) != value
        ]
        if other or set(begun) != set(header):
            raise JournalRefused(
                f"{self._path} was begun with {', '.join(other) or 'what is not known here'}: its rounds cannot be gone"
                " on with; give another --out, or --anew to begin again"
            )

    def _round(self, number: int, line: bytes) -> Round:
        try:
            played = Round.model_validate_json(line)
        except ValidationError:
            played = None
        if played is None or played.round != number:
            raise JournalRefused(
                f"{self._path}, line {number + 1}: not the journal of round {number}; cut the file off before that"
                " line, or begin again with --anew"
            )
        return played

    def _write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

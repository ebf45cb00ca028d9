"""The last fit of a model that was refused, kept beside its artifacts so that people see why there is no newer one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from demur.calibration_store.folder import Folder

LONGEST_WHY = 4_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedFit:
    """A fit that stored nothing."""

    at: str
    """When, in ISO 8601."""

    why: str
    """What the fit said: a sentence or more, with what would be enough."""

    data: str
    """The rows that the fit was made on, in words."""


class RefusedFits:
    """Keeps one for each model, the last. Every method may raise `ArtifactsUnreachable`."""

    def __init__(self, url: str) -> None:
        self._folder = Folder(url)

    def note(self, model: str, refused: RefusedFit) -> None:
        """Keep this one, in the place of the one before."""
        content = {**asdict(refused), "why": refused.why[:LONGEST_WHY]}
        self._folder.write(_path(model), orjson.dumps(content))

    def last(self, model: str) -> RefusedFit | None:
        """Return the last one, also where an artifact was fitted since; None where there was none, or where what is
        kept cannot be read."""
        try:
            told: Any = orjson.loads(self._folder.read(_path(model)))
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None
        names = RefusedFit.__dataclass_fields__
        if not isinstance(told, Mapping) or not all(isinstance(told.get(name), str) for name in names):
            return None
        return RefusedFit(**{name: told[name] for name in names})


def _path(model: str) -> str:
    return f"{model}/refused.json"

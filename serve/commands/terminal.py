"""What every command shares: the terminal, the configuration file, times, the database."""

import getpass
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from demur.calibration_store.history import Change
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import BadConfig, Config
from demur.serve.contract.printable import printable

if TYPE_CHECKING:
    from demur.traffic.database import Database


class Terminal(Console):
    """Shows texts as they are: what was stored gives the terminal no orders, and is no markup either."""

    def __init__(self, **more: Any) -> None:
        super().__init__(soft_wrap=True, highlight=False, markup=False, **more)

    def render_str(self, text: str, **more: Any) -> Text:
        return super().render_str(printable(text), **more)  # before it is measured

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


out = Terminal(width=None if sys.stdout.isatty() else 200)
"""A table is folded to fit a terminal, but hardly for a file or another program."""

DEFAULT_CONFIGS = ("demur.yaml", "deploy/quickstart.yaml")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="DEMUR_CONFIG",
        help=f"Configuration file; by default the first of these that exists: {', '.join(DEFAULT_CONFIGS)}.",
    ),
]


def config_path(given: Path | None) -> Path:
    if given is not None:
        return given
    for candidate in DEFAULT_CONFIGS:
        if Path(candidate).is_file():
            return Path(candidate)
    raise BadConfig(f"no configuration file given, and there is none of: {', '.join(DEFAULT_CONFIGS)}")


def moment(text: str | None) -> datetime | None:
    """A time given as an age (7d, 12h, 30m) or as an ISO date; without a zone it is in UTC."""
    if text is None:
        return None
    units = {"d": "days", "h": "hours", "m": "minutes"}
    try:
        if text[-1:] in units:
            return now() - timedelta(**{units[text[-1]]: float(text[:-1])})
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise BadConfig(f"{text!r} is neither an age like 7d, 12h or 30m nor a date like 2026-11-21T08:00") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
    )


def put_in_force(settings: Config, model: str, name: str, why: str) -> None:
    store = ArtifactStore(settings.artifacts)
    promotion = store.promote(model, name, by=getpass.getuser(), why=why, clock=now)
    out.print(f"{promotion.artifact} is in force for {model} (promotion {promotion.number})")
    for sentence in ended_roles(promotion):
        out.print(sentence)


def ended_roles(change: Change) -> list[str]:
    """Which artifact had a role before this change and has it no more, one sentence each."""
    ended = {"shadow": change.shadow_ended, "canary": change.canary_ended}
    return [f"{name} is no longer the {role}" for role, name in ended.items() if name is not None]


def opened_database(settings: Config, until_closed: ExitStack) -> "Database":
    """The configured database, for as long as the stack is open."""
    from demur.serve.database.opening import open_database
    from demur.serve.database.postgres import EmbeddedPostgres

    dsn = settings.database
    if dsn == "embedded":
        dsn = until_closed.enter_context(EmbeddedPostgres(settings.data)).dsn
    database = open_database(dsn)
    until_closed.callback(database.close)
    return database


def write_json(path: Path | None, numbers: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False), encoding="utf-8")
        out.print(f"numbers: {path}")

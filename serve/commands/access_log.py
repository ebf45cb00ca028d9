"""`demur access-log`: who was shown which case, when, through what, and how much of it."""

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from demur.serve.commands.terminal import ConfigOption, config_path, moment, opened_database, out, write_json
from demur.serve.configuration import load_config


def access_log(
    case: Annotated[UUID | None, typer.Option(help="Id of a case.")] = None,
    person: Annotated[str | None, typer.Option(help="Name of whoever was shown cases.")] = None,
    since: Annotated[str | None, typer.Option(help="Start: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many, the latest first.")] = 1000,
    to: Annotated[Path | None, typer.Option("--json", help="File for them, as JSON.")] = None,
    config: ConfigOption = None,
) -> None:
    """Show who was shown which case: on its page, in a list, through the API, in an exported file."""
    from demur.review.access import views

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            found = views(connection, case_id=case, person=person, since=moment(since), limit=limit)
    write_json(to, [{**asdict(one), "case_id": str(one.case_id), "at": one.at.isoformat()} for one in found])
    if not found:
        out.print("nobody was shown such a case")
        return
    table = Table("at (UTC)", "person", "case", "through", "shown")
    for one in found:
        shown = ", ".join(one.shown) or "that it exists"
        table.add_row(f"{one.at:%Y-%m-%d %H:%M:%S}", one.person, str(one.case_id), one.through, shown)
    out.print(table)

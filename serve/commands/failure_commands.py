"""`demur failures`: requests that got an error because a model could not be asked."""

from contextlib import ExitStack
from typing import Annotated

import typer
from rich.table import Table

from demur.serve.commands.terminal import ConfigOption, config_path, moment, opened_database, out
from demur.serve.configuration import load_config


def failures(
    since: Annotated[str, typer.Option(help="Start: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00.")] = "7d",
    until: Annotated[str | None, typer.Option(help="End, in the same forms; now by default.")] = None,
    model: Annotated[str | None, typer.Option(help="Of this model alone; by default of all.")] = None,
    config: ConfigOption = None,
) -> None:
    """Count the requests that failed because a model's endpoint was away. They are no predictions: no audit, no monitor
    and no reviewer sees them."""
    from demur.traffic.failed_requests import count

    settings = load_config(config_path(config))
    begin, end = moment(since), moment(until)
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            found = count(connection, model=model, since=begin, until=end)
    if not found:
        out.print("no request failed because a model could not be asked")
        return
    table = Table("model", "status", "asked instead", "requests", "first (UTC)", "last (UTC)", "reason of the last one")
    for one in found:
        first, last = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (one.first, one.last))
        table.add_row(one.model, str(one.status), one.passed_to or "–", f"{one.n:,}", first, last, one.reason)
    out.print(table)

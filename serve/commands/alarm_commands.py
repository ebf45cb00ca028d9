"""`demur alarms`: what monitors have found, and how a person undoes what an alarm does."""

import getpass
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.table import Table

from demur.serve.commands.terminal import ConfigOption, config_path, opened_database, out
from demur.serve.configuration import load_config

alarms = typer.Typer(no_args_is_help=True, help="What monitors have found: list alarms, and undo one.")

LATEST = 50


@alarms.command("list")
def list_alarms(
    every: Annotated[
        bool, typer.Option("--all", help=f"Also those that were undone, of the latest {LATEST}; else those in force.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Show the alarms that are in force, the latest first."""
    from demur.audit.state import alarms as kept

    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            found = kept.latest(connection, limit=LATEST) if every else kept.in_force(connection)
    if not found:
        out.print("no alarm is on" if not every else "there was no alarm yet")
        return
    table = Table("alarm", "raised (UTC)", "model", "artifact", "what is the matter", "it does", "undone")
    for one in found:
        does = one.action if one.floor is None else f"{one.action} below {one.floor:.6g}"
        undone = f"{one.undone_at:%Y-%m-%d %H:%M} by {one.undone_by}: {one.undo_why}" if one.undone_at else "–"
        table.add_row(str(one.id), f"{one.raised_at:%Y-%m-%d %H:%M}", one.model, one.artifact, one.words, does, undone)
    out.print(table)


@alarms.command("undo")
def undo_alarm(
    alarm: Annotated[int, typer.Argument(help="Its number, as `demur alarms list` shows it.")],
    why: Annotated[str, typer.Option(help="Why it is safe to go on as before; kept in the history.")],
    by: Annotated[str | None, typer.Option(help="Who undoes it; by default whoever is logged in.")] = None,
    config: ConfigOption = None,
) -> None:
    """Undo an alarm: gateways answer again as before within two seconds, and its monitor starts again."""
    from demur.audit.monitors import feeding

    reason = " ".join(why.split())
    if not reason:
        raise typer.BadParameter("say why it is safe to go on as before", param_hint="--why")
    settings = load_config(config_path(config))
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            undone = feeding.undo(connection, alarm, by=by or getpass.getuser(), why=reason)
    out.print(f"alarm {undone.id} about model {undone.model} is undone by {undone.undone_by}: {undone.undo_why}")

"""`demur alarms`: what monitors have found, how a person undoes an alarm, and how many checks one in time takes."""

import getpass
from contextlib import ExitStack
from math import ceil, floor, log10
from typing import Annotated

import typer
from rich.table import Table

from demur.serve.commands.terminal import ConfigOption, config_path, opened_database, out
from demur.serve.config.file import BadConfig, Config
from demur.serve.config.monitor import MonitorConfig
from demur.serve.configuration import load_config

alarms = typer.Typer(no_args_is_help=True, help="What monitors have found: list alarms, undo one, plan checks.")

LATEST = 50

COUNTED_DAYS = 7
"""The traffic of so many days says how many answers a day has."""


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


@alarms.command("plan")
def plan_checks(
    model: Annotated[str, typer.Argument(help="Its name in the configuration.")],
    days: Annotated[float, typer.Option(min=0.01, help="Within so many days an alarm should come.")] = 7,
    risk: Annotated[
        float | None, typer.Option(help="Share of wrong answers that it should find; by default twice what is allowed.")
    ] = None,
    before: Annotated[
        float | None, typer.Option(help="Share of wrong answers until then; by default half of what is allowed.")
    ] = None,
    per_day: Annotated[
        float | None, typer.Option(min=1, help="Answers on a day; by default as many as on the last days on record.")
    ] = None,
    quiet_days: Annotated[
        float, typer.Option(min=0, help="Days that go well before: the longer they last, the later the alarm.")
    ] = 30,
    config: ConfigOption = None,
) -> None:
    """Say how high `spot_check` must be so that half of the alarms come in time, by simulation (some 20 seconds)."""
    from demur.audit.metrics.alarm_delay import Rise, rate_for_delay

    settings = load_config(config_path(config))
    own = settings.model(model)
    target = _allowed(settings, model)
    rise = Rise(
        target=target,
        before=target / 2 if before is None else before,
        after=min(2 * target, (1 + target) / 2) if risk is None else risk,
        delta=own.watched.delta if own.watched else MonitorConfig().delta,
    )
    answers = per_day or _answers_per_day(settings, model)
    rate = rate_for_delay(rise, answers, days, quiet_days=quiet_days)
    change = f"a rise from {rise.before:g} to {rise.after:g} of the answers wrong, where {rise.target:g} are allowed"
    if rate is None:
        out.print(
            f"{answers:,.0f} answers a day are too few: even if all are checked, {change}, is not found within"
            f" {days:g} days half of the time; allow more days, or look for a higher --risk"
        )
        return
    out.print(
        f"{change}: half of the alarms come within {days:g} days at `spot_check: {_rounded_up(rate):g}`, which is some"
        f" {rate * answers:,.1f} checks of {answers:,.0f} answers a day"
    )
    checks = own.spot_checks
    if checks is None or checks.allocate == "uniform":
        out.print(
            "with `allocate: uncertainty` it took 28% fewer answers in simulations where errors follow confidence, and"
            " 12 to 17% more where they do not"
        )
    if checks is not None:
        out.print(f"configured is {checks.rate:g}{' on average' if checks.allocate == 'uncertainty' else ''}")


def _allowed(settings: Config, model: str) -> float:
    """The share of the answers that may be wrong, as the model's monitor knows it."""
    from demur.calibration_store.store import ArtifactStore
    from demur.serve.jobs.monitor_watch import promised_risk

    watched = settings.model(model).watched
    if watched is not None and watched.max_risk is not None:
        return watched.max_risk
    store = ArtifactStore(settings.artifacts)
    artifact = store.standing(model).in_force
    promised = promised_risk(store.load(model, artifact).manifest, model) if artifact else None
    if promised is None:
        raise BadConfig(
            f"nothing says which share of the answers of model {model!r} may be wrong: set `monitor.max_risk`, or"
            " promote an artifact that promises it"
        )
    return promised


def _answers_per_day(settings: Config, model: str) -> float:
    from demur.traffic.recent import answers_per_day

    with ExitStack() as opened, opened_database(settings, opened).transaction() as connection:
        found = answers_per_day(connection, model, days=COUNTED_DAYS)
    if not found:
        raise BadConfig(
            f"model {model!r} has answered nothing for a day or more on record; say with --per-day how many answers a"
            " day has"
        )
    return found


def _rounded_up(rate: float) -> float:
    """Two digits, and not below."""
    step = 10.0 ** (floor(log10(rate)) - 1)
    return min(1.0, ceil(rate / step - 1e-9) * step)

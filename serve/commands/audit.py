"""`demur audit`: was the promise kept?"""

import getpass
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from uuid_utils.compat import uuid7

from demur.serve.commands.audit_output import progress_of, write_report
from demur.serve.commands.terminal import ConfigOption, Terminal, config_path, moment, now, opened_database, out
from demur.serve.config.audits import Hours
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config
from demur.serve.local.own_ray import own_ray

if TYPE_CHECKING:
    from demur.serve.jobs.reports.making import ReportRequest
    from demur.traffic.database import Database

EXIT_STATUS = {"kept": 0, "broken": 3, "not enough evidence": 4}
"""With --check; 0 where nothing was promised."""

NOTHING_TO_AUDIT = 4


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What the options say, before ages are turned into moments."""

    model: str
    since: str | None
    until: str | None
    as_of: str | None
    max_risk: float | None
    seed: int
    every_outcome_known: bool
    parquet: str | None = None
    ray: bool = False


def audit(
    model: Annotated[str | None, typer.Option(help="Model to audit; needed when there are several.")] = None,
    since: Annotated[str | None, typer.Option(help="Start: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00.")] = None,
    until: Annotated[str | None, typer.Option(help="End, in the same forms; --as-of by default.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(help="Leave out what became known later, in the same forms; now by default."),
    ] = None,
    max_risk: Annotated[
        float | None,
        typer.Option(
            help="Hold the answers to this share of wrong ones, in place of `monitor.max_risk` and of what was promised"
            " about wrong answers. What was promised about sets of labels is judged beside it, as it was promised."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="Folder for the report; by default `audit` in `data`.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Do it again every so often, like 24h or 30m, until Ctrl-C.", metavar="TIME")
    ] = None,
    store: Annotated[
        bool | None,
        typer.Option("--store/--no-store", help="Keep it among the reports at /audit/, except with --parquet."),
    ] = None,
    every_outcome_known: Annotated[
        bool,
        typer.Option(
            "--every-outcome-known",
            help="Outcomes come for every record, whatever was decided about it: each known one stands for itself.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resampling behind intervals.")] = 0,
    json_to: Annotated[
        str | None, typer.Option("--json", help="File for every number, or - for standard output.", metavar="FILE")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 3 where the promise is broken, with 4 without enough evidence."),
    ] = False,
    parquet: Annotated[
        str | None,
        typer.Option(
            help="Read what `demur export` wrote there instead of the database: a folder, or any URL that fsspec"
            " understands. As of the end of the export, unless --as-of says otherwise.",
            metavar="URL",
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="With --parquet: measure on Ray, the cluster of RAY_ADDRESS, or one that is started on this machine.",
        ),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Say whether the promise was kept, by what the log knows: a page to read, a JSON file with every number, a Parquet
    file with the rows behind it.

    The report names the command that makes it again, to the byte."""
    settings = load_config(config_path(config))
    if model is None and len(settings.models) > 1:
        raise BadConfig(f"which model? give --model, one of: {', '.join(settings.models)}")
    name = model or next(iter(settings.models))
    settings.model(name)
    if check and every:
        raise BadConfig("--check goes without --every: an exit status comes once")
    if parquet is not None and store:
        raise BadConfig("--store goes without --parquet: it keeps reports of what is in the database")
    if ray and parquet is None:
        raise BadConfig("--ray goes with --parquet: several machines read exported records; see demur export")
    pause, folder = _pause(every), to or settings.data / "audit"
    asked = AuditOptions(
        model=name,
        since=since,
        until=until,
        as_of=as_of,
        max_risk=settings.models[name].max_risk if max_risk is None else max_risk,
        seed=seed,
        every_outcome_known=every_outcome_known or name in settings.audit.every_outcome_known,
        parquet=parquet,
        ray=ray,
    )
    _wished(asked)  # so that a wrong time is told before anything starts
    say = Terminal(stderr=True) if json_to == "-" else out
    with ExitStack() as opened:
        database = None if parquet is not None else opened_database(settings, opened)
        if ray:
            opened.enter_context(own_ray())

        def once() -> int:
            return _once(
                settings, database, asked, folder, store=store is not False, json_to=json_to, check=check, say=say
            )

        status = once() if pause is None else _again_and_again(once, pause, say)
    if status:
        raise typer.Exit(status)


def _again_and_again(once: Callable[[], int], pause: timedelta, say: Console) -> int:
    """Until Ctrl-C; what cannot be done now may be possible the next time."""
    from demur.audit.report.audit import NothingToAudit
    from demur.serve.jobs.reports.making import StillWriting
    from demur.traffic.database import DatabaseUnavailable

    try:
        while True:
            try:
                once()
            except (NothingToAudit, DatabaseUnavailable, StillWriting) as error:
                say.print(f"demur: {error}")
            say.print(f"the next one at {now() + pause:%Y-%m-%d %H:%M} UTC; Ctrl-C ends")
            time.sleep(pause.total_seconds())
    except KeyboardInterrupt:
        return 0


def _once(
    settings: Config,
    database: "Database | None",
    asked: AuditOptions,
    to: Path,
    *,
    store: bool,
    json_to: str | None,
    check: bool,
    say: Console,
) -> int:
    """Make one audit, and return the exit status."""
    from demur.audit.report.audit import NothingToAudit
    from demur.audit.state import reports
    from demur.serve.deployments.audit_on_ray import RayCluster
    from demur.serve.jobs.reports.making import keep_rows, make, make_from_export, settled

    try:
        with progress_of(say, asked.model) as progress:
            wish = _wished(asked)
            if database is None:
                assert asked.parquet is not None
                made = make_from_export(
                    settings, asked.parquet, wish, progress, cluster=RayCluster() if asked.ray else None
                )
            else:
                progress("waiting for what is being written", 0, 0)
                settled(database, wish.as_of)
                made = make(settings, database, wish, progress)
    except NothingToAudit as error:
        if not check:
            raise
        say.print(str(error))
        return NOTHING_TO_AUDIT
    write_report(made, to, json_to, say)
    if store and database is not None:
        id = uuid7()
        new = made.to_store(planned=False, made_by=getpass.getuser(), rows_at=keep_rows(settings, made, id))
        with database.transaction() as connection:
            reports.store(connection, new, id)
        say.print(f"kept: /audit/reports/{id}")
    say.print(f"the same again: {made.command}")
    return EXIT_STATUS.get(made.summary.verdict, 0) if check else 0


def _pause(every: str | None) -> timedelta | None:
    if every is None:
        return None
    try:
        return timedelta(hours=TypeAdapter(Hours).validate_python(every))
    except ValidationError:
        raise BadConfig(f"--every: {every!r} is not a length of time like 24h or 30m, 15m at least") from None


def _wished(asked: AuditOptions) -> "ReportRequest":
    """What is asked for, as of now."""
    from demur.audit.ledger.from_parquet import exported_end
    from demur.serve.jobs.reports.making import ReportRequest

    if asked.max_risk is not None and not 0 < asked.max_risk < 1:
        raise BadConfig(
            "--max-risk: name a share between 0 and 1, such as 0.02; no labels can prove 0, and any prove 1"
        )
    known_at = moment(asked.as_of) or (exported_end(asked.parquet, asked.model) if asked.parquet else now())
    until = moment(asked.until) or known_at
    since = moment(asked.since)
    if known_at > now():
        raise BadConfig("--as-of: what will be known later is not known yet")
    if until > known_at:
        raise BadConfig("--until: the range must not end after --as-of, which is now unless you say otherwise")
    if since is not None and since >= until:
        raise BadConfig("--since: the range must begin before it ends")
    return ReportRequest(
        model=asked.model,
        since=since,
        until=until,
        as_of=known_at,
        max_risk=asked.max_risk,
        seed=asked.seed,
        every_outcome_known=asked.every_outcome_known,
    )

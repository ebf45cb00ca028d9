"""`demur artifacts`: what was fitted, and which of it decides."""

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from demur.calibration_store.store import ArtifactStore
from demur.serve.commands.file_form import NO_FILE, Encoding, InputColumn, LabelColumn, file_form
from demur.serve.commands.role_words import bounds, role, told
from demur.serve.commands.terminal import (
    ConfigOption,
    config_path,
    ended_roles,
    moment,
    now,
    opened_database,
    out,
    progress_bar,
    put_in_force,
    write_json,
)
from demur.serve.config.file import BadConfig, Config
from demur.serve.config.fitted_settings import fitted_settings
from demur.serve.configuration import load_config
from demur.serve.fitting.artifact_diff import diff_of, settings_against
from demur.serve.fitting.releases import artifacts_of, refused_fit_of

ModelArgument = Annotated[str, typer.Argument(help="Name of the model in the configuration.")]
WhyOption = Annotated[str, typer.Option(help="Reason, kept in the history.")]

artifacts = typer.Typer(no_args_is_help=True, help="What was fitted, and which of it decides.")


@artifacts.command("list")
def list_artifacts(config: ConfigOption = None) -> None:
    """List stored artifacts, and say which is in force, the shadow or the canary."""
    settings = load_config(config_path(config))
    store = ArtifactStore(settings.artifacts)
    table = Table("model")
    table.add_column("artifact", no_wrap=True)  # a name is there to be copied
    table.add_column("role", no_wrap=True)
    table.add_column("created", no_wrap=True)
    for column in ("fitted on", "policy", "promise"):
        table.add_column(column)
    for column in ("ECE", "risk"):
        table.add_column(column, no_wrap=True, justify="right")
    table.caption = "ECE and risk of the answered: on rows that the fit has not seen"
    refused = []
    for model in settings.models:
        standing = store.standing(model)
        for one in reversed(artifacts_of(store, model)):
            if one["refused"]:
                refused.append(one["refused"])
                continue
            table.add_row(
                model,
                one["name"],
                role(standing, one["name"]),
                one["created_at"][:10],
                f"{one['fitted_on']['n']} of {one['fitted_on']['file']}",
                one["policy"],
                "\n".join(one["promises"]) or "none",
                *("–" if one[key] is None else f"{one[key]:.4f}" for key in ("ece", "selective_risk")),
            )
    out.print(table)
    for why in refused:
        out.print(f"refused: {why}")
    for model in settings.models:
        if fit := refused_fit_of(settings.artifacts, model, artifacts_of(store, model)):
            words = f"the last fit of {model} was refused, {fit['at'][:16]}, on {fit['data']}: {fit['why']}"
            out.print(words, markup=False)


@artifacts.command("show")
def show_artifact(model: str, name: str, config: ConfigOption = None) -> None:
    """Print the manifest of an artifact, after checking it."""
    out.print_json(data=ArtifactStore(load_config(config_path(config)).artifacts).load(model, name).manifest)


@artifacts.command("diff")
def show_diff(
    model: ModelArgument,
    a: Annotated[str, typer.Argument(help="An artifact.")],
    b: Annotated[
        str | None, typer.Argument(help="Another one; by default the settings that are configured now.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is equal.")] = False,
    config: ConfigOption = None,
) -> None:
    """Show where two artifacts differ, in settings, data, promise and figures; or an artifact and the configuration."""
    settings = load_config(config_path(config))
    configured = settings.model(model)
    store = ArtifactStore(settings.artifacts)
    first = store.load(model, a).manifest
    if b is None:
        sections = settings_against(first, fitted_settings(configured))
    else:
        sections = diff_of([first, store.load(model, b).manifest])
    table = Table("", "what", a, b or "configured now")
    for section in sections:
        for row in section.rows if everything else section.differing:
            table.add_row("≠" if row.differs else "", f"{section.name}: {row.key}", *map(escape, row.values))
    if table.row_count:
        out.print(table)
    else:
        out.print("they do not differ")


@artifacts.command("history")
def show_history(model: ModelArgument, config: ConfigOption = None) -> None:
    """Who changed what, when and why: every promotion, rollback, shadow and canary, oldest first."""
    settings = load_config(config_path(config))
    settings.model(model)
    table = Table("number", "at", "action")
    table.add_column("artifact", no_wrap=True)
    for column in ("by", "why"):
        table.add_column(column)
    for change in ArtifactStore(settings.artifacts).history(model):
        action, details = told(change)
        why = "; ".join(filter(None, [change.why, *details]))
        table.add_row(str(change.number), change.at[:19], action, change.artifact, change.by, why)
    out.print(table)


@artifacts.command("promote")
def promote_artifact(
    model: str,
    name: str,
    config: ConfigOption = None,
    why: WhyOption = "",
) -> None:
    """Put an artifact in force. A running service takes it up within seconds.

    A shadow or canary that is promoted is that no more. A canary of the artifact that is replaced ends as well: it was
    judged beside another one. A shadow stays."""
    settings = load_config(config_path(config))
    settings.model(model)
    put_in_force(settings, model, name, why)


@artifacts.command("rollback")
def rollback_artifact(
    model: ModelArgument,
    why: WhyOption = "",
    config: ConfigOption = None,
) -> None:
    """Put the artifact in force again that was in force before the present one. The history gets one more entry that
    says so; rolling back once more goes one further. A running service takes it up within seconds."""
    settings = load_config(config_path(config))
    settings.model(model)
    entry = ArtifactStore(settings.artifacts).rollback(model, by=getpass.getuser(), why=why, clock=now)
    out.print(f"{entry.artifact} is in force again for {model} (promotion {entry.number}), {entry.rolled_back} no more")
    for sentence in ended_roles(entry):
        out.print(sentence)


@artifacts.command("shadow")
def shadow_artifact(
    model: ModelArgument,
    name: Annotated[str | None, typer.Argument(help="The artifact, in the place of any other shadow.")] = None,
    off: Annotated[bool, typer.Option("--off", help="End the shadow.")] = False,
    why: WhyOption = "",
    report: Annotated[
        bool, typer.Option("--report", help="Change nothing; say how the shadow, or the named artifact as one, does.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(help="Report from 7d, 12h, 30m ago or a date like 2026-11-21; by default all that was recorded."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End of that range, in the same forms; now by default.")] = None,
    to: Annotated[Path | None, typer.Option("--json", help="File for every number of the report, as JSON.")] = None,
    config: ConfigOption = None,
) -> None:
    """Let an artifact decide on all traffic beside the one in force. Both decisions are recorded; callers see only the
    one in force. With --report, how they differ on what was recorded; no model is run for that. Where a policy only
    observes, --report compares what callers were told with what the observed policy would have decided."""
    settings = load_config(config_path(config))
    settings.model(model)
    if report:
        if off or why:
            raise BadConfig("--report changes nothing, so it goes without --off and --why")
        _report_shadow(settings, model, name, since=since, until=until, to=to)
        return
    if (since, until, to) != (None, None, None):
        raise BadConfig("--since, --until and --json go with --report")
    _one_of_both(name, off, command="shadow")
    change = ArtifactStore(settings.artifacts).shadow(model, name, by=getpass.getuser(), why=why, clock=now)
    if name is not None:
        out.print(f"{name} is the shadow of {change.standing.in_force} for {model} (change {change.number})")
    for sentence in ended_roles(change):
        out.print(sentence)


@artifacts.command("canary")
def canary_artifact(
    model: ModelArgument,
    name: Annotated[str | None, typer.Argument(help="The artifact, in the place of any other canary.")] = None,
    share: Annotated[float | None, typer.Option(help="Share of the traffic that it decides, such as 0.1.")] = None,
    held_between: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Lowest and highest share of predictions that it may hold, such as 0.05 0.4."),
    ] = None,
    max_risk: Annotated[
        float | None,
        typer.Option(help="Highest share of its answers that may be wrong, such as 0.05; unlimited by default."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="End the canary.")] = False,
    why: WhyOption = "",
    config: ConfigOption = None,
) -> None:
    """Let an artifact decide a share of the traffic. The service ends that by itself when the artifact holds more or
    less than it may, or is wrong too often. To change the share, start it again; if all is well, promote it."""
    settings = load_config(config_path(config))
    settings.model(model)
    _one_of_both(name, off, command="canary")
    store = ArtifactStore(settings.artifacts)
    if name is None:
        if (share, held_between, max_risk) != (None, None, None):
            raise BadConfig("--off goes without --share, --held-between and --max-risk")
        change = store.stop_canary(model, by=getpass.getuser(), why=why, clock=now)
    elif share is None or held_between is None:
        raise BadConfig(
            "a canary needs bounds: give --share, such as 0.1, and --held-between with the lowest and the highest"
            " share of predictions that it may hold, such as 0.05 0.4"
        )
    elif max_risk is not None and settings.model(model).spot_checks is None:
        raise BadConfig(
            f"--max-risk watches answers that people check, and none of model {model!r} are; set its `spot_check`, such"
            " as 0.02, and start the service with it, or leave --max-risk out"
        )
    else:
        change = store.start_canary(
            model,
            name,
            share=share,
            held_between=held_between,
            max_risk=max_risk,
            by=getpass.getuser(),
            why=why,
            clock=now,
        )
        out.print(f"{name} is the canary for {model} (change {change.number}): {bounds(change.standing.canary)}")
    for sentence in ended_roles(change) if change else []:
        out.print(sentence)


@artifacts.command("compare")
def compare_artifacts(
    model: ModelArgument,
    a: Annotated[str, typer.Argument(help="An artifact, such as the one in force.")],
    b: Annotated[str, typer.Argument(help="Another one, fitted for the same checkpoint.")],
    since: Annotated[
        str | None,
        typer.Option(
            help="Compare on logged records with an outcome, from 7d, 12h, 30m ago or a date like 2026-11-21."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End of that range, in the same forms; now by default.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Compare on a labelled .jsonl, .csv or .parquet with `input` and `label`.")
    ] = None,
    input_column: InputColumn = None,
    label_column: LabelColumn = None,
    encoding: Encoding = None,
    to: Annotated[Path | None, typer.Option("--json", help="File for every number, as JSON.")] = None,
    config: ConfigOption = None,
) -> None:
    """Let two artifacts judge the same labelled rows: coverage, risk and calibration of both, the difference with a 95%
    interval from resampled rows, and the decisions that flip. Neither should have been fitted on these rows."""
    settings = load_config(config_path(config))
    settings.model(model)
    if (since is None) == (data is None):
        raise BadConfig("compare on which rows? give either --since, for labelled records of the log, or --data FILE")
    if until is not None and data is not None:
        raise BadConfig("--until goes with --since; a labelled file is compared on as a whole")
    if data is None and (input_column or label_column or encoding):
        raise BadConfig(NO_FILE)
    form = file_form(settings.model(model), input_column, label_column, encoding)
    start, end = moment(since), moment(until) or now()
    from demur.serve.commands.compare_tables import remarks, tables
    from demur.serve.fitting.compare import compare_on_file, compare_on_traffic

    with ExitStack() as opened:
        database = None if data else opened_database(settings, opened)
        bar = opened.enter_context(progress_bar())
        task = bar.add_task(f"running {model} over {data.name if data else 'the log'}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if database is None:
            found = compare_on_file(settings, model, a, b, data or Path(), form=form, progress=progress)
        else:
            found = compare_on_traffic(settings, model, a, b, database, since=start, until=end, progress=progress)
    for table in tables(found):
        out.print(table)
    for remark in remarks(found):
        out.print(remark)
    write_json(to, found.as_json())


def _report_shadow(
    settings: Config, model: str, name: str | None, *, since: str | None, until: str | None, to: Path | None
) -> None:
    standing = ArtifactStore(settings.artifacts).standing(model)
    observes = settings.model(model).policy.get("kind") == "observe"  # what it would have decided stands as a shadow's
    artifact = name or standing.shadow or (standing.in_force if observes else None)
    if artifact is None and observes:
        raise BadConfig(
            f"model {model!r} only observes and has no artifact in force; fit one and put it in force"
            f" (`demur fit {model} --promote`)"
        )
    if artifact is None:
        raise BadConfig(
            f"model {model!r} has no shadow now; name the artifact that was one"
            f" (`demur artifacts history {model}` has them), or start one without --report"
        )
    start, end = moment(since), moment(until) or now()
    from demur.serve.commands.shadow_report import remarks, report_shadow, tables

    with ExitStack() as opened:
        done = report_shadow(
            opened_database(settings, opened),
            model,
            artifact,
            right=settings.model(model).right,
            precedence=settings.precedence(model),
            since=start,
            until=end,
            observed=observes and artifact == standing.in_force,
        )
    for table in tables(done):
        out.print(table)
    for remark in remarks(done):
        out.print(remark)
    write_json(to, done.as_json())


def _one_of_both(name: str | None, off: bool, *, command: str) -> None:
    if (name is None) != off:
        raise BadConfig(
            f"which artifact? give its name (`demur artifacts list` has them), or --off to end the {command}"
        )

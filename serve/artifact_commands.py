"""`demur artifacts`: what was fitted, and which of it is in force."""

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from calibration_store.artifact import ArtifactRefused
from calibration_store.store import ArtifactStore
from serve.config import BadConfig, load_config
from serve.terminal import (
    ConfigOption,
    config_path,
    moment,
    now,
    opened_database,
    out,
    progress_bar,
    put_in_force,
    write_json,
)

artifacts = typer.Typer(no_args_is_help=True, help="What was fitted, and which of it is in force.")


@artifacts.command("list")
def list_artifacts(config: ConfigOption = None) -> None:
    """List stored artifacts; a star marks the one in force."""
    settings = load_config(config_path(config))
    store = ArtifactStore(settings.artifacts)
    table = Table("model")
    table.add_column("artifact", no_wrap=True)  # a name is there to be copied
    for column in ("in force", "created", "fitted on", "held-out ECE", "held-out risk"):
        table.add_column(column)
    refused = []
    for model in settings.models:
        in_force = store.name_in_force(model)
        for name in store.names(model):
            mark = "*" if name == in_force else ""
            try:
                manifest = store.load(model, name).manifest
            except ArtifactRefused as error:
                refused.append(str(error))
                continue
            ece, risk = (manifest["report"].get(key, {}).get("value") for key in ("ece", "selective_risk"))
            table.add_row(
                model,
                name,
                mark,
                manifest["created_at"][:19],
                f"{manifest['n_fitted']} of {manifest['data']['file']}",
                "–" if ece is None else f"{ece:.4f}",
                "–" if risk is None else f"{risk:.4f}",
            )
    out.print(table)
    for why in refused:
        out.print(f"refused: {why}")


@artifacts.command("show")
def show_artifact(model: str, name: str, config: ConfigOption = None) -> None:
    """Print the manifest of an artifact, after checking it."""
    out.print_json(data=ArtifactStore(load_config(config_path(config)).artifacts).load(model, name).manifest)


@artifacts.command("history")
def show_history(model: str, config: ConfigOption = None) -> None:
    """Who put what in force, when and why."""
    table = Table("number", "at")
    table.add_column("artifact", no_wrap=True)
    table.add_column("by")
    table.add_column("why")
    for entry in ArtifactStore(load_config(config_path(config)).artifacts).history(model):
        told = [f"rollback of {entry.rolled_back}"] if entry.rolled_back is not None else []
        table.add_row(
            str(entry.number), entry.at[:19], entry.artifact, entry.by, ": ".join([*told, *filter(None, [entry.why])])
        )
    out.print(table)


@artifacts.command("promote")
def promote_artifact(
    model: str,
    name: str,
    config: ConfigOption = None,
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")] = "",
) -> None:
    """Put an artifact in force. A running service takes it up within seconds."""
    settings = load_config(config_path(config))
    settings.model(model)
    put_in_force(settings, model, name, why)


@artifacts.command("rollback")
def rollback_artifact(
    model: Annotated[str, typer.Argument(help="Name of the model in the configuration.")],
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")] = "",
    config: ConfigOption = None,
) -> None:
    """Put the artifact in force again that was in force before the present one. The history gets one more entry that
    says so; rolling back once more goes one further. A running service takes it up within seconds."""
    settings = load_config(config_path(config))
    settings.model(model)
    entry = ArtifactStore(settings.artifacts).rollback(model, by=getpass.getuser(), why=why, clock=now)
    out.print(f"{entry.artifact} is in force again for {model} (promotion {entry.number}), {entry.rolled_back} no more")


@artifacts.command("compare")
def compare_artifacts(
    model: Annotated[str, typer.Argument(help="Name of the model in the configuration.")],
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
    start, end = moment(since), moment(until) or now()
    from serve.compare import compare_on_file, compare_on_traffic
    from serve.compare_tables import remarks, tables

    with ExitStack() as opened:
        database = None if data else opened_database(settings, opened)
        bar = opened.enter_context(progress_bar())
        task = bar.add_task(f"running {model} over {data.name if data else 'the log'}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if database is None:
            found = compare_on_file(settings, model, a, b, data or Path(), progress=progress)
        else:
            found = compare_on_traffic(settings, model, a, b, database, since=start, until=end, progress=progress)
    for table in tables(found):
        out.print(table)
    for remark in remarks(found):
        out.print(remark)
    write_json(to, found.as_json())

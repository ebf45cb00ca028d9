"""`demur export`: what the log holds, as partitioned Parquet, for audits that need no database."""

import getpass
from contextlib import ExitStack
from typing import Annotated

import fsspec
import typer
from rich.table import Table

from demur.serve.commands.terminal import ConfigOption, config_path, moment, opened_database, out, progress_bar
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config


def export(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Folder, or any URL that fsspec understands: s3://bucket/demur. With --as pairs or training: a file.",
        ),
    ],
    model: Annotated[str | None, typer.Option(help="Model to export; by default every one.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Where the first run begins: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00; else with the first"
            " record. Later runs go on from where the last one ended."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End, in the same forms; by default all that is settled.")] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Inputs and replies of new records as well; else none leaves the database.")
    ] = False,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="`parquet`; or of one --model that writes texts, as JSON lines: preference `pairs`, or `training`"
            " conversations.",
        ),
    ] = "parquet",
    config: ConfigOption = None,
) -> None:
    """Write records, outcomes and ended cases as Parquet, a folder for each model and day. A second run adds what is
    new, to the day of its record. With --as pairs or --as training, write what people said of a model's replies."""
    from demur.audit.ledger.export import export as write

    settings = load_config(config_path(config))
    if form != "parquet":
        _export_replies(settings, to, model, form, since, until)
        return
    names = [model] if model is not None else list(settings.models)
    for name in names:
        settings.model(name)
    begin, end = moment(since), moment(until)
    table = Table("model", "up to (UTC)")
    for column in ("records", "outcomes", "reviews", *(["inputs"] if inputs else []), "files"):
        table.add_column(column, justify="right")
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        bar = opened.enter_context(progress_bar())
        for name in names:
            task = bar.add_task(f"exporting {name}", total=None)
            done = write(
                database,
                to,
                name,
                since=begin,
                until=end,
                inputs=inputs,
                progress=lambda done, total, task=task: bar.update(task, completed=done, total=total),  # type: ignore[misc]
            )
            counts = [f"{done.rows.get(kind, 0):,}" for kind in ("records", "outcomes", "reviews")]
            counts += [f"{done.rows.get('inputs', 0):,}"] if inputs else []
            table.add_row(name, f"{done.end:%Y-%m-%d %H:%M:%S}", *counts, f"{len(done.files):,}")
    out.print(table)
    out.print(f"in {to}; what is new there is read by: demur audit --parquet {to}")


def _export_replies(
    settings: Config, to: str, model: str | None, form: str, since: str | None, until: str | None
) -> None:
    """Write preference pairs or training rows to a new file, which is there once it is whole."""
    from demur.serve.web.review.learning_file import check_writes_texts, write_rows
    from demur.traffic.learning_rows import FORMS, learning_rows

    wanted = next((known for known in FORMS if known == form), None)
    if wanted is None:
        raise BadConfig(f"--as: {form!r} is not one of: parquet, {', '.join(FORMS)}")
    if model is None:
        raise BadConfig(f"--as {form}: name the model with --model; each file is of one")
    check_writes_texts(model, settings.model(model).task)
    begin, end = moment(since), moment(until)
    files, path = fsspec.core.url_to_fs(to)
    if files.exists(path):
        raise BadConfig(f"--to: {to} is there already; name a new file, which is written as a whole")
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        unfinished = f"{path}.part"
        files.makedirs(files._parent(path), exist_ok=True)
        try:
            with files.open(unfinished, "wb") as file, out.status("writing"), database.transaction() as connection:
                rows = learning_rows(
                    connection, model, wanted, precedence=settings.precedence(model), since=begin, until=end
                )
                n = write_rows(rows, file, database, f"{getpass.getuser()} (command)")
            files.mv(unfinished, path)
        except BaseException:
            if files.exists(unfinished):
                files.rm(unfinished)
            raise
    out.print(f"{n:,} rows of {model} are in {to}")

"""`demur predict` and `demur outcomes`: ask about each row of a file, or tell what is true of each."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from demur.client.address import KEYS_BEGIN
from demur.serve.commands.terminal import out as terminal
from demur.serve.commands.terminal import progress_bar
from demur.serve.config.file import BadConfig
from demur.traffic.file_form import FileForm

if TYPE_CHECKING:
    from demur.client.sync_client import Client
    from demur.serve.commands.bulk.result_file import BulkCounts

KEY_ENV = "DEMUR_KEY"

Url = Annotated[
    str | None,
    typer.Option(help="Address of the service; by default DEMUR_URL of the environment, else http://127.0.0.1:8000."),
]
KeyEnv = Annotated[str, typer.Option(help="Environment variable that holds the key, where one is asked for.")]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a .csv or .jsonl, such as cp1252; by default as its first bytes say, else UTF-8."),
]
Run = Annotated[
    str | None,
    typer.Option(
        help="A name for this run. The same file under the same name is never asked about, or told, twice, whatever"
        " became of the file of results."
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, max=64, help="Batches at a time.")]

FROM_OPTIONS = ""
"""Nothing but options says how these files are read."""


def predict(
    file: Annotated[str, typer.Argument(help="Rows to predict: .csv, .jsonl or .parquet.")],
    model: Annotated[str, typer.Option(help="Model to ask.")],
    out: Annotated[
        str, typer.Option(help="File of results: .jsonl, .csv or .parquet. With --ray a folder of Parquet files.")
    ],
    url: Url = None,
    key_env: KeyEnv = KEY_ENV,
    input_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column with the inputs; given several times, these columns together are an object. By default"
            " `input`, or where there is none all columns but group, cluster and label."
        ),
    ] = None,
    output_column: Annotated[
        list[str] | None,
        typer.Option(
            help="For models of the kind `given`: column with what the model said, or with a part of it, such as"
            " `probabilities`; may be given several times. `p_*` stands for a column for each label."
        ),
    ] = None,
    group_column: Annotated[str, typer.Option(help="Column with the group, where there is one.")] = "group",
    cluster_column: Annotated[str, typer.Option(help="Column with the cluster, where there is one.")] = "cluster",
    encoding: Encoding = None,
    batch_size: Annotated[int, typer.Option(min=1, max=1024, help="Rows of a batch.")] = 64,
    concurrency: Concurrency = 4,
    run: Run = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Ask from a Ray cluster, for files that outgrow one machine.")
    ] = False,
) -> None:
    """Ask a running service about every row of a file, and write what it says of each.

    The results are the number of the row (the first is 1), the id of the prediction, action, prediction, confidence,
    reason, and the error of a row that the service refuses. They are written as they come, to OUT with `.unfinished`
    behind it; OUT is there once every row is done. Whatever stops the command, the same command goes on where it
    stopped, and nothing is predicted twice. Ends with status 1 if a row was refused."""
    from demur.serve.commands.bulk.columns import Columns, likely_outputs
    from demur.serve.commands.bulk.result_log import open_log
    from demur.serve.commands.bulk.run import PREDICTED, check_first_row, check_out, finish, first_row, key_of
    from demur.serve.commands.bulk.run import predict_rows as ask
    from demur.traffic.row_file import open_rows

    columns = Columns(
        inputs=tuple(input_column or ()), outputs=tuple(output_column or ()), group=group_column, cluster=cluster_column
    )
    form = FileForm(encoding=encoding, section=FROM_OPTIONS)
    if ray:
        from demur.serve.commands.bulk.on_ray import PredictionJob
        from demur.serve.local.own_ray import own_ray

        job = PredictionJob(
            source=file,
            out=out,
            model=model,
            columns=columns,
            form=form,
            url=url,
            key=key_in(key_env),
            batch_size=batch_size,
            workers=concurrency,
            run=run,
        )
        files = job.check()
        with own_ray():
            tally = job.predict(files)
        report(tally, out)
        return
    check_out(Path(out))
    rows = open_rows(Path(file), form)
    first = first_row(rows.rows())
    columns = columns.of(rows.path, first)
    if columns.spread and first:
        terminal.print(f"there is no column 'input'; sent is an object of: {', '.join(columns.spread_over(first))}")
    if first and not columns.outputs and (option := likely_outputs(first)):
        terminal.print(f"if another model has said this already, send it as well: {option}")
    check_first_row(rows.rows(), columns.item)
    settings = {"command": "predict", "model": model, "batch_size": batch_size, "columns": columns.named()}
    with ExitStack() as opened:
        client = opened.enter_context(service(url, key_env, concurrency))
        log = open_log(Path(out), {"sha256": rows.sha256, **settings}, run)
        opened.callback(log.close)
        advance = opened.enter_context(shown(f"asking {model}", log.rows, rows.count))
        key = key_of(log.run, rows, settings)
        ask(client, model, rows, log, columns, batch_size=batch_size, key=key, advance=advance)
        tally = finish(log, Path(out), PREDICTED)
    report(tally, out)


def outcomes(
    file: Annotated[Path, typer.Argument(help="Rows with an id and a label: .csv, .jsonl or .parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="File for what became of each row: .jsonl, .csv or .parquet. By default none.")
    ] = None,
    url: Url = None,
    key_env: KeyEnv = KEY_ENV,
    id_column: Annotated[str, typer.Option(help="Column with the ids of the predictions.")] = "id",
    label_column: Annotated[str, typer.Option(help="Column with what is true.")] = "label",
    source: Annotated[
        str, typer.Option(help="Where it is known from, for rows without a column `source` of their own.")
    ] = "api",
    author: Annotated[
        str | None, typer.Option(help="Who says so, for rows without a column `author` of their own.")
    ] = None,
    encoding: Encoding = None,
    concurrency: Concurrency = 4,
    run: Run = None,
) -> None:
    """Tell a running service what turned out to be true of its predictions, one row each.

    The same file is told once, however often the command is run: what is written already is not written again. Rows
    that the service refuses are listed. Ends with status 1 if there is one."""
    from demur.serve.commands.bulk.result_log import open_log
    from demur.serve.commands.bulk.run import (
        TOLD,
        OutcomeColumns,
        check_first_row,
        check_out,
        finish,
        key_of,
        tell_rows,
    )
    from demur.traffic.row_file import open_rows

    columns = OutcomeColumns(id=id_column, label=label_column, source=source, author=author)
    if out is not None:
        check_out(out)
    rows = open_rows(file, FileForm(encoding=encoding, section=FROM_OPTIONS))
    check_first_row(rows.rows(), columns.outcome)
    settings = {"command": "outcomes", "columns": columns.named()}
    with ExitStack() as opened:
        client = opened.enter_context(service(url, key_env, concurrency))
        log = open_log(
            out or file.with_name(f"{file.name}.outcomes"), {"sha256": rows.sha256, **settings}, run or "once"
        )
        opened.callback(log.close)
        advance = opened.enter_context(shown("telling outcomes", log.rows, rows.count))
        key = key_of(log.run, rows, settings)
        tell_rows(client, rows, log, columns, key=key, advance=advance)
        tally = finish(log, out, TOLD)
    report(tally, out)


@contextmanager
def service(url: str | None, key_env: str, concurrency: int) -> Iterator["Client"]:
    """A client of the service at this address, with the key that an environment variable holds."""
    from demur.client.address import address_of
    from demur.client.errors import NotFound
    from demur.client.sync_client import Client
    from demur.serve.commands.bulk.run import RunStopped

    with Client(url, key_in(key_env), concurrency=concurrency) as client:
        try:
            yield client
        except RunStopped as error:
            if not isinstance(error.__cause__, NotFound):
                raise
            asked = address_of(url, None).shown  # another service may answer there
            raise RunStopped(
                f"{error}; the service at {asked} says so, and --url or DEMUR_URL names another"
            ) from error


def key_in(variable: str) -> str | None:
    """The key that an environment variable holds; None where there is none and nobody has asked for one."""
    key = os.environ.get(variable)
    if key is None and variable.startswith(KEYS_BEGIN):
        raise BadConfig("--key-env takes the name of an environment variable, and not the key itself")
    if key is None and variable != KEY_ENV:
        raise BadConfig(f"the environment variable {variable} is not set; set it to a key, or leave out --key-env")
    return key


@contextmanager
def shown(what: str, done: int, total: int) -> Iterator[Any]:
    """A bar that begins where an earlier run has stopped."""
    if done:
        terminal.print(f"going on behind row {done:,}")
    with progress_bar() as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda more: bar.advance(task, more)


def report(tally: "BulkCounts", out: Path | str | None) -> None:
    """Print what became of the rows; end with status 1 where some were refused."""
    for sentence in tally.sentences():
        terminal.print(sentence)
    if out is not None:
        terminal.print(f"results: {out}")
    if tally.refused:
        raise typer.Exit(1)

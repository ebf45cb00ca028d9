"""The command line."""

import asyncio
import getpass
import json
import logging
import os
import sys
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from calibration_store.artifact import ArtifactRefused
from calibration_store.store import ArtifactNotFound, ArtifactStore
from serve.config import BadConfig, Config, load_config

if TYPE_CHECKING:
    from traffic.database import Database

out = Console(soft_wrap=True, highlight=False)
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Selective prediction as a service: answer what is sure, hold what is not, ask a person, audit the promise.",
)
artifacts = typer.Typer(no_args_is_help=True, help="What was fitted, and which of it is in force.")
app.add_typer(artifacts, name="artifacts")

ROOMS = ("uncertainty", "policies", "calibration_store", "traffic", "review", "audit", "serve")
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


@app.command()
def up(config: Annotated[Path | None, typer.Argument(help="Configuration file.")] = None) -> None:
    """Serve. Starts Ray and the database if they are not there; Ctrl-C stops what was started."""
    from serve.up import up as serve_until_stopped

    path = config_path(config)
    serve_until_stopped(load_config(path), path, out.print)


@app.command()
def check(config: Annotated[Path | None, typer.Argument(help="Configuration file.")] = None) -> None:
    """Validate a configuration and the checkpoints that it names, and say what would be served."""
    from serve.checkpoint import check_labels

    path = config_path(config)
    settings = load_config(path)
    store = ArtifactStore(settings.artifacts)
    out.print(f"{path} is valid; it serves on http://{settings.http.host}:{settings.http.port}")
    for name, model in settings.models.items():
        check_labels(model.host.checkpoint, model.task.kind, model.task.labels)
        in_force = store.name_in_force(name) or "none yet"
        out.print(f"  {name}: {len(model.task.labels)} labels, {model.host.checkpoint}, artifact in force: {in_force}")


@app.command()
def fit(
    model: Annotated[str, typer.Argument(help="Name of the model in the configuration.")],
    data: Annotated[
        Path | None, typer.Option(help="Labelled .jsonl, .csv or .parquet with `input` and `label`.")
    ] = None,
    config: ConfigOption = None,
    promote: Annotated[bool, typer.Option("--promote", help="Put the artifact in force at once.")] = False,
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")] = "fitted and promoted",
) -> None:
    """Fit scores, calibrator and limit on labelled data; report on the part that was kept out of the fit."""
    settings = load_config(config_path(config))
    path = data or settings.model(model).calibration.data
    if path is None:
        raise BadConfig(f"no data to fit on: give --data, or set models.{model}.calibration.data")
    from serve.fit import fit_model
    from serve.fit_report import tables

    with progress_bar() as bar:
        task = bar.add_task(f"running {model} over {path.name}", total=None)
        done = fit_model(
            settings,
            model,
            path,
            clock=now,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    for table in tables(done.name, done.fit):
        out.print(table)
    if promote:
        _promote(settings, model, done.name, why)
    else:
        out.print(f"not in force yet: demur artifacts promote {model} {done.name}")


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
    _promote(settings, model, name, why)


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
        database = None if data else _opened(settings, opened)
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
    _write_json(to, found.as_json())


@app.command()
def replay(
    model: Annotated[str, typer.Argument(help="Name of the model in the configuration.")],
    artifact: Annotated[str, typer.Argument(help="The artifact that is to decide; it need not be in force.")],
    since: Annotated[str, typer.Option(help="Start: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00.")] = "7d",
    until: Annotated[str | None, typer.Option(help="End, in the same forms; now by default.")] = None,
    to: Annotated[Path | None, typer.Option("--json", help="File for every number, as JSON.")] = None,
    config: ConfigOption = None,
) -> None:
    """Ask what an artifact would have decided on logged traffic: how many more cases people would get, which decisions
    flip, at what risk. The model runs again on the stored inputs; nothing is written to the log."""
    settings = load_config(config_path(config))
    settings.model(model)
    start, end = moment(since), moment(until) or now()
    from serve.replay import left_out, replay_traffic, table

    with ExitStack() as opened:
        database = _opened(settings, opened)
        bar = opened.enter_context(progress_bar())
        task = bar.add_task(f"replaying {model}", total=None)
        done = replay_traffic(
            settings,
            model,
            artifact,
            database,
            since=start,
            until=end,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    out.print(table(done))
    out.print(left_out(done))
    _write_json(to, done.as_json())


@app.command()
def demo(
    url: Annotated[
        str | None, typer.Option(help="Address of the service; by default that of the configuration.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Labelled images that the model has not seen.")] = Path(
        "var/digits/test.jsonl"
    ),
    model: Annotated[str, typer.Option(help="Model to ask.")] = "digits",
    seed: Annotated[int, typer.Option(help="Seed of the corruptions.")] = 0,
    outcomes: Annotated[
        bool, typer.Option(help="Also tell the service the true labels, so that an audit can follow.")
    ] = True,
    config: ConfigOption = None,
) -> None:
    """Replay the held-back digits, clean and corrupted, through the running service."""
    from serve.demo import replay, samples, table

    address = url or "http://{0.host}:{0.port}".format(load_config(config_path(config)).http)
    todo = samples(data, seed)
    with progress_bar() as bar:
        task = bar.add_task(f"asking {address}", total=len(todo))
        predictions = asyncio.run(replay(address, model, todo, outcomes=outcomes, advance=lambda: bar.advance(task)))
    shown = Table()
    for column in (
        "part",
        "rows",
        "answered",
        "held",
        "accuracy of all",
        "accuracy of the answered",
        "errors caught by holding",
    ):
        shown.add_column(column, justify="left" if column == "part" else "right", no_wrap=column == "part")
    for line in table(todo, predictions):
        shares = (line.accuracy, line.accuracy_answered, line.caught)
        shown.add_row(
            line.part,
            str(line.rows),
            str(line.answered),
            str(line.held),
            *("–" if share != share else f"{share:.1%}" for share in shares),
        )
    out.print(shown)
    out.print(f"held digits wait at {address}/review/; for the report: demur audit")


@app.command()
def audit(
    model: Annotated[str | None, typer.Option(help="Model to audit; needed when there are several.")] = None,
    since: Annotated[str | None, typer.Option(help="Start: 7d, 12h, 30m ago, or a date like 2026-11-21T08:00.")] = None,
    until: Annotated[str | None, typer.Option(help="End, in the same forms; now by default.")] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("var/audit"),
    config: ConfigOption = None,
) -> None:
    """Write what the log says about the promise: one HTML page to read and one JSON file with every number."""
    from audit.report import FittedLabels
    from audit.report import audit as measure
    from traffic.dataset import read_traffic

    settings = load_config(config_path(config))
    if model is None and len(settings.models) > 1:
        raise BadConfig(f"which model? give --model, one of: {', '.join(settings.models)}")
    name = model or next(iter(settings.models))
    settings.model(name)
    start, end = moment(since), moment(until)
    with ExitStack() as opened:
        database = _opened(settings, opened)
        with out.status("reading records"), database.transaction() as connection:
            traffic = read_traffic(connection, name, since=start, until=end)
    fitted = FittedLabels()
    with suppress(ArtifactNotFound, ArtifactRefused):  # an audit needs no artifact; one tells which labels are rare
        data = ArtifactStore(settings.artifacts).in_force(name).manifest["data"]
        fitted = FittedLabels(counts=data.get("label_counts", {}), n=data["n"])
    with out.status("measuring"):
        report = measure(traffic, model=name, since=start, until=end, fitted=fitted)
        to.mkdir(parents=True, exist_ok=True)
        (to / f"{name}.json").write_text(report.as_json(), encoding="utf-8")
        (to / f"{name}.html").write_text(report.as_html(), encoding="utf-8")
    out.print(report.missing)
    out.print(f"report: {to / f'{name}.html'}\nnumbers: {to / f'{name}.json'}")


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
    except ValueError:
        raise BadConfig(f"{text!r} is neither an age like 7d, 12h or 30m nor a date like 2026-11-21T08:00") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    )


def _promote(settings: Config, model: str, name: str, why: str) -> None:
    store = ArtifactStore(settings.artifacts)
    promotion = store.promote(model, name, by=getpass.getuser(), why=why, clock=now)
    out.print(f"{promotion.artifact} is in force for {model} (promotion {promotion.number})")


def _opened(settings: Config, until_closed: ExitStack) -> "Database":
    """The configured database, for as long as the stack is open."""
    from serve.journal import open_database
    from serve.postgres import EmbeddedPostgres

    dsn = settings.database
    if dsn == "embedded":
        dsn = until_closed.enter_context(EmbeddedPostgres(settings.data)).dsn
    database = open_database(dsn)
    until_closed.callback(database.close)
    return database


def _write_json(path: Path | None, numbers: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False), encoding="utf-8")
        out.print(f"numbers: {path}")


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        app()
    except ModuleNotFoundError as error:
        sys.exit(f"demur: the package {error.name!r} is missing; run `make setup`")
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ROOMS:
            raise
        sys.exit(f"demur: {error}")  # an error that we named says in its message what is wrong and what to do


if __name__ == "__main__":
    main()

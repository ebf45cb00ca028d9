"""The command line."""

import logging
import os
import sys
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from demur.serve.commands.access_log import access_log
from demur.serve.commands.alarm_commands import alarms
from demur.serve.commands.artifact_commands import artifacts
from demur.serve.commands.audit import audit
from demur.serve.commands.backup import backup, restore
from demur.serve.commands.bulk.commands import outcomes, predict
from demur.serve.commands.export import export
from demur.serve.commands.failure_commands import failures
from demur.serve.commands.file_form import NO_FILE, ClusterColumn, Encoding, InputColumn, LabelColumn, file_form
from demur.serve.commands.for_traffic import ForTraffic, ForTrafficSince, check_for_traffic
from demur.serve.commands.key_commands import keys
from demur.serve.commands.packages import how_to_install
from demur.serve.commands.rank.command import rank
from demur.serve.commands.review_commands import review
from demur.serve.commands.starting.command import init
from demur.serve.commands.terminal import (
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
from demur.serve.config.access import check_access_secrets
from demur.serve.config.file import BadConfig
from demur.serve.config.webhooks import check_secrets
from demur.serve.configuration import load_config
from demur.serve.contract.printable import printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Selective prediction as a service: answer what is sure, hold what is not, ask a person, audit the promise.",
)
app.add_typer(artifacts, name="artifacts")
app.add_typer(review, name="review")
app.command()(init)
app.command()(audit)
app.add_typer(alarms, name="alarms")
app.add_typer(keys, name="keys")
app.command()(rank)
app.command()(predict)
app.command()(outcomes)
app.command()(export)
app.command()(failures)
app.command()(backup)
app.command()(restore)
app.command("access-log")(access_log)

PRIVATE = 0o077
"""What a command writes, nobody but its user can read: databases, backups, exports and reports hold inputs."""


WithOlderArtifact = Annotated[
    bool,
    typer.Option(
        "--with-older-artifact",
        help="Serve although an artifact in force was fitted with other settings than are configured now.",
    ),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"demur {version('demur')}")
        raise typer.Exit


@app.callback()
def every_command(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """What holds for all commands."""


@app.command()
def up(
    config: Annotated[Path | None, typer.Argument(help="Configuration file.")] = None,
    with_older_artifact: WithOlderArtifact = False,
) -> None:
    """Serve. Starts Ray and the database if they are not there; Ctrl-C stops what was started."""
    from demur.serve.commands.up import up as serve_until_stopped

    path = config_path(config)
    settings = load_config(path)
    check_secrets(settings.review.webhooks)
    check_access_secrets(settings.access)
    serve_until_stopped(settings, path, out.print, with_older_artifact=with_older_artifact)


@app.command()
def check(
    config: Annotated[Path | None, typer.Argument(help="Configuration file.")] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no other machine; say what was left out because of that.")
    ] = False,
    with_older_artifact: WithOlderArtifact = False,
) -> None:
    """Read a configuration, say what would be served, and try what can be tried before it is.

    Tried are: what the environment must hold (keys of endpoints, secrets of webhooks and logins, the address of the
    database); whether each endpoint answers within 10 seconds, takes the key, knows the model and gives what the scores
    need, which is found out with up to four short questions, so it costs some tokens; whether each
    checkpoint is there, whole, and has these labels; prompts, their examples, ratings and labelled rows; whether the
    artifacts that decide can be read and were fitted for this checkpoint, these labels and the settings that are
    configured now; whether there are as many GPUs as models ask for; the database, and the provider of logins. Nothing
    is changed.

    Every mistake is told with its line. Ends with status 1 if there is one; that the file is valid is said last, and
    only where nothing is wrong."""
    from demur.serve.commands.check import check_file

    check_file(config_path(config), offline=offline, with_older_artifact=with_older_artifact)


def _check_no_file(data: Path | None, *, fresh: bool, of_a_file: bool) -> None:
    """Raise `BadConfig` for what is said of a labelled file where a fit is on the log."""
    if data is not None:
        raise BadConfig("fit on which rows? give either --since, for labelled records of the log, or --data FILE")
    if fresh or of_a_file:
        raise BadConfig("leave --fresh out with --since: a fit on the log runs the model always" if fresh else NO_FILE)


@app.command()
def fit(
    model: Annotated[str, typer.Argument(help="Name of the model in the configuration.")],
    data: Annotated[
        Path | None, typer.Option(help="Labelled .jsonl, .csv or .parquet with `input` and `label`.")
    ] = None,
    input_column: InputColumn = None,
    label_column: LabelColumn = None,
    cluster: ClusterColumn = None,
    encoding: Encoding = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Fit on logged records with an outcome instead, from 30d, 12h, 30m ago or a date like 2026-11-21."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="End of that range, in the same forms; now by default.")] = None,
    every_outcome_known: Annotated[
        bool,
        typer.Option(
            "--every-outcome-known",
            help="Outcomes come for every record, whatever was decided about it: weigh none of them.",
        ),
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Store the artifact even where the labels cannot carry its promise (it then holds everything) or its"
            " score ranks errors no better than chance.",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Run the model on every row of the file, also where its output is kept."),
    ] = False,
    for_traffic: ForTraffic = None,
    for_traffic_since: ForTrafficSince = None,
    config: ConfigOption = None,
    promote: Annotated[bool, typer.Option("--promote", help="Put the artifact in force at once.")] = False,
    why: Annotated[str, typer.Option(help="Reason, kept in the history.")] = "fitted and promoted",
) -> None:
    """Fit scores, calibrator and rule on a labelled file or on labelled traffic; report, with 95% intervals, on the
    part that was kept out of the fit.

    Refuses, and stores nothing, where there are too few labels for what the policy promises, or where the score behind
    the confidence does not tell errors from right answers; it says what would be enough."""
    settings = load_config(config_path(config))
    path = data or (settings.model(model).calibration.data if since is None else None)
    check_for_traffic(for_traffic, for_traffic_since, since)
    if since is None and (until is not None or every_outcome_known):
        raise BadConfig("--until and --every-outcome-known go with --since; a labelled file is fitted on as a whole")
    if since is not None:
        _check_no_file(data, fresh=fresh, of_a_file=bool(input_column or label_column or cluster or encoding))
    if path is None and since is None:
        raise BadConfig(f"no data to fit on: give --data or --since, or set models.{model}.calibration.data")
    settings.model(model)
    start, end = moment(since), moment(until) or now()
    from demur.library.fit_report import sentences, tables
    from demur.serve.commands.refused_fit import reach_shown
    from demur.serve.fitting.fit import fit_model, fit_on_traffic
    from demur.serve.fitting.moved_traffic import TrafficRange

    with ExitStack() as opened:
        logged = path is None or for_traffic_since is not None
        database = opened_database(settings, opened) if logged else None
        bar = opened.enter_context(progress_bar())
        task = bar.add_task(f"running {model} over {path.name if path else 'the log'}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if done == total:
                bar.update(task, description=f"fitting and measuring {model}")

        opened.enter_context(reach_shown(out.print))
        common: Any = {"clock": now, "progress": progress, "anyway": anyway}
        if database is None or path is not None:
            form = file_form(settings.model(model), input_column, label_column, encoding, cluster)
            there = TrafficRange(database=database, since=moment(for_traffic_since)) if database else for_traffic
            common |= {"form": form, "keep": True, "fresh": fresh, "for_traffic": there}
            done = fit_model(settings, model, path or Path(), **common)
        else:
            known = every_outcome_known
            done = fit_on_traffic(
                settings, model, database, since=start, until=end, every_outcome_known=known, **common
            )
    for table in tables(done.name, done.fit):
        out.print(table)
    for sentence in (*sentences(done.fit), *done.remarks):
        out.print(sentence)
    if promote:
        put_in_force(settings, model, done.name, why)
    else:
        out.print(f"not in force yet: demur artifacts promote {model} {done.name}")


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
    from demur.serve.commands.replay_tables import left_out, tables
    from demur.serve.fitting.replay import replay_traffic

    with ExitStack() as opened:
        database = opened_database(settings, opened)
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
    for table in tables(done):
        out.print(table)
    out.print(left_out(done))
    write_json(to, done.as_json())


@app.command()
def demo(
    url: Annotated[
        str | None, typer.Option(help="Address of the service; by default that of the configuration.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Labelled rows that the model has not seen; by default `test.jsonl` beside its calibration data."
        ),
    ] = None,
    input_column: InputColumn = None,
    label_column: LabelColumn = None,
    encoding: Encoding = None,
    model: Annotated[str | None, typer.Option(help="Model to ask; by default the first one.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the corruptions.")] = 0,
    only: Annotated[
        str | None, typer.Option(help="Only this part: a corruption such as `clean`, or a group of the rows.")
    ] = None,
    outcomes: Annotated[
        bool, typer.Option(help="Also tell the service the true labels, so that an audit can follow.")
    ] = True,
    key: Annotated[
        str | None, typer.Option(envvar="DEMUR_KEY", help="A key with the scope `predict`, where one is asked for.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Replay rows that were held back through the running service, images also corrupted: the clean ones first. Count
    what holding the doubtful ones was worth, and tell what the monitors say of it: which alarm, and since when."""
    from demur.serve.commands.demo import of_part, replay, samples, table
    from demur.serve.commands.demo_monitors import DemoMonitors

    settings = load_config(config_path(config))
    name = model or next(iter(settings.models))
    path = data or _beside(settings.model(name).calibration.data, name)
    address = url or f"http://{settings.http.host}:{settings.http.port}"
    form = file_form(settings.model(name), input_column, label_column, encoding)
    todo = samples(path, seed, form)
    if only is not None:
        todo = of_part(todo, only)
    monitors = DemoMonitors(address, name, key)
    with progress_bar() as bar:
        task = bar.add_task(f"asking {address}", total=len(todo))
        predictions = replay(
            address,
            name,
            todo,
            task=settings.model(name).task,
            outcomes=outcomes,
            advance=lambda more: bar.advance(task, more),
            key=key,
        )
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
    for line in table(todo, predictions, settings.model(name).task):
        shares = (line.accuracy, line.accuracy_answered, line.caught)
        shown.add_row(
            line.part,
            str(line.rows),
            str(line.answered),
            str(line.held),
            *("–" if share != share else f"{share:.1%}" for share in shares),
        )
    out.print(shown)
    known = " --every-outcome-known" if outcomes else ""
    out.print(f"held cases wait at {address}/review/; for the report: demur audit --model {name}{known}")
    with out.status("waiting for the monitors to take all of that in"):
        said = monitors.after(len(todo))
    for sentence in said:
        out.print(sentence)


def _beside(calibration: Path | None, model: str) -> Path:
    if calibration is None:
        raise BadConfig(f"which rows? model {model!r} has no `calibration.data` to look beside; give --data FILE")
    return calibration.with_name("test.jsonl")


def main() -> None:
    os.umask(os.umask(PRIVATE) | PRIVATE)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        sys.exit(f"demur: the package {error.name!r} is missing; {how_to_install(error.name or '')}")
    except Exception as error:
        if type(error).__module__.split(".")[0] != "demur":
            raise
        sys.exit(f"demur: {printable(_in_words(error))}")


def _in_words(error: Exception) -> str:
    """An error that we named says in its message what is wrong and what to do; of several mistakes each has a line."""
    if isinstance(error, BadConfig) and error.mistakes:
        return "\n  ".join([error.heading, *error.mistakes])
    return str(error)

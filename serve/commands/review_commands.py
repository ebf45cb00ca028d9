"""`demur review`: what waits for people, and cases on their way to other tools and back."""

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from demur.review.item import ReviewerScope, Status
from demur.serve.commands.artifact_commands import ModelArgument
from demur.serve.commands.terminal import ConfigOption, config_path, now, opened_database, out, progress_bar
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config
from demur.traffic.text_file import NotText, read_text

if TYPE_CHECKING:
    from demur.serve.web.review.service import ReviewService

review = typer.Typer(no_args_is_help=True, help="What waits for people; export to other tools, and import from them.")


@review.command("status")
def show_status(config: ConfigOption = None) -> None:
    """How many cases of each model are open, in which state, and for how long the oldest has been waiting."""
    from demur.review import cases
    from demur.serve.web.review.words import age

    settings = load_config(config_path(config))
    counts = {name: name for name in ("open", "waiting", "claimed", "answered", "adjudication", "overdue")}
    counts["adjudication"] = "to decide"
    table = Table("model")
    for column in (*counts.values(), "oldest"):
        table.add_column(column, justify="right")
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with out.status("counting"), database.transaction() as connection:
            backlogs = [(name, cases.backlog(connection, ReviewerScope(models=(name,)))) for name in settings.models]
            backlogs.append(("all", cases.backlog(connection)))
    for name, backlog in backlogs:
        table.add_row(
            name,
            *(f"{getattr(backlog, name):,}" for name in counts),
            age(backlog.oldest, now()) if backlog.oldest else "–",
            end_section=name != "all" and name == backlogs[-2][0],
        )
    out.print(table)


@review.command("change")
def change_cases(
    matching: Annotated[
        str, typer.Argument(help="Which cases, as the address of a list has it: `show=waiting&model=digits`.")
    ],
    why: Annotated[str, typer.Option(help="Kept in the history of each case.")],
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Nobody need look at them.")] = False,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="Higher comes first.")] = None,
    due_hours: Annotated[float | None, typer.Option(help="Hours until they are due.")] = None,
    keep_for: Annotated[str | None, typer.Option(help="The person who gets them; an empty name: nobody.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before.")] = False,
    config: ConfigOption = None,
) -> None:
    """Withdraw cases, make them urgent, or keep them for a person: all that fit, up to 1,000.

    What somebody is at is left as it is, and told."""
    from demur.review import search
    from demur.review.changes import MOST_CASES
    from demur.serve.config.review import AdminName
    from demur.serve.web.review.case_changes import change_cases as change
    from demur.serve.web.review.case_changes import in_hours, people_of
    from demur.serve.web.review.case_query import read_query

    settings = load_config(config_path(config))
    name = AdminName(f"{getpass.getuser()} (command)")
    values: dict[Any, Any] = {} if priority is None else {"priority": priority}
    if due_hours is not None:
        values["due_at"] = in_hours(due_hours)
    if keep_for is not None:
        values["assigned_to"] = keep_for or None
    if withdraw == bool(values):
        raise BadConfig("write either --withdraw, or any of --priority, --due-hours and --keep-for")
    if not why.strip():
        raise BadConfig("--why: say why")
    wanted = read_query(matching).search(name)
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        with database.transaction() as connection:
            fit = search.count(connection, wanted, name, at_most=MOST_CASES + 1)
        if fit > MOST_CASES:
            raise BadConfig(f"more than {MOST_CASES:,} cases fit: narrow the search, and do it in parts")
        if not fit:
            out.print("no case fits, so nothing is changed")
            return
        if not yes:
            typer.confirm(f"Change {fit:,} {'case' if fit == 1 else 'cases'}?", abort=True)
        with database.transaction() as connection:
            stranger = bool(keep_for) and keep_for not in people_of(settings, connection)
        done = change(
            settings, database, name, values, withdraw=withdraw, why=why.strip(), matching=matching, expected=fit
        )
    if done.left:
        table = Table("case", "why it was left")
        for one in done.left:
            table.add_row(str(one.case_id), one.why)
        out.print(table)
    if stranger:
        out.print(f"Nobody called {escape(keep_for or '')} has answered a case yet: is the name right?")
    out.print(
        f"{len(done.changed):,} of {done.asked:,} cases were changed, {len(done.unchanged):,} were so before,"
        f" {len(done.left):,} were left"
    )


@review.command("export")
def export_cases(
    model: ModelArgument,
    to: Annotated[Path, typer.Option("--out", help="File to write.")],
    form: Annotated[
        str, typer.Option("--format", help="`label-studio`, or all that is known as `csv`, `parquet` or `jsonl`.")
    ] = "label-studio",
    status: Annotated[
        list[Status] | None, typer.Option(help="Only cases in this state; repeat it for several.")
    ] = None,
    with_predictions: Annotated[
        bool,
        typer.Option("--with-predictions", help="Label Studio: also what the model said, except of blind cases."),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write the cases of a model to a file, oldest first."""
    from demur.review import access, cases, exchange
    from demur.review.cases import Filter
    from demur.serve.web.review.case_files import FORMATS, write_cases

    settings = load_config(config_path(config))
    task = settings.model(model).task
    wanted = next((known for known in FORMATS if known == form), None)
    if wanted is None:
        raise BadConfig(f"--format: {form!r} is not one of: {', '.join(FORMATS)}")
    with ExitStack() as opened:
        database = opened_database(settings, opened)
        connection = opened.enter_context(database.transaction())
        ids = cases.ids(connection, Filter(statuses=tuple(status) if status else None, model=model))
        with database.transaction() as noting:
            access.note(noting, ids, f"{getpass.getuser()} (command)", through="export", shown=["everything"])
        bar = opened.enter_context(progress_bar())
        dossiers = bar.track(exchange.dossiers(connection, ids), total=len(ids), description=f"writing {to.name}")
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("wb") as file:
            written = write_cases(dossiers, file, wanted, task, with_predictions=with_predictions)
    out.print(f"{written.cases:,} cases of {model} are in {to}")
    if written.left_out:
        out.print(
            f"{written.left_out:,} were left out: their input is no longer kept (models.{model}.keep_inputs_days)"
        )


@review.command("label-config")
def show_label_config(
    model: ModelArgument,
    kind: Annotated[
        str | None, typer.Option("--input", help="`text` or `image`; needed while there is no case.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Print Label Studio's labelling configuration for the cases of a model: Settings, Labeling Interface, Code."""
    from demur.serve.web.review.case_files import config_for

    settings = load_config(config_path(config))
    task = settings.model(model).task
    if kind not in (None, "text", "image", "table"):
        raise BadConfig(f"--input: {kind!r} is not text, image or table")
    with ExitStack() as opened:
        reviews = _reviews(settings, opened)
        typer.echo(config_for(reviews, model, task, kind), nl=False)  # type: ignore[arg-type]


@review.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="JSON export of Label Studio.")],
    person: Annotated[
        list[str] | None,
        typer.Option(help="Who is who, such as 7=ada: a number or address there, a name here. Repeat it for several."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Take in what people chose in Label Studio: each annotation becomes an opinion of that person, and counts as one.

    The same file can be brought again; what was taken stays as it is. Ends with status 1 if anything was refused."""
    from demur.serve.web.review.case_import import counted, import_verdicts, people_of
    from demur.serve.web.review.label_studio import BadExport, rows_of_export

    settings = load_config(config_path(config))
    try:
        content = read_text(file)
    except NotText as error:
        raise BadExport(str(error)) from None
    tasks = rows_of_export(content)
    with ExitStack() as opened:
        reviews = _reviews(settings, opened)
        bar = opened.enter_context(progress_bar())
        work = bar.add_task(f"reading {file.name}", total=None)
        rows = import_verdicts(
            reviews,
            tasks,
            people=people_of(person or []),
            progress=lambda done, of: bar.update(work, completed=done, total=of),
        )
    n = counted(rows)
    if n["refused"]:
        table = Table("task", "annotation", "case", "person", "why it was refused")
        for row in rows:
            if row.became == "refused":
                table.add_row(str(row.task), str(row.annotation), str(row.case or "–"), row.person or "–", row.why)
        out.print(table)
    out.print(f"{n['taken']:,} taken, {n['known']:,} known from before, {n['refused']:,} refused")
    if n["refused"]:
        raise typer.Exit(1)


def _reviews(settings: Config, opened: ExitStack) -> "ReviewService":
    from demur.serve.web.review.service import ReviewService

    return ReviewService(settings, opened_database(settings, opened))

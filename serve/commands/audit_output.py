"""What `demur audit` shows and writes."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from demur.serve.jobs.reports.making import NewlyMadeReport
    from demur.serve.jobs.reports.making import Progress as Step

HEADLINES_SHOWN = 3

COLOURS = {"kept": "green", "broken": "red", "not enough evidence": "yellow"}


def write_report(made: "NewlyMadeReport", folder: Path, json_to: str | None, say: Console) -> None:
    """Write the page, the numbers and the rows into a folder, and the numbers once more where `json_to` says."""
    from demur.audit.ledger.rows import write_rows

    folder.mkdir(parents=True, exist_ok=True)
    base = folder / made.extent.model
    page, numbers, rows = (base.with_name(f"{base.name}.{suffix}") for suffix in ("html", "json", "parquet"))
    page.write_text(made.html, encoding="utf-8")
    numbers.write_text(made.document, encoding="utf-8")
    if made.ledger is not None:
        with rows.open("wb") as file:
            write_rows(made.ledger, file)
    if json_to == "-":
        sys.stdout.write(made.document)
        sys.stdout.flush()
    elif json_to is not None:
        Path(json_to).parent.mkdir(parents=True, exist_ok=True)
        Path(json_to).write_text(made.document, encoding="utf-8")
    say.print(table_of(made))
    say.print(made.remark)
    for step in json.loads(made.document)["next_steps"]:
        say.print(Text(f"now: {step['do'].replace('`', '')}{': ' if step['command'] else ''}{step['command']}"))
    say.print(f"report: {page}\nnumbers: {numbers}")
    if made.ledger is not None:
        say.print(f"rows: {rows}")


@contextmanager
def progress_of(say: Console, model: str) -> "Iterator[Step]":
    """A bar that says what is being done and how far it has come, gone when it is over."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=say, transient=True) as bar:
        task = bar.add_task(f"auditing {model}", total=None)

        def tell(stage: str, done: int, total: int) -> None:
            bar.update(task, description=f"{model}: {stage}", completed=done, total=total or None)

        yield tell


def table_of(made: "NewlyMadeReport") -> Table:
    from demur.serve.web.shared.quantities import figure_in_words, interval_in_words

    summary = made.summary
    extent = f"{_moment(made.extent.since)} to {_moment(made.extent.until)} UTC"
    verdict = (summary.verdict, COLOURS.get(summary.verdict, ""))
    title = Text.assemble(f"{made.extent.model}, {extent}: ", verdict, style="table.title", justify="center")
    table = Table(title=title, caption=summary.why, min_width=60)
    for column in ("", "value", "95% interval"):
        table.add_column(column, justify="right" if column else "left")
    for figure in summary.figures[:HEADLINES_SHOWN]:
        table.add_row(figure.words, figure_in_words(figure), interval_in_words(figure))
    return table


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"

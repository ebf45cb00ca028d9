"""`demur init`: writes a first configuration, and says what comes next."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from demur.serve.commands.rows_trial import how_right
from demur.serve.commands.starting.first_config import KINDS, FirstConfig, Start, first_config
from demur.serve.commands.starting.label_column import doubts
from demur.serve.commands.starting.labelled_sample import LabelledSample, read_sample
from demur.serve.commands.terminal import DEFAULT_CONFIGS, out
from demur.serve.commands.trials import Doubt, NotTried, Remark, Wrong
from demur.serve.config.file import BadConfig
from demur.serve.configuration import load_config
from demur.traffic.file_form import FileForm
from demur.traffic.table_file import ENDINGS

TRIED = ("tabular", "given")
"""Kinds of model that is here, so that labelled rows can be tried at once; `demur check` tries the others."""

NOTHING_CHOSEN = 2
"""The exit status where no kind was named and nobody could be asked."""


def init(
    kind: Annotated[str | None, typer.Argument(help=f"What you have: {', '.join(KINDS)}.")] = None,
    source: Annotated[
        str | None,
        typer.Argument(help="The model: a file, a folder, an address or a class; for `given`, a file of predictions."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Labelled rows that the model was not trained on: .csv, .jsonl or .parquet."),
    ] = None,
    input_column: Annotated[str, typer.Option(help="The column with the inputs.")] = FileForm.input,
    label_column: Annotated[str, typer.Option(help="The column with the right labels.")] = FileForm.label,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of a .csv or .jsonl, such as cp1252; by default as its first bytes say, else UTF-8."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the model is called; by default as its source.")] = None,
    to: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path(DEFAULT_CONFIGS[0]),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a first configuration for what you have, with a comment on each key, and say which commands come next.

    It looks at what is there: labels, columns and what requests bring are taken from the model's file and from the
    labelled rows. Where both are here, it runs the model on some of the rows and says how often it is right. Without a
    kind it says which kinds there are."""
    chosen = kind or _asked()
    if chosen not in KINDS:
        raise BadConfig(f"there is no kind {chosen!r}; there are: {', '.join(KINDS)}")
    if to.exists() and not force:
        raise BadConfig(f"{to} is there already; --force writes over it, and --out names another file")
    if chosen == "given" and source is not None:
        if data is not None:
            raise BadConfig("of `given`, name one file: the predictions, with the right labels beside them")
        data = Path(source)
        source = None
    named = name or (data.stem if chosen == "given" and data else None)
    start = Start(
        kind=chosen,
        source=source,
        name=named,
        data=data,
        sample=_sample(data, chosen, input_column, label_column, encoding),
        input_column=input_column,
        label_column=label_column,
        encoding=encoding,
    )
    written = first_config(start)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(written.text, encoding="utf-8")
    out.print(f"wrote {to}: model {written.name!r}")
    for file, content in written.beside.items():
        path = to.parent / file
        if path.exists():
            out.print(f"{path} is there already, and was left as it is")
        else:
            path.write_text(content, encoding="utf-8")
            out.print(f"wrote {path}")
    for line in what_to_know(start, written, to):
        out.print(line)
    for command in next_commands(written, to):
        out.print(f"next:  {command}")


def what_to_know(start: Start, written: FirstConfig, path: Path) -> Iterator[str]:
    """What the user still has to write, and what to look at before the configuration is believed."""
    for question in written.open_questions:
        yield f"to be written by you: {question}"
    sample = start.sample
    if sample is None:
        return
    if not sample.has_labels:
        yield (
            f"{sample.path} has no column {start.label_column!r}, so nothing can be fitted on it: --label-column names"
            " another"
        )
    for doubt in doubts(sample):
        yield f"to be checked by you: {doubt}"
    if not sample.odd_cells and (start.kind in TRIED or (start.kind == "python" and start.source)):
        yield from lines_about_rows(path, written)


def lines_about_rows(path: Path, written: FirstConfig) -> Iterator[str]:
    """How often the model is right about the labelled rows, and what to look at if that is seldom; nothing where
    something is still to be written by the user."""
    if written.open_questions or not written.is_fitted_by_up:
        return
    try:
        config = load_config(path)
    except BadConfig as error:
        yield f"to be checked by you: {error}"
        return
    with out.status("running the model on labelled rows") if out.is_terminal else nullcontext():
        findings = list(how_right(config, written.name))
    for finding in findings:
        match finding:
            case Remark(text):
                yield text
            case NotTried(text):
                yield f"not tried: {text}"
            case Doubt(text) | Wrong(text=text):
                yield f"to be checked by you: {text}"


def next_commands(written: FirstConfig, path: Path) -> list[str]:
    """The two commands that come after `demur init`."""
    where = "" if str(path) == DEFAULT_CONFIGS[0] else f" {shlex.quote(str(path))}"
    check = f"demur check{where}"
    if written.is_fitted_by_up:
        return [check, f"demur up{where}"]
    option = f" --config{where}" if where else ""
    return [
        check,
        f"demur fit {written.name} --data FILE --promote{option}    (FILE: labelled rows; then: demur up{where})",
    ]


def _sample(
    data: Path | None, kind: str, input_column: str, label_column: str, encoding: str | None
) -> LabelledSample | None:
    if data is None:
        return None
    if not data.is_file():
        raise BadConfig(f"there is no file {data}; name one that ends in {', '.join(ENDINGS)}")
    return read_sample(
        data,
        input_column=input_column,
        label_column=label_column,
        with_outputs=kind == "given",
        encoding=encoding,
    )


def _asked() -> str:
    """Show the kinds; where somebody sits there, ask for one."""
    table = Table("kind", "you have", "for example")
    for one in KINDS.values():
        table.add_row(one.name, one.has, one.example)
    out.print(table)
    if not sys.stdin.isatty():
        out.print("name one of these kinds: demur init KIND")
        raise typer.Exit(NOTHING_CHOSEN)
    return str(typer.prompt("kind"))

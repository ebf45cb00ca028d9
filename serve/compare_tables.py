"""A comparison of two artifacts, as tables for the terminal."""

from rich.table import Table

from serve.compare import Comparison, Flip

FEW_ROWS, FEW_ERRORS = 30, 5
"""Below these there is no evidence, or none that a resampled interval could show (METHODS 9.3)."""


def tables(found: Comparison) -> list[Table]:
    """The numbers of both, the four cells, and some of the records that flip."""
    shown = [_numbers(found), _cells(found)]
    return [*shown, _flips(found)] if found.flips else shown


def remarks(found: Comparison) -> list[str]:
    """The test, said in words, and what the rows can show."""
    numbers = found.numbers
    test = numbers.answered_and_right
    said = [
        f"Answered and right (what is held counts as not right): {test.only_current:,} rows by A alone,"
        f" {test.only_shadow:,} by B alone; McNemar's exact p-value, if neither were so more often: {test.p_value:.4g}."
    ]
    if numbers.n < FEW_ROWS or min(numbers.wrong_a, numbers.wrong_b) < FEW_ERRORS:
        said.append(
            f"Insufficient for a verdict on risk: {numbers.wrong_a:,} wrong answers of A and {numbers.wrong_b:,} of B"
            f" among {numbers.n:,} rows; below {FEW_ERRORS} errors or {FEW_ROWS} rows the interval of the risk means"
            " little."
        )
    said.append(
        f"Left out: {found.forgotten:,} rows whose input was forgotten, {found.unusable:,} that do not fit the model,"
        f" {found.undefined:,} without a confidence. Every row counts once; labels that came because of the decision,"
        " or from people who saw it, favour the artifact that was in force."
    )
    return said


def _numbers(found: Comparison) -> Table:
    numbers = found.numbers
    table = Table(title=f"on the same {numbers.n:,} labelled rows", caption=f"A: {found.a}\nB: {found.b}")
    table.add_column("what", no_wrap=True)
    for column in ("A", "B", "B less A", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in numbers.differences:
        interval = "–" if line.lower != line.lower else f"{line.lower:+.4f} to {line.upper:+.4f}"
        table.add_row(line.name, _number(line.a), _number(line.b), _number(line.difference, "+"), interval)
    return table


def _cells(found: Comparison) -> Table:
    table = Table(title="decisions")
    for column in ("A", "B"):
        table.add_column(column)
    for column in ("rows", "share", "labelled", "risk of A", "risk of B"):
        table.add_column(column, justify="right")
    words = {"answer": "answered", "review": "held"}
    for name, cell in found.numbers.flips.cells.items():
        a, b = (words[action] for action in name.split("_"))
        table.add_row(
            a,
            b,
            f"{cell.n:,}",
            f"{cell.share:.1%}",
            f"{cell.n_labelled:,}",
            _number(cell.current_risk),
            _number(cell.shadow_risk),
        )
    return table


def _flips(found: Comparison) -> Table:
    cells = found.numbers.flips.cells
    total = cells["answer_review"].n + cells["review_answer"].n
    # without lines, so that eighty columns are enough
    table = Table(title=f"{len(found.flips)} of the {total:,} rows whose decision flips", box=None)
    table.add_column("id", no_wrap=True)  # there to be copied
    table.add_column("says")
    for column in ("A", "B"):
        table.add_column(column)
    for column in ("conf. A", "conf. B"):
        table.add_column(column, justify="right")
    for flip in found.flips:
        table.add_row(flip.id, _named(flip), flip.a, flip.b, *map(_confidence, (flip.confidence_a, flip.confidence_b)))
    return table


def _named(flip: Flip) -> str:
    if isinstance(flip.prediction, list):
        return ", ".join(flip.prediction) or "(none)"
    return flip.prediction or "–"


def _confidence(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _number(value: float, sign: str = "") -> str:
    return "–" if value != value else f"{value:{sign}.4f}"

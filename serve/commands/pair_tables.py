"""What is between two artifacts, as tables and words for the terminal."""

from collections.abc import Mapping, Sequence
from math import isnan, nan

from rich.table import Table

from demur.audit.metrics.comparison import DecisionFlips, McNemar
from demur.audit.metrics.head_to_head import HeadToHead
from demur.audit.metrics.top_k import FiguresAtK
from demur.serve.fitting.flip import Flip

AT_K: Mapping[str, str] = {
    "precision": "precision",
    "recall": "recall",
    "ece": "ECE",
    "label_risk": "labels of answers that do not hold",
}


def numbers_table(numbers: HeadToHead, *, title: str, caption: str) -> Table:
    """Every number of both, with the interval of the difference."""
    table = Table(title=title, caption=caption)
    table.add_column("what", no_wrap=True)
    for column in ("A", "B", "B less A", "95% interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for line in numbers.differences:
        interval = "–" if line.lower != line.lower else f"{line.lower:+.4f} to {line.upper:+.4f}"
        table.add_row(line.name, _number(line.a), _number(line.b), _number(line.difference, "+"), interval)
    return table


def cells_table(flips: DecisionFlips) -> Table:
    """How many rows both or one of them answers, and the risk in each of the four cells."""
    table = Table(title="decisions")
    for column in ("A", "B"):
        table.add_column(column)
    for column in ("rows", "share", "labelled", "risk of A", "risk of B"):
        table.add_column(column, justify="right")
    words = {"answer": "answered", "review": "held"}
    for name, cell in flips.cells.items():
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


def flips_table(named: Sequence[Flip], flips: DecisionFlips) -> Table:
    """Some of the rows that flip, by name."""
    total = flips.cells["answer_review"].n + flips.cells["review_answer"].n
    # without lines, so that eighty columns are enough
    table = Table(title=f"{len(named)} of the {total:,} rows whose decision flips", box=None)
    table.add_column("id", no_wrap=True)  # there to be copied
    table.add_column("says")
    for column in ("A", "B"):
        table.add_column(column)
    for column in ("conf. A", "conf. B"):
        table.add_column(column, justify="right")
    for flip in named:
        table.add_row(flip.id, _named(flip), flip.a, flip.b, *map(_confidence, (flip.confidence_a, flip.confidence_b)))
    return table


def mcnemar_in_words(test: McNemar) -> str:
    """The test of who answers rightly more often."""
    return (
        f"Answered and right (what is held counts as not right): {test.only_current:,} rows by A alone,"
        f" {test.only_shadow:,} by B alone; McNemar's exact p-value, if neither were so more often: {test.p_value:.4g}."
    )


def _named(flip: Flip) -> str:
    if isinstance(flip.prediction, list):
        return ", ".join(flip.prediction) or "(none)"
    return flip.prediction or "–"


def _confidence(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _number(value: float, sign: str = "") -> str:
    return "–" if value != value else f"{value:{sign}.4f}"


def at_k_table(a: Sequence[FiguresAtK], b: Sequence[FiguresAtK], name_a: str, name_b: str) -> Table:
    """Figures of the most probable labels, of both sides."""
    table = Table("what", name_a, name_b, title="the k most probable labels")
    sides = [{one.k: one for one in side} for side in (a, b)]
    for k in sorted({*sides[0], *sides[1]}):
        for name, words in AT_K.items():
            values = [getattr(side[k], name) if k in side else nan for side in sides]
            table.add_row(f"{words}@{k}", *("–" if isnan(value) else f"{value:.4f}" for value in values))
    return table

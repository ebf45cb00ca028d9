"""A comparison of two artifacts, as tables for the terminal."""

from rich.table import Table

from demur.serve.commands.pair_tables import at_k_table, cells_table, flips_table, mcnemar_in_words, numbers_table
from demur.serve.fitting.compare import ArtifactComparison

FEW_ROWS, FEW_ERRORS = 30, 5
"""Below these there is no evidence, or none that a resampled interval could show (METHODS 9.3)."""


def tables(found: ArtifactComparison) -> list[Table]:
    """The numbers of both, the four cells, and some of the records that flip."""
    numbers = found.numbers
    shown = [
        numbers_table(numbers, title=f"on the same {numbers.n:,} labelled rows", caption=f"A: {found.a}\nB: {found.b}"),
        cells_table(numbers.flips),
    ]
    shown += [at_k_table(*found.at_k, "A", "B")] if any(found.at_k) else []
    return [*shown, flips_table(found.flips, numbers.flips)] if found.flips else shown


def remarks(found: ArtifactComparison) -> list[str]:
    """The test, said in words, and what the rows can show."""
    numbers = found.numbers
    said = [mcnemar_in_words(numbers.answered_and_right)] if numbers.answered_and_right else []
    if numbers.n < FEW_ROWS or min(numbers.wrong_a, numbers.wrong_b) < FEW_ERRORS:
        said.append(
            f"Insufficient for a verdict on risk: {numbers.wrong_a:,} wrong answers of A and {numbers.wrong_b:,} of B"
            f" among {numbers.n:,} rows; below {FEW_ERRORS} errors or {FEW_ROWS} rows the interval of the risk means"
            " little."
        )
    other = f", {found.rewritten:,} about a text that is not written again" if found.rewritten else ""
    said.append(
        f"Left out: {found.forgotten:,} rows whose input was forgotten, {found.unusable:,} that do not fit the model,"
        f" {found.undefined:,} without a confidence{other}. Every row counts once; labels that came because of the"
        " decision, or from people who saw it, favour the artifact that was in force."
    )
    return said

"""Texts from outside as cells of a CSV, such that no spreadsheet takes them for formulas, and back."""

import re
from collections.abc import Collection

FORMULA = re.compile("[\t\r\n]|[\\s\"'\u200b\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that spreadsheets calculate, perhaps after characters that some of them skip."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

OUR_COLUMNS = frozenset(("case", "record", "model", "input", "label"))
"""By which a file of cases is known that this service has written."""


def as_cell(text: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would calculate it; a number stays a number."""
    return f"'{text}" if _is_calculated(text) else text


def from_cell(cell: str) -> str:
    """The text of a cell that `as_cell` has written."""
    return cell[1:] if cell.startswith("'") and _is_calculated(cell) else cell


def has_our_cells(columns: Collection[str]) -> bool:
    """Whether a table with these columns was written with `as_cell`."""
    return set(columns) >= OUR_COLUMNS


def _is_calculated(text: str) -> bool:
    """Apostrophes at the beginning change nothing about that, so that a text which has some of its own comes back."""
    return FORMULA.match(text.lstrip("'")) is not None and NUMBER.fullmatch(text) is None

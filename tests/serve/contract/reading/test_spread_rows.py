"""Inputs that a file spreads over columns."""

import pytest

from demur.serve.config.input import InputConfig
from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, spec_of
from demur.serve.contract.reading.inputs import read_input
from demur.serve.contract.reading.spread_rows import gathered
from demur.traffic.dataset import read_labelled_file

COLUMNS = {"age": "number", "smoker": "boolean", "job": {"kind": "category", "missing": True}, "note": "text"}
SPEC = spec_of(InputConfig.model_validate({"kind": "table", "columns": COLUMNS}))


def rows_of(tmp_path, content):
    (tmp_path / "rows.csv").write_text(content)
    return read_labelled_file(tmp_path / "rows.csv")


def test_the_columns_of_a_model_are_gathered_and_others_left_out(tmp_path):
    rows = rows_of(tmp_path, "id,age,smoker,job,note,label,group\n7,41,yes,,007,good,a\n8,1e1,false,nurse,x,bad,b\n")
    assert rows.labels == ["good", "bad"]
    assert rows.groups == ["a", "b"]
    assert [gathered(row, SPEC) for row in rows.inputs] == [
        {"age": 41.0, "smoker": True, "job": None, "note": "007"},
        {"age": 10.0, "smoker": False, "job": "nurse", "note": "x"},
    ]


def test_what_is_no_number_is_told_as_in_a_request(tmp_path):
    (row,) = rows_of(tmp_path, "age,smoker,note,label\nold,maybe,x,good\n").inputs
    with pytest.raises(InvalidRequest, match=r"input\.age: a number is wanted here, not .*input\.smoker: true or"):
        read_input(gathered(row, SPEC), SPEC, InputLimits(text_characters=10))


def test_a_column_that_is_not_there_is_named(tmp_path):
    (row,) = rows_of(tmp_path, "smoker,note,label\nyes,x,good\n").inputs
    with pytest.raises(InvalidRequest, match="there is no column 'age'; there are: 'smoker', 'note'"):
        gathered(row, SPEC)


def test_pairs_and_any_values_are_gathered_as_well(tmp_path):
    (row,) = rows_of(tmp_path, "text,text_pair,label\na,b,yes\n").inputs
    assert gathered(row, InputSpec(kind="text_pair")) == {"text": "a", "text_pair": "b"}
    assert gathered(row, InputSpec(kind="json")) == {"text": "a", "text_pair": "b"}


def test_a_model_that_takes_one_text_asks_for_the_column(tmp_path):
    (row,) = rows_of(tmp_path, "text,label\na,yes\n").inputs
    with pytest.raises(InvalidRequest, match="there is no 'input'; there are: 'text', 'label'; name the one"):
        gathered(row, InputSpec(kind="text"))
    assert gathered("a text", InputSpec(kind="text")) == "a text"

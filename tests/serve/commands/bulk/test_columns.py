"""Which columns of a file are sent, and a file of predictions that were made elsewhere."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from demur import Client
from demur.calibration_store.store import ArtifactStore
from demur.client.errors import InvalidRequest
from demur.client.items import Item
from demur.serve.commands.bulk.columns import Columns, likely_outputs, value_of
from demur.serve.web.native.app import gateway_app
from demur.traffic.table_file import rows_of
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.gateway.test_given import SURE, UNSURE, config_of, fitted
from tests.serve.hosting import RunningHost
from tests.serve.listening import listening

CSV, JSONL = Path("rows.csv"), Path("rows.jsonl")


def item(path, row, first=None, **more):
    return Columns(**more).of(path, first or row).item("line 2", row)


@pytest.mark.parametrize(
    ("row", "columns", "sent"),
    [
        ({"input": "a", "group": "g", "cluster": 7}, {}, Item(input="a", group="g", cluster="7")),
        ({"text": "a", "x": 1}, {"inputs": ("text",)}, Item(input="a")),
        ({"a": "1", "b": "", "label": "x", "group": ""}, {}, Item(input={"a": 1, "b": None})),
        ({"a": "1", "b": "2", "c": "3"}, {"inputs": ("a", "c")}, Item(input={"a": 1, "c": 3})),
        ({"p": [0.5, 0.5], "id": 7}, {"outputs": ("p",)}, Item(output={"p": [0.5, 0.5]})),
        ({"p": [0.5, 0.5], "input": "a"}, {"outputs": ("p",)}, Item(input="a", output={"p": [0.5, 0.5]})),
        ({"said": {"p": [1.0]}}, {"outputs": ("said",)}, Item(output={"p": [1.0]})),
        ({"p": [1.0], "e": [2.0]}, {"outputs": ("p", "e")}, Item(output={"p": [1.0], "e": [2.0]})),
        ({"input": "a", "team": "red"}, {"group": "team"}, Item(input="a", group="red")),
        (
            {"input": "a", "p_x": "0.25", "p_y": "0.75", "e": "[2.0]"},
            {"outputs": ("p_*",)},
            Item(input="a", output={"probabilities": {"x": 0.25, "y": 0.75}}),
        ),
        ({"logit_x": "-3", "logit_y": "2"}, {"outputs": ("logit_*",)}, Item(output={"logits": {"x": -3, "y": 2}})),
        ({"mine_x": "1", "s": "2"}, {"outputs": ("mine_*", "s")}, Item(output={"s": 2, "probabilities": {"x": 1}})),
        ({"p_*": [1.0]}, {"outputs": ("p_*",)}, Item(output={"p_*": [1.0]})),
    ],
)
def test_what_is_sent_of_a_row(row, columns, sent):
    assert item(CSV, row, **columns) == sent


def test_the_first_row_says_whether_there_is_a_column_of_inputs():
    refused = item(JSONL, {"text": "a"}, first={"input": "a"})
    assert isinstance(refused, InvalidRequest)
    assert "line 2: there is no 'input'; there are: 'text'; name the one that is meant with --input-column" in str(
        refused
    )
    assert "--output-column" in str(item(JSONL, {"input": "a"}, outputs=("p",)))


def test_a_star_without_columns_is_refused():
    assert "there is no 'p_*'; there are: 'input', 'p_'" in str(item(JSONL, {"input": "a", "p_": 1}, outputs=("p_*",)))


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ({"input": "a", "p_x": 1, "p_y": 0}, "--output-column 'p_*'"),
        ({"logit_x": 1, "logit_y": 0}, "--output-column 'logit_*'"),
        ({"input": "a", "probabilities": [1, 0]}, "--output-column 'probabilities'"),
        ({"input": "a", "p_value": 1}, ""),
    ],
)
def test_columns_that_look_like_what_a_model_said_are_named(row, option):
    assert likely_outputs(row) == option


def test_what_has_types_keeps_them():
    row = {"zip": "01234", "n": "7", "x": 1.5}
    assert item(JSONL, row).input == row
    assert item(CSV, {"zip": "01234", "n": "7"}).input == {"zip": "01234", "n": 7}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("7", 7), ("-7", -7), ("1.5", 1.5), ("1e3", 1000.0), ("", None), ("true", True), ("False", False),
        ("0", 0), ("0.5", 0.5), ("007", "007"), ("a", "a"), ("nan", "nan"), ("inf", "inf"), ("1_000", "1_000"),
        ("12345678901234567890", "12345678901234567890"), ("٣", "٣"), (" 7", " 7"), ([1], [1]),
    ],
)  # fmt: skip
def test_cells(cell, value):
    read = value_of(cell)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_a_file_of_predictions_that_were_made_elsewhere(run, database, tmp_path, monkeypatch, name):
    config = config_of(tmp_path)
    fitted(config, tmp_path)
    host = RunningHost("vendor", config.models["vendor"], ArtifactStore(config.artifacts))
    handler = make_handler(config, {"vendor": LocalHost(host)}, database)
    rows = [{"ticket": f"t{at}", "probabilities": p} for at, p in enumerate([SURE, UNSURE, [1.0, 1.0, 1.0]])]
    path = tmp_path / name
    if name.endswith(".csv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["ticket", "probabilities"])
            writer.writeheader()
            writer.writerows({**row, "probabilities": json.dumps(row["probabilities"])} for row in rows)
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    out = tmp_path / "out.jsonl"
    with listening(gateway_app(handler, max_body_bytes=config.limits.body_bytes)) as url:
        ended = run(
            "predict", path, "--model", "vendor", "--out", out, "--url", url,
            "--output-column", "probabilities", "--input-column", "ticket",
        )  # fmt: skip
        with Client(url) as client:
            alone = client.predict("vendor", output={"probabilities": SURE})
            many = client.predict_many("vendor", [Item(output={"probabilities": p}) for p in (SURE, UNSURE)])
    assert ended.status == 1
    told = [row for _, row in rows_of(out)]
    assert [row["action"] for row in told] == ["answer", "review", None]
    assert "output.probabilities: they come to 3" in told[2]["error"]
    assert (alone.label, [one.answered for one in many]) == ("billing", [True, False])

"""`demur init`: what it writes can be checked, explained and served."""

import json
import re
from itertools import pairwise

import lightgbm
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import skops.io
import xgboost
import yaml
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from demur.serve.cli import app
from demur.serve.commands.check import check_file
from demur.serve.commands.starting.first_config import KINDS
from demur.serve.config.file import BadConfig
from demur.traffic.table_file import BadDataFile
from tests.conftest import ROOT

DIGITS = ROOT / "deploy/models/digits"

CLASS = """
import numpy as np

class Model:
    def predict_proba(self, inputs):
        return np.full((len(inputs), 2), 0.5)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    """Return what is printed; raises what the command raises."""
    done = CliRunner().invoke(app, ["init", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def written(here, name="demur.yaml"):
    (model,) = yaml.safe_load((here / name).read_text())["models"].values()
    return model


def rows(here, name, rows):
    path = here / name
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


PROBABILITIES = [
    {"input": "a", "probabilities": [0.9, 0.1], "label": "no"},
    {"input": "b", "probabilities": [0.3, 0.7], "label": "yes"},
]


def wanted(here):
    """For each kind, what it is started with."""
    (here / "our_own.py").write_text(CLASS)
    table = here / "table.csv"
    table.write_text("age,job,member,label\n" + "31,clerk,true,no\n44,nurse,false,yes\n" * 10)
    numbers = rows(
        here, "numbers.parquet", [{"a": n / 40, "b": 1.0, "label": ("no", "yes")[n > 20]} for n in range(40)]
    )
    fitted = LogisticRegression().fit([[n / 40, 1.0] for n in range(40)], [("no", "yes")[n > 20] for n in range(40)])
    skops.io.dump(fitted, here / "model.skops")
    return {
        "tabular": ["model.skops", "--data", numbers],
        "remote": ["http://127.0.0.1:9000/v2/models/tickets", "--data", str(table)],
        "classifier": [str(DIGITS)],
        "llm": [],
        "given": [rows(here, "said.parquet", PROBABILITIES)],
        "python": ["our_own:Model", "--data", str(table)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_key_has_a_comment(here, kind):
    run(kind, *wanted(here)[kind])
    lines = (here / "demur.yaml").read_text().splitlines()
    for before, line in pairwise(lines):
        if re.match(r"\s*[a-z_]+:", line) and line != "models:":
            assert before.strip().startswith("#") or "#" in line, line


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_valid(here, kind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    said = run(kind, *wanted(here)[kind])
    check_file(here / "demur.yaml", offline=True)
    assert "next:  demur check" in said
    assert "demur up" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_file_what_is_unknown_is_said(here, kind, monkeypatch):
    """Everything else can be read by `demur check`; it complains of nothing but what was named."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    said = run(kind)
    alone = {
        "classifier": ("host.checkpoint", "there is no folder ./model"),
        "tabular": ("host.file", "there is no file"),
    }
    if kind in alone:
        place, wrong = alone[kind]
        assert place in said
        with pytest.raises(BadConfig, match=re.escape(wrong)):
            check_file(here / "demur.yaml", offline=True)
        return
    assert "to be written by you: " in said
    check_file(here / "demur.yaml", offline=True)


def test_a_new_class_comes_with_its_file(here):
    assert "wrote our_model.py" in run("python")
    assert sorted(path.name for path in here.iterdir()) == ["demur.yaml", "our_model.py"]
    (here / "our_model.py").write_text("mine = 1")
    assert "our_model.py is there already, and was left as it is" in run("python", "--force")
    (here / "demur.yaml").unlink()
    assert "our_model.py is there already, and was left as it is" in run("python")
    assert (here / "our_model.py").read_text() == "mine = 1"


def test_labels_and_parts_come_from_the_file(here):
    run("given", rows(here, "said.jsonl", PROBABILITIES))
    model = written(here)
    assert model["task"] == {"kind": "binary", "labels": ["no", "yes"]}
    assert model["host"]["gives"] == ["probabilities"]
    assert "In this order 100% of the rows are right" in (here / "demur.yaml").read_text()
    assert model["policy"]["kind"] == "target_risk"  # two rows promise nothing


def test_confidence_looks_at_all_labels_where_there_are_probabilities(here):
    numbers = [{"prediction": "no", "scores": {"risk": 0.2}, "label": "no"}] * 2
    for kind, file, calibrator in (
        ("given", rows(here, "said.parquet", PROBABILITIES), "correctness"),
        ("given", rows(here, "numbers.jsonl", numbers), "platt"),
        ("python", None, "correctness"),
        ("llm", None, "platt"),
    ):
        (here / "demur.yaml").unlink(missing_ok=True)
        run(kind, *filter(None, [file]))
        assert written(here)["confidence"]["calibrator"] == calibrator, (kind, file)
    (here / "demur.yaml").unlink()
    run("given", rows(here, "said.parquet", PROBABILITIES))
    text = (here / "demur.yaml").read_text()
    (here / "demur.yaml").write_text(
        text.replace("# calibrator: platt", "calibrator: platt").replace("calibrator: correctness\n", "\n")
    )
    assert written(here)["confidence"]["calibrator"] == "platt"


def test_many_labelled_rows_carry_a_promise(here):
    run("given", rows(here, "said.jsonl", PROBABILITIES * 400))
    assert written(here)["policy"]["kind"] == "selective_risk"


def test_probabilities_that_name_their_labels_say_their_order(here):
    said = [{"p_z": 0.4, "p_a": 0.6, "label": "a"}, {"p_z": 0.7, "p_a": 0.3, "label": "z"}]
    run("given", rows(here, "said.jsonl", said))
    assert written(here)["task"]["labels"] == ["z", "a"]
    assert "does not tell" not in (here / "demur.yaml").read_text()


def test_numbers_that_are_labels_are_sorted_by_value(here):
    said = [{"probabilities": {"10": 0.5, "9": 0.5}, "label": label} for label in ("10", "9", "11")]
    run("given", rows(here, "said.jsonl", said))
    assert written(here)["task"]["labels"] == ["10", "9", "11"]
    run(
        "python",
        "our_own:Model",
        "--data",
        rows(here, "truth.jsonl", [{"input": "a", "label": n} for n in (10, 9)]),
        "--force",
    )
    assert written(here)["task"]["labels"] == ["9", "10"]


def test_several_labels_of_a_row_are_a_multilabel_task(here):
    said = [
        {"probabilities": {"a": 0.4, "b": 0.6}, "label": ["a", "b"]},
        {"probabilities": {"a": 1.0, "b": 0.0}, "label": []},
    ]
    run("given", rows(here, "said.jsonl", said))
    assert written(here)["task"] == {"kind": "multilabel", "labels": ["a", "b"]}
    check_file(here / "demur.yaml", offline=True)


def test_embeddings_are_counted_and_scores_named(here):
    said = [{"prediction": one, "embedding": [1.0, 2.0], "scores": {"risk": 0.2}, "label": one} for one in ("a", "b")]
    told = run("given", rows(here, "said.jsonl", said))
    host = written(here)["host"]
    assert host["gives"] == ["prediction", "embedding", "scores"]
    assert host["embedding_size"] == 2
    assert host["scores"] == {"risk": "less_sure"}
    assert "to be written by you: whether a higher number means surer" in told
    check_file(here / "demur.yaml", offline=True)


def test_columns_of_a_table_get_their_kinds(here):
    table = here / "rows.csv"
    row = "{age},{job},{member},note {age},{label}\n"
    lines = [row.format(age=n, job=("clerk", "nurse")[n % 2], member="true", label="ab"[n % 2]) for n in range(20)]
    table.write_text("age,job,member,note,label\n" + "".join(lines) + ",clerk,false,new,a\n")
    run("python", "our_own:Model", "--data", str(table))
    assert written(here)["host"]["input"]["columns"] == {
        "age": {"kind": "number", "missing": True},
        "job": {"kind": "category", "values": ["clerk", "nurse"]},
        "member": "boolean",
        "note": "text",
    }


def test_columns_with_other_names_are_named_in_the_file(here):
    said = rows(here, "said.jsonl", [{"text": "a", "truth": "x"}, {"text": "b", "truth": "y"}])
    run("python", "our_own:Model", "--data", said, "--input-column", "text", "--label-column", "truth")
    assert written(here)["calibration"] == {"data": said, "input_column": "text", "label_column": "truth"}


def test_a_file_in_another_encoding(here):
    (here / "said.csv").write_bytes("label,p_café,p_no\ncafé,0.9,0.1\nno,0.2,0.8\n".encode("cp1252"))
    with pytest.raises(BadDataFile, match=r"save the file as UTF-8, or set --encoding to cp1252$"):
        run("given", "said.csv")
    run("given", "said.csv", "--encoding", "cp1252")
    assert written(here)["task"]["labels"] == ["café", "no"]
    assert written(here)["calibration"] == {"data": "said.csv", "encoding": "cp1252"}
    check_file(here / "demur.yaml", offline=True)


def test_nothing_is_overwritten_unasked(here):
    (here / "demur.yaml").write_text("mine")
    with pytest.raises(BadConfig, match="--force writes over it"):
        run("llm")
    assert (here / "demur.yaml").read_text() == "mine"
    run("llm", "--force")
    assert "models:" in (here / "demur.yaml").read_text()


def test_without_a_kind_the_kinds_are_explained(here):
    done = CliRunner().invoke(app, ["init"])
    assert done.exit_code == 2
    assert all(kind in done.output for kind in KINDS)
    assert not (here / "demur.yaml").exists()


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["tabel"], BadConfig, "there is no kind 'tabel'; there are: classifier"),
        (["given", "none.parquet"], BadConfig, "there is no file none.parquet"),
        (["given", "notes.txt"], BadDataFile, "must end in one of"),
        (["given", "broken.parquet"], BadDataFile, "not a Parquet file"),
        (["given", "empty.jsonl"], BadDataFile, "there are no rows"),
        (["given", "words.jsonl"], BadConfig, "nothing says what the model predicted"),
        (["given", "bare.jsonl"], BadConfig, "nothing says how sure the model is"),
        (
            ["given", "words.jsonl", "--label-column", "truth"],
            BadDataFile,
            "has no column 'truth', which --label-column",
        ),
        (
            ["tabular", "--data", "comma.csv"],
            BadDataFile,
            "column 'age' has numbers with a comma, such as 3,5; write them with a point",
        ),
        (["python", "our_model.py"], BadConfig, "write its module, a colon and its name"),
        (["classifier", "folder"], BadConfig, "has no config.json"),
        (["llm", "./folder/none"], BadConfig, "there is no folder ./folder/none"),
    ],
)
def test_what_cannot_be_used_is_told(here, words, error, said):
    (here / "folder").mkdir()
    (here / "notes.txt").write_text("a")
    (here / "broken.parquet").write_text("PAR1 no")
    (here / "empty.jsonl").write_text("")
    (here / "comma.csv").write_text("age;label\n3,5;no\n;no\n-40,25;yes\n")
    rows(here, "words.jsonl", [{"input": "a", "label": "b"}])
    rows(here, "bare.jsonl", [{"prediction": "a", "label": "a"}, {"prediction": "b", "label": "a"}])
    with pytest.raises(error, match=re.escape(said)):
        run(*words)
    assert not (here / "demur.yaml").exists()


HOSTILE = 'a"""\nimport os\n# :{[*&!'


def test_hostile_names_stay_names(here):
    """A label, a column or a file is called as somebody likes: it never becomes a key, a comment's end, or code."""
    said = [{HOSTILE: 1.0, "label": one} for one in (HOSTILE, "b: c")] * 3
    run("python", "--data", rows(here, "said.jsonl", said))
    assert set(written(here)["task"]["labels"]) == {HOSTILE, "b: c"}
    compile((here / "our_model.py").read_text(), "our_model.py", "exec")
    assert "\nimport os" not in (here / "our_model.py").read_text()
    said = [{"probabilities": {HOSTILE: 0.5, "b": 0.5}, "label": "b"}]
    run("given", rows(here, "x\n  evil: 1\n.jsonl", said), "--force")
    assert set(written(here)["task"]["labels"]) == {HOSTILE, "b"}
    assert "\n  evil" not in (here / "demur.yaml").read_text().replace("data: ", "")


def test_what_is_written_can_be_fitted(here):
    """With the inputs for reviewers beside the model's output."""
    said = [
        {"input": f"case {n}", "probabilities": [n / 157, 1 - n / 157], "label": ("no", "yes")[n < 70]}
        for n in range(1, 157)
    ]
    run("given", rows(here, "said.parquet", said))
    done = CliRunner().invoke(app, ["fit", "said", "--data", "said.parquet"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "not in force yet: demur artifacts promote said" in done.output


def table(here, name="rows.csv"):
    """Rows of two columns, with labels that are texts; one value is missing."""
    lines = [f"{n},{('clerk', 'nurse')[n % 2]},{('repaid', 'defaulted')[n % 3 == 0]}" for n in range(60)]
    (here / name).write_text("age,job,label\n" + "\n".join(lines) + "\n,clerk,repaid\n")
    frame = pandas.read_csv(here / name)
    frame["job"] = frame["job"].astype("category")
    return frame[["age", "job"]], (frame["label"] == "repaid").astype(int)  # 0 defaulted, 1 repaid: sorted


def fitted_trees(kind, rows, answer):
    if kind == "xgboost":
        return xgboost.XGBClassifier(enable_categorical=True, n_estimators=3).fit(rows, answer)
    return lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1).fit(rows, answer).booster_


TREES = [
    ("xgboost", "trees.json"),
    pytest.param("xgboost", "trees.ubj", marks=pytest.mark.long),
    pytest.param("lightgbm", "trees.txt", marks=pytest.mark.long),
]
"""By day one kind of file: the others differ in how a host reads them, which its own tests show."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "file"), TREES)
def test_trees_are_served_with_the_columns_of_their_file(here, kind, file):
    fitted_trees(kind, *table(here)).save_model(here / file)
    said = run("tabular", file, "--data", "rows.csv")
    assert [line for line in said.splitlines() if line.startswith("next:")] == ["next:  demur check", "next:  demur up"]
    model = written(here)
    assert model["host"]["kind"] == kind
    assert model["task"] == {"kind": "binary", "labels": ["defaulted", "repaid"]}
    assert "columns" not in model["host"].get("input", {})  # the file has them, with the categories
    assert "by their numbers only, 0 first" in (here / "demur.yaml").read_text()
    check_file(here / "demur.yaml", offline=True)
    done = CliRunner().invoke(app, ["fit", "trees", "--data", "rows.csv", "--anyway"], catch_exceptions=False)
    assert done.exit_code == 0, done.output  # the row with the missing value as well


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "file"), TREES)
def test_trees_without_rows_have_numbers_for_labels(here, kind, file):
    rng = np.random.default_rng(0)
    fitted_trees(kind, rng.random((90, 2)), np.arange(90) % 3).save_model(here / file)
    said = run("tabular", file)
    assert "to be written by you: what the classes of the model are called: task.labels (the model tells 3)" in said
    assert written(here)["task"] == {"kind": "multiclass", "labels": ["0", "1", "2"]}
    check_file(here / "demur.yaml", offline=True)
    numbers = rows(here, "numbers.jsonl", [{"a": n / 40, "b": 1.0, "label": n % 2} for n in range(40)])
    assert "to be written by you" not in run("tabular", file, "--data", numbers, "--force")
    assert written(here)["task"]["labels"] == ["0", "1", "2"]  # the rows have no 2
    assert list(written(here)["host"]["input"]["columns"]) == ["a", "b"]
    check_file(here / "demur.yaml", offline=True)
    rows(here, "few.jsonl", [{"a": n / 40, "b": 1.0, "label": ["no", "yes"][n % 2]} for n in range(40)])
    assert "(the model tells 3, and few.jsonl has 2)" in run("tabular", file, "--data", "few.jsonl", "--force")


@pytest.mark.slow
def test_a_value_that_lightgbm_would_read_as_0_is_not_allowed_to_be_missing(here):
    rng = np.random.default_rng(0)
    fitted_trees("lightgbm", rng.random((90, 2)), np.arange(90) % 2).save_model(here / "trees.txt")
    lacking = [{"a": None if n == 3 else n / 40, "b": 1.0, "label": n % 2} for n in range(40)]
    run("tabular", "trees.txt", "--data", rows(here, "lacking.jsonl", lacking))
    assert written(here)["host"]["input"]["columns"] == {"a": "number", "b": "number"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("trees.json", "{}", "xgboost cannot read trees.json"),
        ("trees.ubj", "x", "xgboost cannot read trees.ubj"),
        ("trees.txt", "a letter", "lightgbm cannot read trees.txt"),
        ("graph.onnx", "x", "graph.onnx is damaged, or no graph in ONNX's format"),
        ("model.h5", "x", "the name of a model's file ends in .onnx, .skops, .joblib"),
    ],
)
def test_files_of_models_that_nothing_could_serve_are_told(here, file, content, said):
    (here / file).write_text(content)
    with pytest.raises(BadConfig, match=re.escape(said)):
        run("tabular", file)
    assert not (here / "demur.yaml").exists()


@pytest.mark.slow
def test_labels_come_from_a_file_that_names_them(here):
    """Also one of which the rows have none."""
    marks = np.arange(60)[:, None] / 60
    model = LogisticRegression().fit(marks, np.array(["high", "low", "mid"])[np.arange(60) // 20])
    skops.io.dump(model, here / "model.skops")
    (here / "model.onnx").write_bytes(
        to_onnx(model, initial_types=[("rows", FloatTensorType([None, 1]))]).SerializeToString()
    )
    some = rows(here, "some.jsonl", [{"mark": n / 60, "label": ("high", "low")[n // 20]} for n in range(40)])
    for file in ("model.skops", "model.onnx"):
        for more in ([], ["--data", some]):
            assert "to be written by you" not in run("tabular", file, *more, "--force")
            assert written(here)["task"] == {"kind": "multiclass", "labels": ["high", "low", "mid"]}
            assert f"As they are in {file}." in (here / "demur.yaml").read_text()
            check_file(here / "demur.yaml", offline=True)

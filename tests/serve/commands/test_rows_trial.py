"""What `demur check` and `demur init` say of how often a model is right about its labelled rows."""

import json

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from demur.serve.cli import app
from demur.serve.commands.check import check_file
from demur.serve.commands.rows_trial import how_right
from demur.serve.commands.trials import NotTried
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config
from demur.serve.fitting.tried_rows import PROCESS_SECONDS, SECONDS

GIVEN = """\
models:
  vendor:
    task: {{kind: {kind}, labels: [{labels}]}}
    host: {{kind: given, gives: [probabilities]}}
    scores: [{score}]
    confidence: {{score: {score}, calibrator: isotonic}}
    policy: {{kind: rejection_rate, rate: 0.1}}
    calibration: {{data: rows.jsonl}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def check(here, capsys):
    """Check a configuration of predictions made elsewhere, beside these rows; return what is printed."""

    def run(rows, labels="'no', 'yes'", kind="binary", score="softmax_response", **options):
        (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (here / "demur.yaml").write_text(GIVEN.format(kind=kind, labels=labels, score=score))
        check_file(here / "demur.yaml", **{"offline": True, **options})
        return capsys.readouterr().out

    return run


def init(*words):
    done = CliRunner().invoke(app, ["init", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def said(names, n=100, wrong=10, as_list=False):
    """Rows of two labels, of which the model is wrong about some; `names` is how it calls no and yes."""
    rows = []
    for at in range(n):
        truth = int(at % 5 < 2)
        p = [0.2, 0.8] if (truth == 1) != (at < wrong) else [0.7, 0.3]
        given = p if as_list else dict(zip(names, p, strict=True))
        rows.append({"probabilities": given, "label": ("no", "yes")[truth]})
    return rows


def test_how_often_the_model_is_right_is_told_beside_the_commonest_label(check):
    printed = check(said(("no", "yes")))
    assert "the model is right for 90 of 100 rows of rows.jsonl (90%)" in " ".join(printed.split())
    assert "always saying 'no', the commonest label, would be for 60 (60%)" in printed
    assert "to be checked by you" not in printed
    assert printed.endswith("demur.yaml is valid\n")


def test_reversed_probabilities_are_noticed(check):
    printed = check(said(("yes", "no")))
    assert "the model is right for 10 of 100 rows" in printed
    assert "to be checked by you: vendor: what each label means: 90 of 100 rows would" in printed
    assert "90 of 100 rows would be right if 'no' and 'yes' changed places; see how the model's outputs" in printed
    assert "columns" not in printed  # there are none


def test_a_list_in_another_order_is_noticed_with_the_order_to_write(check):
    printed = check(said((), as_list=True), labels="'yes', 'no'")
    assert "90 of 100 rows would be right if 'yes' and 'no' changed places; write `labels: ['no', 'yes']`" in printed


def test_three_labels_of_which_two_are_swapped(check):
    rng = np.random.default_rng(0)
    rows = []
    for at in range(90):
        p = np.eye(3)[at % 3] * 0.8 + rng.dirichlet([1, 1, 1]) * 0.2
        rows.append({"probabilities": p.tolist(), "label": "abc"[at % 3]})
    printed = check(rows, labels="a, c, b", kind="multiclass")
    assert "the model is right for 30 of 90 rows" in printed
    assert "wired" not in printed  # although one label for all is right for 30 as well
    assert "90 of 90 rows would be right if 'c' and 'b' changed places; write `labels: [a, b, c]`" in printed
    printed = check(rows, labels="b, c, a", kind="multiclass")
    assert "if what is called 'b' were 'a' and what is called 'c' were 'b' and what is called 'a' were 'c';" in printed


def test_a_model_without_an_idea_gets_no_better_order(check):
    rng = np.random.default_rng(0)
    rows = [{"probabilities": rng.dirichlet([1] * 4).tolist(), "label": "abcd"[at % 4]} for at in range(200)]
    assert "changed places" not in check(rows, labels="a, b, c, d", kind="multiclass")


def test_a_rare_label_that_is_never_the_likeliest_is_no_reason_for_doubt(check):
    """Where nearly all rows have one label, saying it always is hard to beat, and the model can be of use all the
    same."""
    rows = [{"probabilities": [0.6, 0.4] if n < 12 else [0.95, 0.05], "label": "ab"[n < 10]} for n in range(100)]
    printed = check(rows, labels="a, b")
    assert "is right for 90 of 100 rows of rows.jsonl (90%); always saying 'a', the commonest label, would" in printed
    assert "to be checked by you" not in printed


def test_several_labels_of_a_row(check):
    rows = [
        {"probabilities": {"a": 0.9, "b": 0.2}, "label": [["a"], ["a"], ["a", "b"], []][at % 4]} for at in range(40)
    ]
    printed = check(rows, labels="a, b", kind="multilabel", score="binary_entropy")
    assert "about 40 rows of rows.jsonl, the labels said are right to 62% on average (jaccard);" in printed
    assert "'a' said of every row would be to 62%" in printed
    rows = [{"probabilities": {"a": 0.1, "b": 0.2}, "label": ["a"]}] * 40
    printed = check(rows, labels="a, b", kind="multilabel", score="binary_entropy")
    assert "right to 0% on average" in printed
    assert "one answer for all rows would be right at least as often" in printed


def test_candidates_among_very_many_labels(check, here):
    """The most probable one is looked at; it may be none of the right labels, or have a label that is no candidate."""
    (here / "labels.txt").write_text("".join(f"label {n}\n" for n in range(20)))
    rows = [
        {"candidates": {"label 1": 0.9, "label 2": 0.4}, "label": [["label 1", "label 9"], ["label 2"]][at % 2]}
        for at in range(30)
    ]
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = GIVEN.format(kind="multilabel", labels="", score="binary_entropy").replace("[probabilities]", "[candidates]")
    text = text.replace("labels: []", "labels: labels.txt, sparse: true").replace(
        "s: [candidates]", "s: [candidates], candidates: 5"
    )
    (here / "demur.yaml").write_text(text)
    (found, *_) = how_right(load_config(here / "demur.yaml"), "vendor", checked=True)
    assert found.text.startswith("vendor: the model's first candidate is right for 15 of 30 rows")


def test_rows_that_cannot_be_read_are_all_counted(check):
    rows = said(("no", "yes"))
    for at in (4, 8, 9):
        rows[at]["probabilities"] = {"no": 0.2, "yes": 0.2}
    with pytest.raises(
        BadConfig, match=r"rows\.jsonl, row 5: output\.probabilities.*\(2 more rows cannot be read: 9, 10\)"
    ):
        check(rows)


def test_many_rows_are_not_all_run(check):
    assert "the model is right for 200 of 200 rows, drawn from 1,000, of rows.jsonl" in check(
        said(("no", "yes"), n=1000, wrong=0)
    )


def test_init_says_at_once_that_labels_are_reversed(here):
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said(("yes", "no"))))
    printed = init("given", "rows.jsonl")
    assert "rows: the model is right for 10 of 100 rows of rows.jsonl (10%)" in printed
    assert "to be checked by you: rows: what each label means: 90 of 100 rows would be right" in printed


@pytest.fixture
def table(here):
    """A pipeline of two columns without names, and rows whose file has them in this order."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50, 10, 200), rng.normal(0, 1, 200)])
    y = np.where(x[:, 1] + rng.normal(0, 0.3, 200) > -0.4, "good", "bad")
    skops.io.dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), here / "model.skops")
    lines = [f"{size},{gain},{label}" for (size, gain), label in zip(x, y, strict=True)]
    (here / "as_trained.csv").write_text("size,gain,label\n" + "\n".join(lines) + "\n")
    lines = [f"{gain},{size},{label}" for (size, gain), label in zip(x, y, strict=True)]
    (here / "moved.csv").write_text("gain,size,label\n" + "\n".join(lines) + "\n")
    return here


@pytest.mark.slow
def test_columns_in_another_order_are_noticed(table, capsys):
    """A model that knows no names of columns cannot say so itself."""
    printed = init("tabular", "model.skops", "--data", "as_trained.csv")
    assert "of 200 rows of as_trained.csv (9" in printed
    assert "to be checked by you" not in printed
    printed = init("tabular", "model.skops", "--data", "moved.csv", "--force")
    assert "to be checked by you: model: whether the model is wired as it was trained" in printed
    assert "the columns may stand in another order than in training (host.input.columns" in printed
    check_file(table / "demur.yaml", offline=True)
    assert "the columns may stand in another order" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cell_with_a_unit_is_told_with_row_column_and_value(table):
    lines = (table / "as_trained.csv").read_text().splitlines()
    for at in (7, 11):
        lines[at] = f"{at}mm,{lines[at].split(',', 1)[1]}"
    (table / "mm.csv").write_text("\n".join(lines) + "\n")
    printed = init("tabular", "model.skops", "--data", "mm.csv")
    assert "to be checked by you: the column 'size', in which nearly all values are numbers: row 7 has '7mm'" in printed
    assert ", and 1 more; mend these cells" in printed
    with pytest.raises(BadConfig) as told:
        check_file(table / "demur.yaml", offline=True)
    assert "mm.csv, row 7: input.size: a number is wanted here, not a text (the cell has '7mm')" in str(told.value)
    assert "(1 more row cannot be read: 11)" in str(told.value)


@pytest.mark.slow
def test_a_class_that_fails_on_a_row_is_told_with_the_row(here, capsys):
    (here / "ours.py").write_text(
        "class Model:\n    def predict_proba(self, rows):\n"
        "        return [[1 / (row[0] - 3), 1 - 1 / (row[0] - 3)] for row in rows]\n"
    )
    (here / "rows.csv").write_text("a,label\n" + "".join(f"{n},{('no', 'yes')[n % 2]}\n" for n in (5, 6, 3, 8)))
    printed = init("python", "ours:Model", "--data", "rows.csv")
    assert "to be checked by you: rows.csv, row 3: the model fails on it: ZeroDivisionError: " in printed


@pytest.mark.slow
def test_a_server_that_goes_away_is_not_waited_for(here):
    """It answered the example of the check, and then nobody."""
    (here / "rows.csv").write_text("a,label\n" + "".join(f"{n},{'xy'[n % 2]}\n" for n in range(30)))
    host = {"kind": "remote", "protocol": "http", "url": "http://127.0.0.1:9/predict", "retries": 0}
    host |= {"request": {"instances": "$inputs"}, "output": "predictions"}
    host |= {"input": {"kind": "table", "columns": {"a": "number"}}}
    model = {
        "task": {"kind": "binary", "labels": ["x", "y"]},
        "host": host,
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
        "calibration": {"data": "rows.csv"},
    }
    (found,) = how_right(Config.model_validate({"models": {"mine": model}}), "mine", checked=True)
    assert isinstance(found, NotTried)
    assert found.text.startswith("how often mine is right about rows of rows.csv: the model cannot be tried (Nobody")


def test_the_time_of_a_trial_is_bounded():
    assert SECONDS < PROCESS_SECONDS <= 100

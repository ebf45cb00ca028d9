"""Files of predictions that cannot be read: `demur init given` says in a sentence what to do about each."""

import re

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import yaml
from typer.testing import CliRunner

from demur.serve.cli import app
from demur.serve.commands.check import check_file
from demur.serve.config.file import BadConfig
from demur.traffic.table_file import BadDataFile

LABELS = ("bill", "sales", "tech")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*words):
    """Return what is printed; raises what the command raises."""
    done = CliRunner().invoke(app, ["init", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def told(n=30, times=1.0, logits=False):
    """Numbers [n, 3] that a model gave, and the labels [n] that were right."""
    rng = np.random.default_rng(0)
    before = rng.normal(size=(n, 3)) * 2
    after = np.exp(before) / np.exp(before).sum(axis=1, keepdims=True)
    return (before if logits else after * times), np.array(LABELS)[np.arange(n) % 3]


def wide(prefix, numbers, right, columns=LABELS):
    """A .csv with a column for each label."""
    lines = [",".join([*(f"{prefix}{one}" for one in columns), "label"])]
    lines += [",".join([*map(str, row), label]) for row, label in zip(numbers, right, strict=True)]
    with open("said.csv", "w") as file:
        file.write("\n".join(lines) + "\n")
    return "said.csv"


def listed(numbers, right, part="probabilities"):
    """A .parquet with all numbers of a row in one column."""
    table = pyarrow.table({part: [list(map(float, row)) for row in numbers], "label": list(right)})
    pyarrow.parquet.write_table(table, "said.parquet")
    return "said.parquet"


@pytest.mark.parametrize("form", [lambda *told: wide("p_", *told), listed])
@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (
            {"times": 0.97},
            "they come to 0.97, and those of labels that exclude each other come to 1; if they are rounded,",
        ),
        ({"times": 100.0}, "a probability is not between 0 and 1; divide percentages by 100"),
        ({"logits": True}, "if these come before the softmax or the sigmoid, give them as `logits`"),
    ],
)
def test_numbers_that_are_no_probabilities(here, form, numbers, why):
    with pytest.raises(
        BadDataFile, match=r"^said\.(csv|parquet), row 1: output\.probabilities: " + ".*" + re.escape(why)
    ):
        init("given", form(*told(**numbers)))
    assert not (here / "demur.yaml").exists()


@pytest.mark.parametrize("prefix", ["p_", "prob_", "proba_", "probability_", "logit_", ""])
def test_a_column_for_each_label_may_begin_in_several_ways(here, prefix):
    numbers, right = told(logits=prefix == "logit_")
    init("given", wide(prefix, numbers, right))
    (model,) = yaml.safe_load((here / "demur.yaml").read_text())["models"].values()
    assert model["host"]["gives"] == ["logits" if prefix == "logit_" else "probabilities"]
    assert model["task"]["labels"] == list(LABELS)
    check_file(here / "demur.yaml", offline=True)  # which reads the rows as a fit would


def test_columns_that_begin_with_something_else_are_to_be_renamed(here):
    with pytest.raises(BadDataFile, match="column for each label, such as 'model_bill': call it 'p_bill', and so"):
        init("given", wide("model_", *told()))


@pytest.mark.parametrize("cell", ["0,9", "", "none"])
def test_a_cell_that_is_no_number_is_named(here, cell):
    (here / "said.csv").write_text(f"p_bill;p_tech;label\n{cell};0.1;bill\n0.2;0.8;tech\n")
    with pytest.raises(BadDataFile, match=f"said.csv, row 1: 'p_bill' holds '{cell}', and a number such as 0.25 is"):
        init("given", "said.csv")
    (here / "said.csv").write_text(f"p_bill;p_tech;label\n0.2;0.8;tech\n{cell};0.1;bill\n")
    with pytest.raises(BadDataFile, match=r"said\.csv, row 2: output\.probabilities: a list of numbers is wanted here"):
        init("given", "said.csv")


@pytest.mark.parametrize(
    ("renamed", "meant"),
    [({"bill": "BILL", "sales": "SALES", "tech": "TECH"}, "bill"), ({"sales": "sale"}, "sales"), ({"tech": "x"}, None)],
)
def test_labels_that_are_written_in_another_way(here, renamed, meant):
    numbers, right = told()
    with pytest.raises(BadDataFile) as refused:
        init("given", wide("p_", numbers, [renamed.get(one, one) for one in right]))
    (first, *_) = sorted(set(renamed.values()))
    said = str(refused.value)
    assert (
        f"the column 'label' has {first!r}, for which there is no number; write it as one of: bill, sales, tech" in said
    )
    assert ("did you mean" in said) == (meant is not None)
    assert meant is None or f"did you mean `{meant}`?" in said


def test_labels_of_objects_are_compared_too(here):
    said = [{"probabilities": {"bill": 0.4, "tech": 0.6}, "label": one} for one in ("BILL", "TECH")]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(said), "said.parquet")
    with pytest.raises(BadDataFile, match=r"has 'BILL', for which there is no number; .*did you mean `bill`"):
        init("given", "said.parquet")


def test_a_column_that_is_none_of_labels(here):
    """With more labels than numbers no order would do. With fewer, a label may only be rare."""
    numbers, right = told()
    with pytest.raises(
        BadDataFile, match="each row has 3 probabilities, and the column 'label' has 30 different labels"
    ):
        init("given", listed(numbers, [f"id {n}" for n in range(30)]))
    init("given", listed(numbers, np.where(right == "tech", "bill", right)))
    with pytest.raises(BadConfig, match="3 numbers came, and there are 2 labels"):
        check_file(here / "demur.yaml", offline=True)


def test_a_column_beside_a_list_is_none_of_a_label(here):
    """`p_value` is no probability of a label `value` where the probabilities stand elsewhere."""
    numbers, right = told()
    columns = {"p_value": [0.5] * 30, "probabilities": [list(map(float, row)) for row in numbers], "label": list(right)}
    pyarrow.parquet.write_table(pyarrow.table(columns), "said.parquet")
    init("given", "said.parquet")
    (model,) = yaml.safe_load((here / "demur.yaml").read_text())["models"].values()
    assert model["task"]["labels"] == list(LABELS)


def test_labels_that_differ_in_capitals_alone_are_to_be_looked_at(here):
    numbers = np.full((4, 2), 0.5)
    (here / "odd.jsonl").write_text(
        "".join(f'{{"prediction": "bill", "scores": {{"a": 1}}, "label": "{one}"}}\n' for one in ("bill", "Bill "))
    )
    assert "to be checked by you: whether 'Bill ' and 'bill'" in init("given", "odd.jsonl")
    (here / "demur.yaml").unlink()
    assert "to be checked" not in init("given", listed(numbers, ["a", "A", "a", "A"]))  # letters may be the labels


@pytest.mark.parametrize("column", ["p_spam", "spam"])
def test_one_probability_of_two_labels_will_do(here, column):
    """The label that it is of is the positive one, whatever the alphabet says."""
    rows = [f"{0.9 if n % 3 else 0.2},{'spam' if n % 3 else 'zam'}" for n in range(30)]
    (here / "said.csv").write_text(f"{column},label\n" + "\n".join(rows) + "\n")
    assert "is right for 30 of 30 rows of said.csv" in init("given", "said.csv")
    model = yaml.safe_load((here / "demur.yaml").read_text())["models"]["said"]
    assert set(model["task"]["labels"]) == {"spam", "zam"}
    if column == "p_spam":
        assert model["task"]["labels"] == ["zam", "spam"]
    check_file(here / "demur.yaml", offline=True)


def test_a_single_probability_with_another_name_is_told_how_to_be_called(here):
    (here / "said.csv").write_text("p_spam,label\n0.9,1\n0.1,0\n")
    with pytest.raises(BadDataFile, match=r"'p_spam' is of one label, .* has '0' and '1'; call it 'p_1' if it is"):
        init("given", "said.csv")
    (here / "said.csv").write_text("score,label\n0.9,spam\n0.1,ham\n")
    with pytest.raises(BadConfig, match=r"of two labels one will do: call the column .* of 'spam' 'p_spam'; docs"):
        init("given", "said.csv")

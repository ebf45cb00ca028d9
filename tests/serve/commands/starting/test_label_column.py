"""`demur init` with a column that does not hold the right labels, or holds them as the model does not write them."""

import re

import numpy as np
import pytest
import skops.io
import yaml
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from demur.serve.cli import app
from demur.serve.commands.check import check_file
from demur.serve.config.file import BadConfig
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

LINES = 60


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a model of two classes, in which commands run."""
    monkeypatch.chdir(tmp_path)
    marks = np.arange(LINES)[:, None] / LINES
    skops.io.dump(LogisticRegression().fit(marks, np.array(["benign", "malignant"])[np.arange(LINES) // 30]), "m.skops")
    return tmp_path


def table(here, label):
    """A file whose column `label` is made of what stands beside it; return its name."""
    right = [("benign", "malignant")[n // 30] for n in range(LINES)]
    lines = [f"{n / LINES},{label(n, one)},{one}" for n, one in enumerate(right)]
    (here / "rows.csv").write_text("mark,label,truth\n" + "\n".join(lines) + "\n")
    return "rows.csv"


def init(*words):
    done = CliRunner().invoke(app, ["init", *words, "--force"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def written(here):
    (model,) = yaml.safe_load((here / "demur.yaml").read_text())["models"].values()
    return model


@pytest.mark.parametrize("label", [lambda n, _: n, lambda n, _: n / 7, lambda n, _: ("north", "south")[n % 2]])
def test_a_column_without_the_classes_is_refused_where_another_has_them(here, label):
    with pytest.raises(
        BadConfig, match=re.escape("tells 2 classes apart: 'benign', 'malignant'; say --label-column truth")
    ):
        init("tabular", "m.skops", "--data", table(here, label))
    assert not (here / "demur.yaml").exists()


def test_more_labels_than_classes_are_refused(here):
    mixed = table(here, lambda n, one: "bening" if n == 3 else one)
    text = (here / mixed).read_text().replace(",truth", ",note")
    (here / mixed).write_text(re.sub(r",(benign|malignant)$", ",seen", text, flags=re.MULTILINE))
    with pytest.raises(BadConfig, match=r"3 different values, such as 'bening'.*did you mean `benign`\?"):
        init("tabular", "m.skops", "--data", mixed)


def test_other_capitals_become_another_name(here):
    path = table(here, lambda _, one: one.upper())
    text = (here / path).read_text()
    (here / path).write_text(re.sub(r",(benign|malignant|truth)$", "", text, flags=re.MULTILINE))
    init("tabular", "m.skops", "--data", path)
    assert written(here)["task"]["labels"] == ["BENIGN", "MALIGNANT"]
    assert written(here)["task"]["rename"] == {"benign": "BENIGN", "malignant": "MALIGNANT"}
    check_file(here / "demur.yaml", offline=True)


def test_other_names_are_a_question(here):
    path = table(here, lambda n, _: n // 30)
    text = (here / path).read_text()
    (here / path).write_text(re.sub(r",(benign|malignant|truth)$", "", text, flags=re.MULTILINE))
    said = init("tabular", "m.skops", "--data", path)
    assert "to be written by you: which label is which class of the model ('benign', 'malignant'): task.rename" in said


def test_a_checkpoint_knows_its_labels_too(here):
    digits = str(ROOT / "deploy/models/digits")
    (here / "digits.jsonl").write_text("".join(f'{{"input": [[0]], "label": "digit {n}"}}\n' for n in range(11)))
    with pytest.raises(BadConfig, match=r"has 11 different values, such as 'digit 0', and .* tells 10 classes apart"):
        init("classifier", digits, "--data", "digits.jsonl")


def test_a_column_that_looks_like_none_of_labels_is_to_be_looked_at(here):
    """Where nothing says which labels the model has."""
    (here / "our_own.py").write_text("class Model: pass\n")
    said = init("python", "our_own:Model", "--data", table(here, lambda n, _: f"row {n}"))
    assert "to be checked by you: whether the column 'label' has the right labels: it has 60 different values" in said
    said = init("python", "our_own:Model", "--data", "rows.csv", "--label-column", "truth")
    assert "to be checked" not in said

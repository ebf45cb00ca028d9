"""The report of a fit in Python: its numbers, sentences, tables and pictures."""

import re
import sys

import numpy as np
import pytest

from demur.audit.metrics.calibration import ece
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.selective import prr
from demur.library.selective_classifier import SelectiveClassifier
from tests.library.rows import THRESHOLD, drawn


@pytest.fixture(scope="module")
def rows():
    return drawn(900, np.random.default_rng(0))


@pytest.fixture(scope="module")
def fitted(rows):
    return SelectiveClassifier(policy={"kind": "selective_risk", "max_risk": 0.2}).fit(*rows)


def test_numbers_are_those_of_the_metrics_on_the_rows_apart(fitted, rows):
    report = fitted.report()
    table, y = fitted.decide(rows[0][fitted.report_rows_]), rows[1][fitted.report_rows_]
    right = np.array([one == two for one, two in zip(table.prediction, y, strict=True)], dtype=float)
    assert report["ece"]["value"] == pytest.approx(ece(table.confidence, right))
    assert report["prr.confidence"]["value"] == pytest.approx(prr(right, -table.confidence))
    assert report["prr.entropy"]["value"] == pytest.approx(prr(right, table.scores["entropy"]))
    risk = report["selective_risk"]
    wrong, n = int((right[table.answered] == 0).sum()), int(table.answered.sum())
    assert (risk["value"], risk["n"]) == (pytest.approx(wrong / n), n)
    interval = clopper_pearson(wrong, n)
    assert (risk["lower"], risk["upper"]) == (pytest.approx(interval.lower), pytest.approx(interval.upper))
    assert {"accuracy", "coverage", "ece", "prr.confidence", "set_coverage"} <= set(report.names)
    with pytest.raises(KeyError):
        report["accurracy"]


def test_it_is_read_as_text_as_a_frame_and_in_a_notebook(fitted):
    report = fitted.report()
    text = str(report)
    assert "on 360 rows that the fit of 540 has not seen" in text
    assert "Promise: at most 20% of the answers are wrong, except with probability 5%" in text
    assert max(map(len, text.splitlines())) <= 110
    assert repr(report) == "<FitReport of the array: 360 rows that the fit of 540 has not seen>"
    page = report._repr_html_()
    assert "<td>selective_risk</td>" in page
    assert "data:image/png;base64," in page
    assert page.count("<p>Promise:") == 2
    pytest.importorskip("pandas")
    frame = report.to_pandas()
    assert frame.loc["accuracy", "value"] == report["accuracy"]["value"]


def test_it_is_drawn(fitted):
    picture = fitted.report().plot()
    assert [axes.get_xlabel() for axes in picture.axes] == [
        *("share answered", "confidence"),
        *("confidence", "labels in the set"),
    ]
    labels = [text.get_text() for text in picture.axes[0].get_legend().get_texts()]
    assert labels == ["chance", "perfect score", "confidence", "promised at most", "as decided"]
    held = SelectiveClassifier(policy={"kind": "threshold", "limit": 1.0}, anyway=True).fit(
        *drawn(200, np.random.default_rng(1))
    )
    assert held.report().plot()._repr_png_()


def test_several_labels_are_reported_by_degree():
    rng = np.random.default_rng(0)
    p = rng.random((900, 3))
    y = (rng.random((900, 3)) < p).astype(int)
    report = SelectiveClassifier(policy=THRESHOLD, anyway=True).fit(p, y).report()
    assert 0 < report["jaccard"]["value"] < 1
    assert report.statements == []
    assert report.plot().axes[3].get_xlabel() == "share held back, least sure first"


def test_decisions_are_read_by_row_as_columns_and_in_a_notebook(rows):
    names = np.array(["<b>one</b>", "two", "three"])
    fitted = SelectiveClassifier(policy=THRESHOLD, labels=list(names)).fit(rows[0], names[rows[1]])
    table = fitted.decide(rows[0][:30])
    assert len(table) == len(list(table)) == 30
    assert table[0]["prediction"] == table.prediction[0]
    assert isinstance(table[0]["set"], tuple)
    page = table._repr_html_()
    assert page.count("<tr>") == 21
    assert "<b>" not in page
    assert "&lt;b&gt;one" in page
    assert "and 10 more rows" in page
    assert re.fullmatch(r"<DecisionTable: 30 rows: \d+ \w+, \d+ \w+>", repr(table))
    assert table.coverage == table.answered.mean()


def test_what_needs_pandas_says_so(fitted, rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for one in (fitted.decide(rows[0]), fitted.report()):
        with pytest.raises(ImportError, match="needs pandas"):
            one.to_pandas()


def test_a_saved_artifact_says_what_to_do_next(fitted, tmp_path):
    saved = fitted.save(tmp_path, model="dice", identity="given")
    page = saved._repr_html_()
    assert f"demur artifacts promote dice {saved.name}" in page
    assert "Promise: at most 20% of the answers are wrong" in page

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from demur.calibration_store.fitting import Fit
from demur.library.fit_report import sentences, tables
from demur.policies.promise import Promise

LINE = {"value": 0.1, "n": 80}
REPORT = {"ece": LINE, "ece_before": LINE, "prr.entropy": LINE, "prr.confidence": {"value": None, "n": 80}}


@pytest.mark.parametrize(("crossfit", "said"), [({"ece": LINE}, None), ({}, "no cross-fitted values")])
def test_numbers_and_scores_have_a_table_each_and_what_is_missing_is_said(crossfit, said):
    fit = Fit(selectors={}, n_fitted=120, n_reported=80, report=REPORT, crossfit=crossfit)
    numbers, scores = tables("toy-1", fit)
    assert list(numbers.columns[0].cells) == ["ece"]
    assert list(numbers.columns[3].cells) == ["0.1000" if crossfit else ""]
    assert list(scores.columns[0].cells) == ["entropy", "confidence"]
    assert list(scores.columns[1].cells) == ["0.1000", "undefined"]
    assert said is None or said in numbers.caption


def test_intervals_stand_beside_their_values():
    line = {"value": 0.0312, "n": 80, "lower": 0.0201, "upper": 0.0466}
    unknown = {**line, "lower": None, "upper": None}
    report = {"ece": line, "brier": unknown, "prr.entropy": line, "prr.confidence": LINE}
    numbers, scores = tables("toy-1", Fit(selectors={}, n_fitted=120, n_reported=80, report=report, crossfit=report))
    assert list(numbers.columns[1].cells) == ["0.0312 (0.0201 to 0.0466)", "0.0312"]
    assert list(numbers.columns[3].cells) == ["0.0312", "0.0312"]
    assert list(scores.columns[1].cells) == ["0.0312\n0.02–0.05", "0.1000"]
    assert "39 samples" in numbers.caption


def test_promises_are_said_with_what_they_rest_on():
    promise = Promise(share="of the answers are wrong", target=0.02, delta=0.05, n=400, errors=1, bound=0.0187)
    selector = SimpleNamespace(policy=SimpleNamespace(promise=promise), promises=[promise])
    fit = Fit(selectors={"toy": selector}, n_fitted=120, n_reported=80, report={}, crossfit={}, n_plain=70)
    first, second = sentences(fit)
    assert first == (
        "Promise: at most 2% of the answers are wrong, except with probability 5%, as long as later traffic is drawn"
        " like the calibration data (from 400 labelled rows, 1 of the answered ones wrong; upper bound 1.87%)."
    )
    assert "70 are left after thinning" in second
    both = Fit(selectors={"toy": selector, "big": selector}, n_fitted=1, n_reported=1, report={}, crossfit={})
    assert [said.split(":")[1] for said in sentences(both)] == [" toy"]  # the rule speaks for the cascade, once


def test_each_label_and_each_group_has_a_line_and_four_scores_say_how_metrics_agree():
    line = {"value": 0.5, "n": 40, "lower": 0.4, "upper": 0.6}
    report = {f"{metric}.{score}": {"value": at / 10, "n": 80} for metric in ("auroc", "prr", "rc_auc")
              for at, score in enumerate(("a", "b", "c", "confidence"))}  # fmt: skip
    report |= {"label_auroc.cat": LINE, "label_ece.cat": LINE, "label_auroc.dog": LINE, "label_ece.dog": LINE}
    report |= {"group_coverage.north": line, "group_risk.north": line, "group_set_size.north": LINE}
    fit = Fit(selectors={}, n_fitted=120, n_reported=80, report=report, crossfit={})
    numbers, _, agreement, labels, groups = tables("toy-1", fit)
    assert not list(numbers.columns[0].cells)
    assert list(agreement.columns[1].cells) == ["1.00", "1.00", "-1.00"]
    assert [column.header for column in labels.columns] == ["label", "rows", "AUROC", "ECE"]
    assert [cell.plain for cell in labels.columns[0].cells] == ["cat", "dog"]
    assert "at most 30" in labels.caption
    assert [column.header for column in groups.columns] == ["group", "rows", "answered", "risk", "set size"]
    assert list(groups.columns[2].cells) == ["0.5000\n0.40–0.60"]


def test_names_from_outside_are_no_markup_and_hide_nothing():
    fit = Fit(selectors={}, n_fitted=1, n_reported=1, report={"group_risk.[/red]\x1b[2J": LINE}, crossfit={})
    *_, groups = tables("toy-1", fit)
    (cell,) = groups.columns[0].cells
    assert cell.plain == "[/red][U+001B][2J"
    console = Console(file=io.StringIO())
    console.print(groups)
    assert "[/red]" in console.file.getvalue()

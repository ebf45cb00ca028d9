import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from audit.calibration import ece
from audit.discrimination import error_roc_auc
from audit.old_report import NothingToAudit, audit
from audit.selective import prr
from traffic.dataset import Traffic


def traffic(n=200, labelled=1.0, seed=0, groups=("left", "right", None)):
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    right = rng.random(n) < confidence
    known = rng.random(n) < labelled
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return Traffic(
        ids=[str(i) for i in range(n)],
        times=[start + timedelta(minutes=i) for i in range(n)],
        artifacts=["toy-1"] * (n - 1) + [None],
        groups=[groups[i % len(groups)] for i in range(n)],
        predictions=["a"] * n,
        actions=["answer" if c > 0.7 else "review" for c in confidence],
        confidence=confidence,
        top_probability=np.sqrt(confidence),
        scores={"entropy": 1 - confidence**2},
        outcomes=[("a" if r else "b") if k else None for r, k in zip(right, known, strict=True)],
        sources=["api"] * n,
        set_size=np.ones(n),
        covered=[bool(r) if k else None for r, k in zip(right, known, strict=True)],
        tops=[None] * n,
    )


def value(report, name):
    return next(line for line in json.loads(report.as_json())["findings"] if line["name"] == name)


def test_the_numbers_are_those_of_the_labelled_rows():
    rows = traffic(labelled=0.5)
    known = np.array([outcome is not None for outcome in rows.outcomes])
    correct = np.array([outcome == "a" for outcome in rows.outcomes])[known].astype(float)
    report = audit(rows, model="toy")
    for name, expected in {
        "accuracy": correct.mean(),
        "ece": ece(rows.confidence[known], correct),
        "ece_before": ece(rows.top_probability[known], correct),
        "prr.entropy": prr(correct, rows.scores["entropy"][known]),
        "auroc.entropy": error_roc_auc(correct, rows.scores["entropy"][known]),
        "coverage": (rows.confidence[known] > 0.7).mean(),
        "selective_risk": 1 - correct[rows.confidence[known] > 0.7].mean(),
    }.items():
        line = value(report, name)
        assert line["value"] == pytest.approx(expected)
    assert value(report, "accuracy")["n"] == known.sum()
    assert value(report, "selective_risk")["n"] == (rows.confidence[known] > 0.7).sum()


def test_the_curves_are_in_the_file():
    report = audit(traffic(n=3000), model="toy")
    document = json.loads(report.as_json())
    curve, bins = document["risk_coverage"], document["reliability"]["after"]
    assert len(curve["risk"]) == 500
    assert curve["coverage"][-1] == 1
    assert curve["risk"][-1] == pytest.approx(1 - value(report, "accuracy")["value"])
    gaps = sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in bins if b["count"])
    assert gaps / 3000 == pytest.approx(value(report, "ece")["value"])


def test_it_says_how_many_labels_are_missing_and_for_whom():
    rows = traffic(labelled=0.5)
    unknown = sum(outcome is None for outcome in rows.outcomes)
    report = audit(rows, model="toy")
    assert f"{unknown} of 200 records have no label" in report.missing
    assert report.missing in report.as_html()
    assert "All 200 records have a label." in audit(traffic(), model="toy").missing
    strata = {s["name"]: s for s in json.loads(report.as_json())["strata"]}
    assert list(strata) == ["all", "left", "right", "(no group)"]
    assert strata["all"]["records"] == sum(strata[g]["records"] for g in ("left", "right", "(no group)"))


def test_records_without_a_confidence_are_counted_and_left_out():
    rows = traffic()
    rows.confidence[:3] = np.nan
    report = audit(rows, model="toy")
    assert report.n_undefined == 3
    assert value(report, "accuracy")["n"] == 197
    assert "3 labelled records have no confidence" in report.as_html()


def test_a_score_of_some_rows_is_measured_on_these_and_compared_with_no_other():
    rows, whole = traffic(), audit(traffic(), model="toy")
    rows.scores["gated"] = np.where(np.arange(200) < 120, np.nan, rows.scores["entropy"])
    rows.scores["nowhere"] = np.full(200, np.nan)
    report = audit(rows, model="toy")
    assert value(report, "prr.gated")["n"] == 80
    assert value(report, "prr.gated")["value"] != value(report, "prr.entropy")["value"]
    assert "gated is known of 80 rows alone" in report.as_html()
    assert "nowhere" not in report.as_json()
    assert report.choice.names == whole.choice.names


def test_undefined_numbers_are_null_and_a_dash():
    rows = traffic()
    rows.outcomes[:] = ["a"] * 200
    report = audit(rows, model="toy")
    assert value(report, "prr.entropy")["value"] is None
    assert value(report, "caught_errors")["value"] is None
    assert "NaN" not in report.as_json()
    assert "nan" not in report.as_html()


def test_the_page_is_whole_and_escapes_what_came_from_outside():
    html = audit(traffic(groups=("<script>alert(1)</script>",)), model="toy").as_html()
    assert "<script" not in html
    assert html.count("<svg") == 2
    assert "http://" not in html.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_without_records_or_labels_it_says_what_to_do():
    with pytest.raises(NothingToAudit, match="none of the 200 records"):
        audit(traffic(labelled=0), model="toy")
    empty = Traffic(
        ids=[],
        times=[],
        artifacts=[],
        groups=[],
        predictions=[],
        actions=[],
        confidence=np.zeros(0),
        top_probability=np.zeros(0),
        scores={},
        outcomes=[],
        sources=[],
        set_size=np.empty(0),
        covered=[],
        tops=[],
    )
    with pytest.raises(NothingToAudit, match="there are no records of 'toy'"):
        audit(empty, model="toy")

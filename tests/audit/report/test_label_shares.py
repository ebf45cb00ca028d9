"""Audits measure the share of labels that was promised: of all labels that hold, or the mean over rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from demur.audit.ledger.ledger import CodedColumn, Ledger, Mentions
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.plan import Settings
from demur.policies.promise import (
    LABELS_MISSING,
    LABELS_NOT_PREDICTED,
    ROWS_LABELS_MISSING,
    ROWS_LABELS_NOT_PREDICTED,
)
from tests.audit.report.simulated import simulated
from tests.audit.report.test_estimates import numbers

FEW = Settings(replicates=199)


def labelled(*, share_with_labels: float = 0.3, missing: float = 0.2, spot_check: float = 0.3) -> Ledger:
    """Return traffic where few rows have labels, three each, and each label is missing from its set now and then."""
    rng = np.random.default_rng(4)
    traffic = simulated(4_000, rng, spot_check=spot_check).ledger
    right = np.where(rng.random(4_000) < share_with_labels, 3.0, 0.0)
    lost = rng.binomial(right.astype(int), missing)
    covered = np.where(right > 0, 1 - lost / np.maximum(right, 1), 1.0)
    return replace(
        traffic,
        right_labels=np.where(traffic.known, right, np.nan),
        covered=np.where(traffic.known, covered, np.nan),
    )


def judged(traffic: Ledger, share: str, target: float) -> dict[str, Any]:
    promise = {"share": share, "target": target, "statement": f"at most {target} {share}", "n": 5_000}
    asked = AuditSettings(settings=FEW, promises={"m-1": [promise], "m-2": [promise]})
    (one,) = audit(traffic, asked).document["headline"]["judgements"]
    return dict(one)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (LABELS_MISSING, "broken"),
        (ROWS_LABELS_MISSING, "kept"),
        ("of the labels that hold are missing from the set", "kept"),
    ],
)
def test_sets_that_miss_a_fifth_of_the_labels_keep_the_one_promise_and_break_the_other(
    share: str, verdict: str
) -> None:
    assert judged(labelled(), share, 0.1)["verdict"] == verdict


@pytest.mark.slow
def test_the_numbers_are_the_weighted_ones_of_the_definition() -> None:
    traffic = labelled()
    weights = np.where(traffic.known, 1 / traffic.label_probability, 0.0)
    lost = weights * np.nan_to_num((1 - traffic.covered) * traffic.right_labels)
    share = lost.sum() / (weights * np.nan_to_num(traffic.right_labels)).sum()
    one = judged(traffic, LABELS_MISSING, 0.1)
    assert one["estimate"]["value"] == pytest.approx(share)
    assert one["estimate"]["lower"] < share < one["estimate"]["upper"]
    by_row = judged(traffic, ROWS_LABELS_MISSING, 0.1)["estimate"]["value"]
    assert by_row == pytest.approx(np.nansum(weights * (1 - traffic.covered)) / weights.sum())
    found = numbers(audit(traffic, AuditSettings(settings=FEW)).document)
    assert found["label_coverage", ""]["value"] == pytest.approx(1 - share)
    assert found["set_coverage", ""]["value"] == pytest.approx(1 - by_row)


@pytest.mark.slow
def test_rows_in_which_no_label_holds_say_nothing_of_the_labels() -> None:
    one = judged(labelled(share_with_labels=0.0), LABELS_MISSING, 0.1)
    assert (one["verdict"], one["estimate"]["value"]) == ("not enough evidence", None)


def predicted(*, spot_check: float = 0.3) -> Ledger:
    """Return traffic where the predicted labels lack a fifth of the labels that hold, and the sets a fiftieth."""
    rng, traffic = np.random.default_rng(5), labelled(spot_check=spot_check, missing=0.02)
    right = np.nan_to_num(traffic.right_labels).astype(int)
    rows = np.repeat(np.arange(len(traffic)), right).astype(np.intp)
    said = rng.random(len(rows)) >= 0.2
    labels = CodedColumn(names=("a", "b", "c"), codes=(np.arange(len(rows)) % 3).astype(np.int32))
    mentions = Mentions(
        rows=rows, labels=labels, predicted=said, right=np.ones(len(rows), bool), probability=said.astype(float)
    )
    return replace(
        traffic,
        mentions=mentions,
        predicted=None,
        true=None,
        true_probability=None,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "verdict", "name"),
    [
        (LABELS_NOT_PREDICTED, "broken", "labels_not_predicted"),
        (ROWS_LABELS_NOT_PREDICTED, "kept", "row_labels_not_predicted"),
        ("of the labels that hold are not predicted", "kept", "row_labels_not_predicted"),
        (LABELS_MISSING, "kept", "label_miscoverage"),
    ],
)
def test_a_promise_about_predicted_labels_is_judged_by_what_was_predicted(share: str, verdict: str, name: str) -> None:
    traffic = predicted()
    one = judged(traffic, share, 0.1)
    assert (one["verdict"], one["estimate"]["name"]) == (verdict, name)
    if share == LABELS_NOT_PREDICTED:
        found = np.bincount(traffic.mentions.rows[traffic.mentions.predicted], minlength=len(traffic))
        weights = np.where(traffic.known, 1 / traffic.label_probability, 0.0)
        right = np.nan_to_num(traffic.right_labels)
        assert one["estimate"]["value"] == pytest.approx((weights * (right - found)).sum() / (weights * right).sum())


def test_one_label_in_each_row_is_not_shown_twice() -> None:
    traffic = simulated(1_000, np.random.default_rng(1), spot_check=0.3).ledger
    assert ("label_coverage", "") not in numbers(audit(traffic, AuditSettings(settings=FEW)).document)

"""What a fit report says label by label, beside the metrics of one label at a time."""

import numpy as np
import pytest

from demur.audit.label_lines import MOST_LABELS, NamedLabels, label_lines
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.correlation import spearman
from demur.audit.metrics.discrimination import roc_auc
from demur.audit.metrics.predictive_quality import macro_f1_by_bucket
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_probability import binary_entropy
from demur.uncertainty.output import LabelledOutput, Output


def multilabel(n=200, labels=4, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random((n, labels)) ** 2
    truth = rng.random((n, labels)) < p
    return LabelledOutput(output=Output(logits=np.log(p / (1 - p)), probabilities=p), truth=truth, exclusive=False)


def found(rows, predicted, labels):
    return {line.name: line for line in label_lines(rows, predicted, labels)}


def test_numbers_are_those_of_one_label_at_a_time():
    rows = multilabel()
    p, truth = rows.output.probabilities, rows.truth
    lines = found(rows, p > 0.5, NamedLabels.of(["a", "b", "c", "d"], truth))
    for at, name in enumerate("abcd"):
        assert lines[f"label_auroc.{name}"].value == pytest.approx(roc_auc(truth[:, at], p[:, at]))
        assert lines[f"label_ece.{name}"].value == pytest.approx(ece(p[:, at], truth[:, at]))
        right = ((p[:, at] > 0.5) == truth[:, at]).astype(float)
        assert lines[f"label_rho.{name}"].value == pytest.approx(spearman(binary_entropy(p)[:, at], right))
        assert lines[f"label_auroc.{name}"].n == truth[:, at].sum()
    areas = [lines[f"label_auroc.{name}"].value for name in "abcd"]
    assert lines["task_auroc"].value == pytest.approx(np.mean(areas))
    assert lines["ece_plus"].value == pytest.approx(np.mean([1 - p[truth[:, at], at].mean() for at in range(4)]))


def test_of_two_labels_the_area_is_that_of_the_task():
    rng = np.random.default_rng(1)
    p = rng.random(100)
    classes = (rng.random(100) < p).astype(int)
    both = np.column_stack([1 - p, p])
    rows = LabelledOutput.of_classes(Output(logits=np.log(both), probabilities=both), classes)
    lines = found(rows, both >= 0.5, NamedLabels.of(["no", "yes"], rows.truth))
    assert lines["task_auroc"].value == pytest.approx(roc_auc(classes, p))
    assert "ece_plus" not in lines
    assert not [name for name in lines if name.startswith("label_rho")]


def test_macro_f1_is_said_from_head_to_tail_by_the_labelled_rows():
    rows = multilabel()
    predicted = rows.output.probabilities > 0.5
    labels = NamedLabels(names=["a", "b", "c", "d"], counts=np.array([900, 40, 5, 0]), n=10_000)
    lines = found(rows, predicted, labels)
    expected = macro_f1_by_bucket(rows.truth, predicted, ["head", "medium", "tail", "extreme_tail"])
    told = {name: line.value for name, line in lines.items() if name.startswith("macro_f1")}
    assert told == {f"macro_f1_{bucket}": pytest.approx(value) for bucket, value in expected.items()}
    assert "the 1 labels that are extreme tail" in lines["macro_f1_extreme_tail"].meaning


def test_the_rarest_labels_have_no_line_and_those_without_a_row_none_either():
    rows = multilabel(labels=MOST_LABELS + 5)
    rows.truth[:, 0] = False
    names = [f"l{at}" for at in range(MOST_LABELS + 5)]
    lines = found(rows, rows.output.probabilities > 0.5, NamedLabels.of(names, rows.truth))
    shown = [name for name in lines if name.startswith("label_auroc")]
    assert len(shown) == MOST_LABELS
    assert "label_auroc.l0" not in shown
    counts = [lines[name].n for name in shown]
    assert counts == sorted(counts, reverse=True)


def test_few_rows_have_no_calibration_error_and_wrong_names_are_refused():
    rows = multilabel(n=29)
    lines = found(rows, rows.output.probabilities > 0.5, NamedLabels.of(["a", "b", "c", "d"], rows.truth))
    assert lines["label_ece.a"].value is None
    assert lines["label_auroc.a"].value is not None
    with pytest.raises(InvalidInput):
        found(rows, rows.truth, NamedLabels.of(["a", "b"], rows.truth[:, :2]))


def test_candidates_of_a_sparse_output_are_no_labels():
    rows = multilabel()
    some = LabelledOutput(
        output=Output(
            logits=rows.output.logits,
            probabilities=rows.output.probabilities,
            slots=np.tile(np.arange(4, dtype=np.int32), (200, 1)),
        ),
        truth=rows.truth,
        exclusive=False,
    )
    assert not found(some, rows.truth, NamedLabels.of(["a", "b", "c", "d"], rows.truth))

import json

import numpy as np
import pytest

from demur.audit.metrics import calibration
from demur.audit.metrics.comparison import paired_difference
from demur.audit.metrics.head_to_head import Contender, head_to_head
from demur.audit.metrics.sampling import LabelDraw
from demur.uncertainty.checks import InvalidInput


def contender(rng, n=300, limit=0.5, share=False):
    confidence = rng.uniform(size=n)
    quality = rng.uniform(size=n) if share else (rng.uniform(size=n) < confidence).astype(float)
    return Contender(answered=confidence >= limit, confidence=confidence, quality=quality)


def test_the_numbers_are_those_of_the_audit():
    rng = np.random.default_rng(0)
    a, b = contender(rng), contender(rng, limit=0.8)
    found = head_to_head(a, b, replicates=99)
    lines = {line.name: line for line in found.differences}
    for side, one in (("a", a), ("b", b)):
        wanted = {
            "coverage": one.answered.mean(),
            "selective_risk": 1 - one.quality[one.answered].mean(),
            "accuracy": one.quality.mean(),
            "ece": calibration.ece(one.confidence, one.quality),
            "brier": calibration.brier(one.confidence, one.quality),
        }
        assert {name: getattr(line, side) for name, line in lines.items()} == pytest.approx(wanted)
    assert lines["coverage"].difference == pytest.approx(b.answered.mean() - a.answered.mean())
    assert lines["coverage"].lower < lines["coverage"].difference < lines["coverage"].upper < 0
    right = [one.answered & (one.quality == 1) for one in (a, b)]
    assert found.answered_and_right.only_current == (right[0] & ~right[1]).sum()
    assert (found.wrong_a, found.wrong_b) == tuple((one.quality[one.answered] == 0).sum() for one in (a, b))
    assert found.flips.cells["answer_review"].n == (a.answered & ~b.answered).sum()


def test_an_artifact_does_not_differ_from_itself():
    one = contender(np.random.default_rng(1), share=True)
    found = head_to_head(one, one, replicates=99)
    assert {(line.difference, line.lower, line.upper) for line in found.differences} == {(0, 0, 0)}
    assert found.answered_and_right.p_value == 1


def test_the_same_rows_give_the_same_interval():
    a, b = contender(np.random.default_rng(2)), contender(np.random.default_rng(3))
    assert head_to_head(a, b, replicates=99) == head_to_head(a, b, replicates=99)


def test_nothing_answered_has_no_risk_and_no_interval():
    a, b = contender(np.random.default_rng(4)), contender(np.random.default_rng(5), limit=2)
    found = head_to_head(a, b, replicates=99)
    risk = next(line for line in found.differences if line.name == "selective_risk")
    assert np.isnan([risk.b, risk.difference, risk.lower, risk.upper]).all()
    written = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert written["flips"]["shadow"] == {"coverage": 0, "risk": None}


@pytest.mark.slow
def test_the_interval_covers_the_true_difference_about_as_often_as_it_says():
    hit = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(size=200)
        quality = (rng.uniform(size=200) < confidence).astype(float)
        a, b = (Contender(answered=confidence >= at, confidence=confidence, quality=quality) for at in (0.4, 0.7))
        line = head_to_head(a, b, replicates=199).differences[1]
        hit += line.lower <= 0.15 - 0.3 <= line.upper  # mean of 1 - confidence above 0.7, less that above 0.4
    assert 87 <= hit <= 100


def test_an_undefined_confidence_is_refused():
    good = contender(np.random.default_rng(6))
    bad = Contender(answered=good.answered, confidence=np.full(300, np.nan), quality=good.quality)
    with pytest.raises(InvalidInput, match="confidence of b"):
        head_to_head(good, bad)


def drawn(rng, n, common=False):
    weights = rng.choice([0.0, 1.0, 4.0], size=n)
    return LabelDraw(weights=weights, common=common)


def test_whole_weights_are_repeated_rows_and_what_has_no_label_is_never_read():
    rng = np.random.default_rng(7)
    a, b = contender(rng), contender(rng, limit=0.8)
    draw = drawn(rng, 300)
    unread = draw.weights == 0
    hidden = [
        Contender(
            answered=one.answered,
            confidence=np.where(unread, np.nan, one.confidence),
            quality=np.where(unread, np.nan, one.quality),
        )
        for one in (a, b)
    ]
    found = head_to_head(*hidden, draw, replicates=99)
    times = draw.weights.astype(int)
    repeated = head_to_head(
        *(
            Contender(
                answered=one.answered.repeat(times),
                confidence=one.confidence.repeat(times),
                quality=one.quality.repeat(times),
            )
            for one in (a, b)
        ),
        replicates=99,
    )
    of_labels, lines = ({line.name: line for line in one.differences} for one in (repeated, found))
    for name in ("selective_risk", "accuracy", "ece", "brier"):
        assert (lines[name].a, lines[name].b) == pytest.approx((of_labels[name].a, of_labels[name].b))
    assert lines["coverage"].a == pytest.approx(a.answered.mean())  # of all rows: it needs no label
    assert lines["selective_risk"].a == pytest.approx(found.flips.current.risk)
    assert lines["selective_risk"].b == pytest.approx(found.flips.shadow.risk)
    loss = paired_difference(1 - a.quality, 1 - b.quality, draw.weights)
    assert lines["accuracy"].difference == pytest.approx(-loss)
    assert (found.n, found.n_labelled) == (300, (draw.weights > 0).sum())
    assert found.wrong_a == (a.answered & (a.quality == 0) & ~unread).sum()


def test_the_test_of_mcnemar_is_for_labels_of_one_probability_only():
    rng = np.random.default_rng(8)
    a, b = contender(rng), contender(rng, limit=0.8)
    assert head_to_head(a, b, drawn(rng, 300), replicates=99).answered_and_right is None
    draw = drawn(rng, 300, common=True)
    test, known = head_to_head(a, b, draw, replicates=99).answered_and_right, draw.weights > 0
    right = [one.answered & (one.quality == 1) & known for one in (a, b)]
    assert test.only_current == (right[0] & ~right[1]).sum() > 0


@pytest.mark.slow
def test_weights_undo_what_the_draw_of_labels_favours():
    hit, of_labelled = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(size=600)
        quality = (rng.uniform(size=600) < confidence).astype(float)
        a, b = (Contender(answered=confidence >= at, confidence=confidence, quality=quality) for at in (0.6, 0.3))
        probability = np.where(a.answered, 0.3, 1.0)  # as with a spot check of what A answers
        labelled = rng.uniform(size=600) < probability
        draw = LabelDraw(weights=labelled / probability, common=False)
        line = head_to_head(a, b, draw, replicates=199).differences[1]
        hit += line.lower <= 0.35 - 0.2 <= line.upper
        of_labelled.append(1 - quality[b.answered & labelled].mean() - 0.35)
    assert 87 <= hit <= 100
    assert np.mean(of_labelled) > 0.05  # without weights the shadow would look worse than it is


def test_without_any_label_only_coverage_is_known():
    rng = np.random.default_rng(9)
    a, b = contender(rng), contender(rng, limit=0.8)
    found = head_to_head(a, b, LabelDraw(weights=np.zeros(300), common=True), replicates=99)
    coverage, *others = found.differences
    assert coverage.upper < 0
    assert np.isnan([(line.a, line.b, line.lower) for line in others]).all()
    assert found.answered_and_right is None

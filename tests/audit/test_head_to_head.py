import json

import numpy as np
import pytest

from audit import calibration
from audit.head_to_head import Contender, head_to_head
from uncertainty.checks import InvalidInput


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

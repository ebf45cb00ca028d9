"""The estimate without labels: what it says, when it is struck through, and what was stored before there was any."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from demur.audit.monitors.expected import expected_from_json, expected_wrong
from demur.audit.monitors.reference import ReferenceSample, UnlabelledRecord, compared, comparison_from_json
from demur.audit.monitors.wording import expected_sentence, unlike_sentence


def records(confidences, *, held=False):
    return [UnlabelledRecord(confidence=c, held=held, prediction="a", scores={}) for c in confidences]


def comparison(before, now):
    found = compared(ReferenceSample().added(before), ReferenceSample().added(now))
    assert found is not None
    return found


RNG = np.random.default_rng(0)
BEFORE = records(RNG.uniform(0.9, 1, 400))


def test_the_mean_of_what_confidence_lacks_over_the_answers():
    now = [*records(RNG.uniform(0.9, 1, 300)), *records([0.2] * 100, held=True), *records([nan] * 5)]
    quiet = replace(comparison(BEFORE, BEFORE), labels_p_value=None)
    found = expected_wrong(now, quiet, delta=0.01)
    lack = np.array([1 - one.confidence for one in now[:300]])
    assert found.estimate == pytest.approx(lack.mean())
    assert found.standard_error == pytest.approx(np.sqrt((lack * (1 - lack)).sum()) / 300)
    assert (found.n, found.unlike) == (300, False)
    assert expected_sentence(found).startswith("Without labels: of the latest 300 answers ")
    assert expected_sentence(found).endswith("That is an estimate and no finding; nothing is judged by it.")
    assert unlike_sentence(found) == ""
    assert expected_from_json(found.as_json()) == found


def test_where_the_traffic_has_drifted_it_is_not_relied_on():
    now = records(RNG.uniform(0.6, 1, 400))
    found = expected_wrong(now, comparison(BEFORE, now), delta=0.01)
    assert found.unlike
    assert "do not rely on it: have more answers checked" in unlike_sentence(found)


def test_where_nothing_was_answered_nothing_is_said():
    now = records([0.5] * 50, held=True)
    assert expected_wrong(now, comparison(BEFORE, now), delta=0.01) is None
    assert expected_sentence(None) == unlike_sentence(None) == ""
    assert expected_from_json(None) is None


def test_a_comparison_is_read_with_and_without_it():
    found = comparison(BEFORE, BEFORE)
    assert comparison_from_json({**found.as_json(), "expected": None}) == comparison_from_json(found.as_json()) == found

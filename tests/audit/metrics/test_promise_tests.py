"""Tests of one promise, and of a promise in many parts (METHODS 10.6)."""

import numpy as np
import pytest

from demur.audit.metrics.multiplicity import holm, verdict_of_parts
from demur.audit.metrics.promise_tests import judge_count, judge_mean


def test_valid_sets_are_seldom_called_broken_and_twice_the_rate_often():
    """Split sets of 100 rows, audited on 1,000 labels; the rate of a fit is Beta(10, 91)."""
    rng = np.random.default_rng(0)
    rates = rng.beta(10, 91, 2000)
    calls = {
        times: [
            judge_count(int(misses), 1000, 0.1, promise="average", fit_n=100).status
            for misses in rng.binomial(1000, np.minimum(times * rates, 1))
        ]
        for times in (1, 2)
    }
    alone = [judge_count(int(misses), 1000, 0.1).status for misses in rng.binomial(1000, rates)]
    assert calls[1].count("broken") <= 0.04 * 2000
    assert calls[2].count("broken") >= 0.5 * 2000
    assert alone.count("broken") >= 0.15 * 2000  # judged as if it were a promise of this fit


def test_a_promise_of_one_part_has_the_word_of_its_test():
    for misses in range(60):
        one = judge_count(misses, 300, 0.1)
        assert verdict_of_parts([one.p_broken], [one.p_kept]).status == one.status


def test_more_parts_at_the_target_are_no_more_often_called_broken():
    rng = np.random.default_rng(1)
    called, uncorrected = 0, 0
    for _ in range(400):
        parts = [judge_count(int(misses), 200, 0.1) for misses in rng.binomial(200, 0.1, 20)]
        called += verdict_of_parts([p.p_broken for p in parts], [p.p_kept for p in parts]).status == "broken"
        uncorrected += any(p.status == "broken" for p in parts)
    assert called <= 0.05 * 400
    assert uncorrected >= 0.15 * 400


def test_holm_rejects_whatever_bonferroni_rejects():
    rng = np.random.default_rng(2)
    for _ in range(100):
        p = rng.random(8) ** 4
        assert set(np.flatnonzero(p <= 0.05 / 8)) <= set(holm(p).rejected)


def test_the_normal_test_is_close_to_the_exact_one():
    exact = judge_count(130, 1000, 0.1, promise="average", fit_n=100)
    error = np.sqrt(0.13 * 0.87 / 1000)
    assert judge_mean(0.13, error, 0.1, fit_n=100).p_broken == pytest.approx(exact.p_broken, abs=0.03)

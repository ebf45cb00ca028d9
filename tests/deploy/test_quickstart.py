"""The quickstart's own settings: what they promise, and what they hold of digits that look otherwise."""

import pytest

from benchmarks.quickstart import BEFORE, PRESENT, measured

pytestmark = pytest.mark.slow  # it runs a model on 5,300 digits


def test_the_labels_carry_the_promise_and_strange_digits_are_held():
    before, now = (measured(seeds=3, only=name)[0] for name in (BEFORE, PRESENT))
    assert now.carried == 1
    assert now.clean.wrong < 0.05
    assert now.clean.answered > 0.8
    assert now.corrupted.caught > 0.85 > before.corrupted.caught
    assert now.corrupted.wrong < before.corrupted.wrong / 1.5

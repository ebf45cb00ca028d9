import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.temperature import Temperature, fit_binary_temperature, fit_temperature


def loss(logits, labels, inverse):
    """Sum of negative log-likelihoods of softmax(z / T), computed so that nothing overflows."""
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        lead = [(z - row[label]) * inverse for z in row]
        top = max(lead)
        total += top + math.log(sum(math.exp(z - top) for z in lead))
    return total


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_other_temperature_is_better(seed):
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    logits = rng.normal(size=(n, classes)) * 10.0 ** rng.integers(-2, 4)
    labels = rng.integers(classes, size=n) if seed % 2 else np.where(rng.random(n) < 0.8, logits.argmax(axis=1), 0)
    best = fit_temperature(logits, labels).temperature
    assert 0.01 <= best <= 100
    here = loss(logits.tolist(), labels.tolist(), 1 / best)
    for other in np.geomspace(0.01, 100, 60):
        assert here <= loss(logits.tolist(), labels.tolist(), 1 / other) + 1e-9


@pytest.mark.parametrize(
    ("logits", "labels", "temperature"),
    [
        ([[1, 0], [0, 1]], [0, 1], 0.01),  # all right: the colder the better
        ([[4e3, 0], [0, 4e3]], [0, 1], 0.01),
        ([[1e6, 0], [0, 1e6]], [0, 1], 0.01),  # where every loss is 0 in floats
        ([[1, 0], [0, 1]], [1, 0], 100),  # all wrong: the hotter the better
        ([[1e6, 0], [0, 1e6]], [1, 0], 100),
        ([[5, 5], [-3, -3]], [0, 1], 1),  # nothing to learn, so nothing is changed
        ([[7], [8]], [0, 0], 1),
        ([[2, 2], [1e5, 0]], [1, 0], 0.01),
        ([[1, 0]] * 3 + [[0, 1]], [0] * 4, 1 / math.log(3)),  # three of four right: sigmoid(1 / T) = 3 / 4
        ([[3000, 0]] * 3 + [[0, 3000]], [0] * 4, 100),
        ([[30, 0]] * 3 + [[0, 30]], [0] * 4, 30 / math.log(3)),
    ],
)
def test_known_temperatures(logits, labels, temperature):
    fitted = fit_temperature(logits, labels)
    assert fitted.temperature == pytest.approx(temperature, rel=1e-10)
    assert np.isfinite(fitted.of_classes(np.array(logits, dtype=float))).all()
    if len(logits[0]) == 2:
        single = [b - a for a, b in logits]
        binary = fit_binary_temperature(single, labels)
        assert binary.temperature == pytest.approx(temperature, rel=1e-10)
        np.testing.assert_allclose(
            binary.of_labels(np.array(single)), fitted.of_classes(np.array(logits, dtype=float))[:, 1], atol=1e-12
        )


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-5000, 5000), st.integers(0, 1)), min_size=1, max_size=12))
def test_one_logit_is_two_of_which_the_first_is_0(rows):
    z, y = np.array([z for z, _ in rows]), [label for _, label in rows]
    pair = np.column_stack([np.zeros(len(z)), z])
    single, double = fit_binary_temperature(z, y).temperature, fit_temperature(pair, y).temperature
    assert loss(pair.tolist(), y, 1 / single) == pytest.approx(loss(pair.tolist(), y, 1 / double), rel=1e-9, abs=1e-9)


def test_the_range_is_kept_and_may_be_one_point():
    logits, labels = [[1, 0], [0, 1]], [0, 1]
    assert fit_temperature(logits, labels, t_min=0.5).temperature == 0.5
    assert fit_temperature(logits, [1, 0], t_max=2).temperature == 2
    assert fit_temperature(logits, labels, t_min=3, t_max=3).temperature == 3
    assert fit_temperature([[1, 1]], [0], t_min=2).temperature == 2  # 1 is outside


def test_the_order_of_labels_stays():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 4)) * 3
    fitted = Temperature().fit(logits, rng.integers(4, size=50).astype(float))
    assert fitted.temperature > 1
    probabilities = fitted.of_classes(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argsort(axis=1), logits.argsort(axis=1))
    np.testing.assert_array_equal(fitted.confidence(logits), probabilities.max(axis=1))


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ([], []),
        ([[1, 0]], [0, 1]),
        ([[1, 0]], [2]),
        ([[1, 0]], [-1]),
        ([[1, 0]], [0.5]),
        ([[1, 0]], ["0"]),
        ([[1, 0]], [None]),
        ([[1, math.nan]], [0]),
        ([[1, math.inf]], [0]),
        ([[1, 0], [1]], [0, 0]),
        ([1, 0], [0, 0]),
        ([[1, 0]], 0),
    ],
)
def test_bad_data_is_refused(logits, labels):
    with pytest.raises(InvalidInput):
        fit_temperature(logits, labels)


@pytest.mark.parametrize(
    ("logits", "targets"), [([], []), ([1.0], [0, 1]), ([1.0], [0.5]), ([math.nan], [0]), ([[1.0]], [0]), ([1.0], [2])]
)
def test_bad_binary_data_is_refused(logits, targets):
    with pytest.raises(InvalidInput):
        fit_binary_temperature(logits, targets)


@pytest.mark.parametrize(
    "limits",
    [
        {"t_min": 0},
        {"t_min": -1},
        {"t_min": 200},
        {"t_max": math.inf},
        {"t_max": math.nan},
        {"t_max": "9"},
        {"t_min": None},
    ],
)
def test_a_range_that_is_none_is_refused(limits):
    for call in (lambda: Temperature(**limits), lambda: fit_temperature([[1, 0]], [0], **limits)):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(InvalidInput):
        fit_binary_temperature([1.0], [0], **limits)

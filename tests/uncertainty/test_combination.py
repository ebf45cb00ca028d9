import numpy as np
import pytest
from scipy.special import expit

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.combination import COMBINATIONS, FITTED_COMBINATIONS, Hybrid, Logistic
from demur.uncertainty.hybrid import fit_hybrid


def scores(n=80, seed=0):
    rng = np.random.default_rng(seed)
    strange, torn = rng.gamma(2, size=n), rng.random(n) / 2
    right = (rng.random(n) < expit(3 - strange - 2 * torn)).astype(float)
    return {"mahalanobis": strange, "softmax_response": torn, "entropy": rng.random(n)}, right


@pytest.mark.parametrize("variant", ["linear", "step"])
def test_a_hybrid_mixes_the_scores_that_it_names(variant):
    known, right = scores()
    later, _ = scores(n=9, seed=1)
    recipe = Hybrid(epistemic="mahalanobis", aleatoric="entropy", variant=variant, alpha=0.3, delta_min=0.2)
    assert recipe.sources == ("mahalanobis", "entropy")
    wanted = fit_hybrid(known["mahalanobis"], known["entropy"], variant=variant, alpha=0.3, delta_min=0.2)
    np.testing.assert_array_equal(
        recipe.fit(known, right).of(later), wanted.mix(later["mahalanobis"], later["entropy"])
    )


def test_by_default_it_mixes_distance_and_softmax_response_as_the_paper_does():
    assert Hybrid() == Hybrid(
        epistemic="mahalanobis",
        aleatoric="softmax_response",
        variant="linear",
        alpha=0.2,
        delta_min=0.1,
        delta_max=0.9,
    )


def test_a_logistic_mix_is_one_minus_the_probability_of_being_right():
    known, right = scores(n=4000)
    mix = Logistic(of=("mahalanobis", "softmax_response")).fit(known, right)
    u = mix.of(known)
    assert u.mean() == pytest.approx(1 - right.mean(), abs=1e-6)  # of a regression with a free intercept
    truth = 1 - expit(3 - known["mahalanobis"] - 2 * known["softmax_response"])
    assert np.abs(u - truth).mean() < 0.03


def test_a_logistic_mix_depends_on_the_order_of_its_sources_only_by_name():
    known, right = scores()
    one = Logistic(of=("mahalanobis", "entropy")).fit(known, right).of(known)
    other = Logistic(of=("entropy", "mahalanobis")).fit(known, right).of(known)
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("recipe", [Hybrid(), Logistic(of=("mahalanobis", "entropy"))])
def test_a_row_is_scored_alike_alone_and_in_company(recipe):
    known, right = scores()
    later, _ = scores(n=7, seed=2)
    fitted = recipe.fit(known, right)
    assert isinstance(fitted, FITTED_COMBINATIONS)
    together = fitted.of(later)
    for i in range(7):
        alone = fitted.of({name: values[i : i + 1] for name, values in later.items()})
        np.testing.assert_allclose(alone, together[i : i + 1], rtol=1e-12)


@pytest.mark.parametrize("right", [np.zeros(80), np.ones(80), np.full(80, 0.5)])
def test_a_logistic_mix_needs_rights_and_wrongs(right):
    with pytest.raises(InvalidInput):
        Logistic(of=("entropy",)).fit(scores()[0], right)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("hybrid", {"alpha": 1.5}),
        ("hybrid", {"alpha": "much"}),
        ("hybrid", {"delta_min": -0.1}),
        ("hybrid", {"delta_max": None}),
        ("hybrid", {"variant": "both"}),
        ("logistic", {"of": ("entropy",), "C": 0.0}),
        ("logistic", {"of": ("entropy",), "C": "1"}),
        ("logistic", {"of": ()}),
    ],
)
def test_bad_settings_are_refused_before_there_is_data(kind, settings):
    with pytest.raises(InvalidInput):
        COMBINATIONS[kind](**settings)

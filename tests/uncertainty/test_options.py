import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.options import sample_frequency_scores, self_consistency, semantic_entropy


@pytest.mark.parametrize(
    ("positive", "total", "confidence", "uncertainty"),
    [(0, 10, 0.0, 0.0), (10, 10, 1.0, 0.0), (5, 10, 0.5, 0.5), (3, 10, 0.3, 0.3), (7, 10, 0.7, 0.3), (0, 1, 0.0, 0.0)],
)
def test_self_consistency(positive, total, confidence, uncertainty):
    scored = self_consistency(positive, total)
    assert (scored.confidence_positive, scored.uncertainty) == (confidence, uncertainty)


@pytest.mark.parametrize("counts", [(0, 0), (-1, 3), (4, 3), (1.0, 3), (1, 3.0), (True, 3), ("1", 3), (None, 3)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InvalidInput):
        self_consistency(*counts)


LN2, LN5 = math.log(2), math.log(5)


@pytest.mark.parametrize(
    ("samples", "options", "unparsed", "entropy", "normalized", "majority", "n_unparsed"),
    [
        (["A", "B"], ["A", "B"], "outcome", LN2, 1.0, "A", 0),  # no unparsed reply, no further outcome
        (["A", "B"], ["B", "A"], "outcome", LN2, 1.0, "B", 0),  # a tie goes to the first listed
        (["A", None], ["A", "B", "C", "D"], "outcome", LN2, LN2 / LN5, "A", 1),
        (["A", None], ["A", "B", "C", "D"], "drop", 0.0, 0.0, "A", 1),
        (["B", None, None, None], ["A", "B"], "drop", 0.0, 0.0, "B", 3),  # the majority is an option
        (["A", "A"], ["A"], "outcome", 0.0, 0.0, "A", 0),
        (["A", None], ["A"], "outcome", LN2, 1.0, "A", 1),
        (["A", None], ["A"], "drop", 0.0, 0.0, "A", 1),
        ([None, None], ["A", "B"], "outcome", math.nan, math.nan, None, 2),  # no reply is not a unanimous one
        ([None], ["A"], "drop", math.nan, math.nan, None, 1),
        ([2, 1, 2], [1, 2, 3], "outcome", math.log(3) - 2 / 3 * LN2, None, 2, 0),
    ],
)
def test_semantic_entropy(samples, options, unparsed, entropy, normalized, majority, n_unparsed):
    scored = semantic_entropy(samples, options, unparsed=unparsed)
    normalized = entropy / math.log(len(options)) if normalized is None else normalized
    assert scored.entropy == pytest.approx(entropy, nan_ok=True)
    assert scored.normalized == pytest.approx(normalized, nan_ok=True)
    assert scored.confidence == pytest.approx(1 - normalized, nan_ok=True)
    assert (scored.majority, scored.n_unparsed) == (majority, n_unparsed)


@pytest.mark.parametrize(
    ("samples", "options", "scores"),
    [
        (["B"] * 17 + ["C"] * 3, ["A", "B", "C"], [1.0, 3 / 20, 17 / 20]),  # 1 - 17/20 is another float
        (["A", None, None, "B"], ["A", "B"], [0.75, 0.75]),
        ([None], ["A", "B"], [1.0, 1.0]),
    ],
)
def test_sample_frequency_is_an_exact_quotient(samples, options, scores):
    assert sample_frequency_scores(samples, options).tolist() == scores


@pytest.mark.parametrize("function", [semantic_entropy, sample_frequency_scores])
@pytest.mark.parametrize(
    ("samples", "options"),
    [
        ([], ["A"]),
        (["A"], []),
        (["C"], ["A", "B"]),  # what could not be parsed is None
        (["A"], ["A", "A"]),
        (["A"], ["A", None]),
        (["A"], ["A", math.nan]),
        ("AB", ["A", "B"]),
        (["A"], "AB"),
        ([["A"]], ["A"]),
        (["A"], [["A"]]),
        (None, ["A"]),
        (["A"], {"A": 1}),
    ],
)
def test_what_is_refused(function, samples, options):
    with pytest.raises(InvalidInput):
        function(samples, options)


def test_an_unknown_word_is_refused():
    with pytest.raises(InvalidInput, match="unparsed"):
        semantic_entropy(["A"], ["A"], unparsed="ignore")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=30), st.permutations("ABC"))
def test_the_order_of_samples_and_options_says_nothing_about_the_spread(samples, options):
    one, other = semantic_entropy(samples, ["A", "B", "C"]), semantic_entropy(samples[::-1], options)
    assert one.entropy == pytest.approx(other.entropy, abs=1e-12, nan_ok=True)
    assert math.isnan(one.normalized) or 0 <= one.normalized <= 1  # a confidence may not leave [0, 1] by rounding

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from demur.audit.metrics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha
from demur.uncertainty.checks import InvalidInput

KRIPPENDORFF = [  # of "Computing Krippendorff's Alpha-Reliability" (2011), section C: four people, twelve items
    [1, 1, None, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [None, 5, 5, 5],
    [None, None, 1, 1],
    [None, None, 3, None],
]
FLEISS = [  # fourteen people, ten items, five categories
    *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
    *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
]
LABEL = st.sampled_from("abc")
PAIRS = st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=30)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=width, max_size=width), min_size=1, max_size=12
    )
)


def alpha_by_definition(ratings, distance):
    """One less the mean distance of pairs within items, over that of all pairs, from the coincidences themselves."""
    items = [kept for row in ratings if len(kept := [x for x in row if x is not None]) >= 2]
    n = sum(map(len, items))
    within = sum(sum(distance(a, b) for a, b in itertools.permutations(row, 2)) / (len(row) - 1) for row in items)
    overall = sum(distance(a, b) for a, b in itertools.permutations([x for row in items for x in row], 2))
    return 1 - (n - 1) * within / overall if overall else math.nan


def test_published_examples():
    assert krippendorff_alpha(KRIPPENDORFF) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(KRIPPENDORFF, "interval") == pytest.approx(0.849, abs=5e-4)
    assert fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)


@pytest.mark.slow
@settings(deadline=None)
@given(PAIRS)
def test_kappa_is_symmetric_and_as_in_scikit_learn(pairs):
    a, b = map(list, zip(*pairs, strict=True))
    found = cohen_kappa(a, b)
    assert found == pytest.approx(cohen_kappa(b, a), nan_ok=True)
    if len({*a, *b}) > 1:
        assert found == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)
        assert -1 <= found <= 1
    else:
        assert math.isnan(found)  # all said the same: nobody could have disagreed


@pytest.mark.parametrize(
    ("a", "b", "kappa"),
    [
        (["y"], ["y"], math.nan),
        (["y"], ["n"], 0),
        (["y", "n"], ["y", "n"], 1),
        (["y", "n"], ["n", "y"], -1),
        ([1, 2], ["1", "2"], 0),  # a number and a text are never the same
        ([True, False, True], [1, 0, 0], 0.4),
        ([frozenset("ab"), frozenset()], [frozenset("ba"), frozenset()], 1),
    ],
)
def test_kappa(a, b, kappa):
    assert cohen_kappa(a, b) == pytest.approx(kappa, nan_ok=True)


def test_kappa_at_chance_is_near_zero():
    rng = np.random.default_rng(0)
    assert abs(cohen_kappa(rng.integers(5, size=100_000), rng.integers(5, size=100_000))) < 0.01
    assert abs(krippendorff_alpha(rng.integers(5, size=(50_000, 2)))) < 0.01


@settings(deadline=None)
@given(TABLES)
def test_alpha_is_what_its_definition_says(ratings):
    for level, distance in (("nominal", lambda a, b: a != b), ("interval", lambda a, b: (a - b) ** 2)):
        assert krippendorff_alpha(ratings, level) == pytest.approx(
            alpha_by_definition(ratings, distance), abs=1e-9, nan_ok=True
        )


@pytest.mark.slow
@settings(deadline=None)
@given(TABLES, st.randoms())
def test_alpha_knows_neither_the_order_of_items_nor_who_is_who(ratings, random):
    mixed = [random.sample(row, len(row)) for row in random.sample(ratings, len(ratings))]
    for level in ("nominal", "interval"):
        assert krippendorff_alpha(mixed, level) == pytest.approx(krippendorff_alpha(ratings, level), nan_ok=True)


@settings(deadline=None)
@given(TABLES, st.floats(1e-150, 1e150), st.floats(-5, 5))
def test_interval_alpha_knows_no_unit(ratings, unit, zero):
    scaled = [[None if x is None else (x + zero) * unit for x in row] for row in ratings]
    same = krippendorff_alpha(scaled, "interval")
    assert same == pytest.approx(krippendorff_alpha(ratings, "interval"), abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("top", [1.0, 5e-324, 1.7e308])
def test_interval_alpha_at_the_ends_of_floats(top):
    assert krippendorff_alpha([[top, top], [-top, -top]], "interval") == pytest.approx(1)
    assert krippendorff_alpha([[top, -top], [-top, top]], "interval") == pytest.approx(-0.5)


@settings(deadline=None)
@given(st.integers(2, 5).flatmap(lambda r: st.lists(st.lists(LABEL, min_size=r, max_size=r), min_size=1, max_size=12)))
def test_fleiss_is_near_alpha(ratings):
    """alpha = 1 - (1 - kappa)(1 - 1/N): the same expected disagreement, but that alpha draws without replacement."""
    counts = [[row.count(label) for label in "abc"] for row in ratings]
    kappa, total = fleiss_kappa(counts), len(ratings) * len(ratings[0])
    assert krippendorff_alpha(ratings) == pytest.approx(1 - (1 - kappa) * (1 - 1 / total), nan_ok=True)


@pytest.mark.parametrize(
    "ratings", [[[None]], [[1]], [[1, None], [None, 2]], [[1, 1], [1, 1]], [[0.1, 0.1, 0.1], [0.1, 0.1, None]]]
)
def test_alpha_without_possible_disagreement(ratings):
    assert math.isnan(krippendorff_alpha(ratings))
    assert math.isnan(krippendorff_alpha(ratings, "interval"))


def test_an_item_with_one_rating_is_left_out():
    assert krippendorff_alpha([*KRIPPENDORFF, [None, "other", None, None]]) == krippendorff_alpha(KRIPPENDORFF)


def test_alpha_of_arrays_and_label_sets():
    assert krippendorff_alpha(np.array([[1, 1], [2, 2]])) == 1
    assert krippendorff_alpha([[frozenset("ab"), frozenset("ba")], [frozenset("a"), frozenset("a")]]) == 1


@pytest.mark.parametrize(
    ("ratings", "level"),
    [
        ([[1, 2], [1]], "nominal"),
        ([[1, 2]], "ordinal"),
        ([["a", "b"]], "interval"),
        ([[math.nan, 1]], "nominal"),
        ([[math.nan, 1]], "interval"),
        ([[["a"], ["b"]]], "nominal"),
        (np.array(1), "nominal"),
        ([1, 2], "nominal"),
        ("ab", "nominal"),
    ],
)
def test_alpha_refuses(ratings, level):
    with pytest.raises(InvalidInput):
        krippendorff_alpha(ratings, level)


@pytest.mark.parametrize(
    "counts", [[[1, 0]], [[2, 0], [1, 0]], [[2.5, 0]], [[3, -1]], [[0, 0]], [[]], [1, 2], [["2", "0"]]]
)
def test_fleiss_refuses(counts):
    with pytest.raises(InvalidInput):
        fleiss_kappa(counts)


def test_fleiss_of_one_category_is_undefined():
    assert math.isnan(fleiss_kappa([[3, 0], [3, 0]]))


@pytest.mark.parametrize(("a", "b"), [([], []), (["y"], ["y", "n"]), ([None], ["y"]), ([math.nan], [1.0]), ("y", "y")])
def test_kappa_refuses(a, b):
    with pytest.raises(InvalidInput):
        cohen_kappa(a, b)

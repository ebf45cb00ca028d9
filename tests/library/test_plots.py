"""Pictures of arrays: what is drawn, on which axes, and which arrays are refused."""

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure

from demur.library import plots
from demur.library.picture import PlotFigure

RNG = np.random.default_rng(0)
CONFIDENCE = RNG.random(300)
CORRECT = (RNG.random(300) < CONFIDENCE).astype(float)
U = 1 - CONFIDENCE
SETS = RNG.random((300, 4)) < 0.4
TRUTH = RNG.integers(4, size=300)

DRAWN = {
    "risk_coverage": lambda **ax: plots.risk_coverage(CORRECT, U, max_risk=0.1, **ax),
    "accuracy_rejection": lambda **ax: plots.accuracy_rejection(CORRECT, U, **ax),
    "compare_scores": lambda **ax: plots.compare_scores(CORRECT, {"$one_$": U, "two": CORRECT}, **ax),
    "reliability": lambda **ax: plots.reliability(CONFIDENCE, CORRECT, **ax),
    "confidence_histogram": lambda **ax: plots.confidence_histogram(CONFIDENCE, CORRECT, **ax),
    "set_sizes": lambda **ax: plots.set_sizes(SETS, TRUTH, **ax),
}


@pytest.mark.parametrize("name", plots.__all__)
def test_a_picture_is_returned_and_nothing_is_shown_or_left_changed(name):
    before = dict(rcParams)
    picture = DRAWN[name]()
    assert isinstance(picture, PlotFigure)
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert dict(rcParams) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", plots.__all__)
def test_axes_of_ones_own_are_drawn_on(name):
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert DRAWN[name](ax=second) is figure
    assert not first.lines
    assert second.get_xlabel()
    figure.savefig("/dev/null", format="png")  # names with dollar signs are no formulas


def test_curves_say_what_metrics_say():
    axes = plots.risk_coverage([1, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]).axes[0]
    curve = next(line for line in axes.lines if line.get_label() == "score")
    np.testing.assert_allclose(curve.get_xydata(), [[0.25, 0], [0.5, 0], [0.75, 1 / 3], [1, 0.25]])
    axes = plots.accuracy_rejection([1, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]).axes[0]
    curve = next(line for line in axes.lines if line.get_label() == "score")
    np.testing.assert_allclose(curve.get_ydata(), [1, 1, 2 / 3, 0.75])
    axes = plots.compare_scores(CORRECT, {"perfect": -CORRECT, "flat": np.zeros(300)}).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()][2:] == ["perfect, PRR 1.00", "flat, PRR 0.00"]


def test_reliability_has_exact_intervals_where_rows_are_counted():
    axes = plots.reliability([0.9] * 10, [1] * 9 + [0]).axes[0]
    (bar,) = axes.collections[0].get_segments()
    np.testing.assert_allclose(bar[:, 1], [0.555, 0.9975], atol=1e-4)  # Clopper & Pearson, 9 of 10
    degrees = plots.reliability([0.9] * 10, [0.5] * 10).axes[0]
    assert not len(degrees.collections[0].get_segments())


def test_sets_are_counted_by_size_and_by_whether_they_hold_what_is_right():
    axes = plots.set_sizes([[1, 0, 0], [1, 1, 0], [0, 0, 0]], [0, 2, 1]).axes[0]
    heights = [[bar.get_height() for bar in part] for part in axes.containers]
    assert heights == [[0, 1, 0, 0], [1, 0, 1, 0]]
    many = plots.set_sizes([[1, 0, 1], [1, 1, 0]], [[1, 0, 0], [0, 0, 1]]).axes[0]
    assert [[bar.get_height() for bar in part] for part in many.containers] == [[0, 0, 1, 0], [0, 0, 1, 0]]
    assert plots.set_sizes([[1, 0]]).axes[0].get_legend() is None


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.risk_coverage([1, 0], [0.1, np.nan]),
        lambda: plots.risk_coverage([1, 2], [0.1, 0.2]),
        lambda: plots.risk_coverage([1, 0, 1], [0.1, 0.2]),
        lambda: plots.risk_coverage([1, 0], [0.1, 0.2], max_risk=5),
        lambda: plots.risk_coverage([], []),
        lambda: plots.compare_scores([1, 0], {}),
        lambda: plots.compare_scores([1, 0], {str(at): [0, 1] for at in range(9)}),
        lambda: plots.reliability([0.5, 1.5], [1, 0]),
        lambda: plots.confidence_histogram([0.5], [1, 0]),
        lambda: plots.set_sizes([0, 1]),
        lambda: plots.set_sizes([[0, 2]]),
        lambda: plots.set_sizes([[0, 1]], [2]),
        lambda: plots.set_sizes([[0, 1]], [0, 1]),
        lambda: plots.set_sizes([[0, 1]], ["a"]),
    ],
)
def test_arrays_that_break_a_rule_are_refused(draw):
    with pytest.raises(ValueError, match=r"\w"):
        draw()


@pytest.mark.parametrize("correct", [[1, 1, 1], [0, 0, 0], [1]])
def test_rows_that_are_all_right_or_all_wrong_can_be_drawn(correct):
    u = np.linspace(0, 1, len(correct))
    for draw in (plots.risk_coverage, plots.accuracy_rejection):
        assert draw(correct, u)._repr_png_()
    assert plots.compare_scores(correct, {"one": u})._repr_png_()
    assert plots.reliability(u, correct)._repr_png_()

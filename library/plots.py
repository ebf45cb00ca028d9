"""Pictures of arrays. Each function returns a matplotlib figure, and draws on `ax` where one is given.

`correct` [n] says how right each prediction was: 0 or 1, or a share between. `u` [n] is a score, higher when the model
is less sure; the negated confidence is one. Nothing is shown, and pyplot is not touched. Intervals are 95% ones.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from demur.audit.axes import (
    LEAST_HEIGHT,
    Points,
    draw_rejection,
    draw_reliability,
    draw_risk_coverage,
    frame_rejection,
    frame_risk_coverage,
    percent,
)
from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE
from demur.audit.metrics.calibration import binned
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.selective import prr, rc_curve, thinned
from demur.library.picture import legend, on_axes
from demur.uncertainty.checks import InvalidInput, Mask, fraction, same_length, unit_interval, whole_number

__all__ = ["accuracy_rejection", "compare_scores", "confidence_histogram", "reliability", "risk_coverage", "set_sizes"]

POINTS = 200
"""Of a curve, which are enough for the eye."""

MOST_COMPARED = 8
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
LINES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, BLACK, GREY)


def risk_coverage(
    correct: Any, u: Any, *, max_risk: float | None = None, label: str = "score", ax: Axes | None = None
) -> Figure:
    """Share of wrong answers against the share that is answered, surest first; `max_risk` is drawn as a line.

    Intervals are exact (Clopper & Pearson) for each point by itself, where rows are right or wrong. A limit that is
    chosen on this very curve is not covered by them.
    """
    coverage, risk = _curve(correct, u)
    right = unit_interval("correct", correct)
    n, interval = len(right), None
    if np.isin(right, (0.0, 1.0)).all():
        found = [
            clopper_pearson(round(value * k), k)
            for value, k in zip(risk, np.rint(coverage * n).astype(int), strict=True)
        ]
        interval = (np.array([one.lower for one in found]), np.array([one.upper for one in found]))
    target = np.nan if max_risk is None else fraction("max_risk", max_risk)

    def draw(axes: Axes) -> None:
        perfect = _curve(correct, -right)
        draw_risk_coverage(axes, coverage, risk, label=label, interval=interval, perfect=perfect, target=target)
        frame_risk_coverage(
            axes, float(np.nanmax([1.25 * risk[-1], *risk[len(risk) // 10 :], 1.15 * target])) or LEAST_HEIGHT
        )
        legend(axes)

    return on_axes(draw, ax)


def accuracy_rejection(correct: Any, u: Any, *, label: str = "score", ax: Axes | None = None) -> Figure:
    """Share right of what is left, when the least sure are held back; beside a perfect score and chance.

    PRR is the area between the curve and chance, as a share of the same area of a perfect score.
    """
    coverage, risk = _curve(correct, u)
    best_coverage, best = _curve(correct, -unit_interval("correct", correct))

    def draw(axes: Axes) -> None:
        draw_rejection(axes, 1 - coverage, 1 - risk, label=label, perfect=(1 - best_coverage, 1 - best))
        frame_rejection(axes, float(1 - risk.max()))
        legend(axes)

    return on_axes(draw, ax)


def compare_scores(correct: Any, scores: Mapping[str, Any], *, ax: Axes | None = None) -> Figure:
    """Risk against coverage for several scores of the same rows, by name, with the PRR of each."""
    if not 1 <= len(scores) <= MOST_COMPARED:
        raise InvalidInput(f"there are {len(scores)} scores; compare 1 to {MOST_COMPARED} of them")
    right = unit_interval("correct", correct)
    curves = {name: _curve(correct, u) for name, u in scores.items()}
    ratios = {name: prr(right, u) for name, u in scores.items()}

    def draw(axes: Axes) -> None:
        last = next(iter(curves.values()))[1][-1]
        axes.axhline(last, color=GREY, linestyle=":", linewidth=1.2, label="chance")
        axes.plot(*_curve(correct, -right), color=GREY, linestyle="--", linewidth=1.2, label="perfect score")
        for colour, (name, points) in zip(LINES, curves.items(), strict=False):
            rounded = round(ratios[name], 2) + 0  # no minus before a zero
            ratio = "undefined" if np.isnan(rounded) else f"{rounded:.2f}"
            axes.plot(*points, color=colour, linewidth=1.8, label=f"{name}, PRR {ratio}")
        tops = [risk[len(risk) // 10 :].max() for _, risk in curves.values()]
        frame_risk_coverage(axes, float(max(1.25 * last, *tops)) or LEAST_HEIGHT)
        legend(axes)

    return on_axes(draw, ax)


def reliability(confidence: Any, correct: Any, *, n_bins: int = 10, ax: Axes | None = None) -> Figure:
    """How often predictions of each confidence were right, in `n_bins` bins of one width.

    A point on the diagonal says: where the model claims 80%, it is right in 80%. Intervals are exact (Clopper &
    Pearson) where rows are right or wrong, and are not drawn else.
    """
    values, right = unit_interval("confidence", confidence), unit_interval("correct", correct)
    same_length(confidence=values, correct=right)
    bins = [one for one in binned(values, right, n_bins=whole_number("n_bins", n_bins, least=1)) if one.count]
    at, shares = np.array([one.confidence for one in bins]), np.array([one.accuracy for one in bins])
    lower = upper = np.full(len(bins), np.nan)
    if np.isin(right, (0.0, 1.0)).all():
        found = [clopper_pearson(round(one.accuracy * one.count), one.count) for one in bins]
        lower, upper = np.array([one.lower for one in found]), np.array([one.upper for one in found])

    def draw(axes: Axes) -> None:
        draw_reliability(axes, at, shares, lower, upper, label="share right")
        axes.set(xlabel="confidence", xlim=(0, 1.01))
        percent(axes.xaxis, 1)
        legend(axes)

    return on_axes(draw, ax)


def confidence_histogram(confidence: Any, correct: Any = None, *, n_bins: int = 20, ax: Axes | None = None) -> Figure:
    """How many predictions have each confidence; where `correct` is given, which of them were right and wrong."""
    values = unit_interval("confidence", confidence)
    parts = [values]
    if correct is not None:
        right = unit_interval("correct", correct)
        same_length(confidence=values, correct=right)
        parts = [values[right == 1], values[right < 1]]

    def draw(axes: Axes) -> None:
        looks = ([BLUE, ORANGE], ["right", "wrong"]) if len(parts) == 2 else ([BLUE], ["all"])
        axes.hist(parts, bins=np.linspace(0, 1, n_bins + 1).tolist(), stacked=True, color=looks[0], label=looks[1])
        axes.set(xlabel="confidence", ylabel="rows", xlim=(0, 1))
        percent(axes.xaxis, 1)
        if len(parts) == 2:
            legend(axes)

    return on_axes(draw, ax)


def set_sizes(sets: Any, truth: Any = None, *, ax: Axes | None = None) -> Figure:
    """How many prediction sets have each size. `sets` [n, C] is true for the members.

    `truth` is the index of the right class [n], or true for each label that holds [n, C]; then sets that hold all that
    is right are told from those that do not.
    """
    members = _members(sets)
    sizes = members.sum(axis=1)
    held = np.ones(len(members), dtype=bool) if truth is None else _held(members, truth)
    at = np.arange(members.shape[1] + 1)

    def draw(axes: Axes) -> None:
        within = np.bincount(sizes[held], minlength=len(at))
        without = np.bincount(sizes[~held], minlength=len(at))
        axes.bar(at, within, color=BLUE, label="holds what is right")
        axes.bar(at, without, bottom=within, color=ORANGE, label="does not")
        shown = np.flatnonzero(within + without)
        axes.set(xlabel="labels in the set", ylabel="rows", xlim=(shown[0] - 0.6, shown[-1] + 0.6))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if truth is not None:
            legend(axes)

    return on_axes(draw, ax)


def _curve(correct: Any, u: Any) -> Points:
    """The risk-coverage curve, thinned."""
    curve = rc_curve(1 - unit_interval("correct", correct), u)
    shown = thinned(len(curve.coverage), POINTS)
    return curve.coverage[shown], curve.risk[shown]


def _members(sets: Any) -> Mask:
    members = np.asarray(sets)
    if members.ndim != 2 or members.size == 0 or not np.isin(members, (0, 1)).all():
        raise InvalidInput("sets is not an array [n, C] of true and false")
    return np.asarray(members == 1)


def _held(members: Mask, truth: Any) -> Mask:
    right = np.asarray(truth)
    same_length(sets=members, truth=right)
    if right.shape == members.shape:
        return np.asarray((members | (right == 0)).all(axis=1))
    if right.ndim != 1 or right.dtype.kind not in "iu" or right.min() < 0 or right.max() >= members.shape[1]:
        raise InvalidInput(f"truth is neither [n, {members.shape[1]}] nor [n], the index of the right class")
    return np.asarray(members[np.arange(len(right)), right])

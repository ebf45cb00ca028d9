"""Curves drawn on axes: reports of audits and notebooks show the same ones."""

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE
from demur.uncertainty.checks import Array

BAND = 0.16
FAINT = 0.75

LEAST_HEIGHT = 0.02
"""Of an axis, also where nothing is wrong."""

Points = tuple[Array, Array]
"""Places along x, and the heights there."""


def draw_risk_coverage(
    axes: Axes,
    coverage: Array,
    risk: Array,
    *,
    label: str,
    interval: Points | None = None,
    naive: Points | None = None,
    perfect: Points | None = None,
    target: float = np.nan,
) -> None:
    """Risk [k] among the surest, against the share that they are [k], the largest share last. `interval` has the lower
    and the upper end [k] at each share; `target` is the risk that is promised, NaN where none is."""
    if interval is not None:
        axes.fill_between(coverage, *interval, color=BLUE, alpha=BAND, linewidth=0)
    if naive is not None:
        axes.plot(*naive, "--", color=GREY, linewidth=1, label="counted plainly")
    axes.axhline(risk[-1], color=GREY, linestyle=":", linewidth=1.2, label="chance")
    if perfect is not None:
        axes.plot(*perfect, color=GREEN, linewidth=1.4, label="perfect score")
    axes.plot(coverage, risk, color=BLUE, linewidth=2, label=label)
    if not np.isnan(target):
        axes.axhline(target, color=ORANGE, linestyle="-.", linewidth=1.2, label="promised at most")


def frame_risk_coverage(axes: Axes, top: float) -> None:
    """Set the ends and the names of the axes of risk and coverage."""
    axes.set(xlim=(0, 1.01), ylim=(0, top * 1.04), ylabel="answers that are wrong", xlabel="share answered")
    percent(axes.xaxis, 1)
    percent(axes.yaxis, top)


def draw_rejection(axes: Axes, held: Array, right: Array, *, label: str, perfect: Points | None) -> None:
    """The share right [k] of what is left, against the share held back [k], least sure first; the smallest share, at
    which nothing is held back, last."""
    axes.fill_between(held, right[-1], right, color=BLUE, alpha=BAND, linewidth=0)
    if perfect is not None:
        axes.plot(*perfect, color=GREEN, linewidth=1.4, label="perfect score")
    axes.plot(held, right, color=BLUE, linewidth=2, label=label)
    axes.axhline(right[-1], color=GREY, linestyle=":", linewidth=1.2, label="chance")


def frame_rejection(axes: Axes, low: float) -> None:
    """Set the ends and the names of the axes of a rejection curve that goes down to `low`."""
    room = max(1 - low, LEAST_HEIGHT)
    axes.set(
        xlim=(0, 1.01),
        ylim=(low - 0.08 * room, 1 + 0.04 * room),
        xlabel="share held back, least sure first",
        ylabel="the rest that is right",
    )
    percent(axes.xaxis, 1)
    percent(axes.yaxis, 1 - low)


def draw_reliability(
    axes: Axes, confidence: Array, right: Array, lower: Array, upper: Array, *, label: str, naive: Points | None = None
) -> None:
    """How often predictions were right [k] at each confidence [k], with intervals; NaN ends: there is none."""
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2, label="means what it says")
    if naive is not None:
        axes.plot(*naive, "x", color=GREY, markersize=5, alpha=FAINT, label="counted plainly")
    axes.plot(confidence, right, color=BLUE, linewidth=1, alpha=0.5)
    bounded = ~np.isnan(lower + upper)
    reach = np.maximum([(right - lower)[bounded], (upper - right)[bounded]], 0)
    style: dict[str, Any] = {"color": BLUE, "markersize": 5, "linewidth": 1.5}
    axes.errorbar(confidence[bounded], right[bounded], yerr=reach, fmt="o", label=label, **style)
    axes.plot(confidence[~bounded], right[~bounded], "o", markerfacecolor="none", **{**style, "linewidth": 0})
    axes.set(ylabel="share right", ylim=(-0.02, 1.03))
    percent(axes.yaxis, 1)


def percent(axis: Any, reach: float, *, ticks: int = 6) -> None:
    """Label an axis that is `reach` long in percent."""
    axis.set_major_locator(mpl.ticker.MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=None if reach < 0.1 else 0))

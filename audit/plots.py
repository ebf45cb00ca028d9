"""The pictures of a report, as SVG text. Colours are of Okabe and Ito's palette, and every line is named on it."""

import io

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from audit.calibration import binned
from audit.findings import Judged
from audit.selective import rc_curve, thinned

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "demur"}


def risk_coverage(rows: Judged, *, max_points: int = 2000) -> str:
    """Risk among the answered against the share answered, if the limit were moved along the confidence."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.subplots()
        wrong = 1 - rows.quality
        for u, colour, name in ((-rows.confidence, BLUE, "confidence"), (wrong, GREY, "a perfect score")):
            curve = rc_curve(wrong, u)
            shown = thinned(len(wrong), max_points)
            axes.plot(curve.coverage[shown], curve.risk[shown], color=colour, label=name, linewidth=1.6)
        axes.axhline(wrong.mean(), color=GREY, linestyle=":", linewidth=1, label="chance")
        if rows.answered.any():
            at = rows.answered.mean(), wrong[rows.answered].mean()
            axes.plot(*at, "o", color=ORANGE, label=f"as decided: {at[0]:.0%} answered, {at[1]:.1%} of them wrong")
        axes.set(
            xlabel="coverage: share of predictions answered",
            ylabel="risk: share of answers wrong",
            xlim=(0, 1.01),
            ylim=(0, None),
        )
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        figure.legend(frameon=False, loc="outside upper left", ncols=2)
        return as_svg(figure)


def reliability(rows: Judged, *, n_bins: int = 10) -> str:
    """How often predictions of each confidence were right, before and after calibration."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1, label="means what it says")
        shown = [(0.2, rows.confidence, BLUE, "o", "after: calibrated confidence")]
        if rows.raw_confidence is not None:
            shown.insert(0, (-0.2, rows.raw_confidence, ORANGE, "s", "before: the model's own probability"))
        for offset, values, colour, marker, name in shown:
            bins = binned(values, rows.quality, n_bins=n_bins)
            full = [b for b in bins if b.count]
            axes.plot(
                [b.confidence for b in full],
                [b.accuracy for b in full],
                marker=marker,
                color=colour,
                markersize=4,
                linewidth=1.2,
                label=name,
            )
            middles = (np.arange(n_bins) + 0.5 + offset) / n_bins
            counts.bar(middles, [b.count for b in bins], width=0.38 / n_bins, color=colour)
        axes.set(ylabel="share right", ylim=(0, 1.03))
        figure.legend(frameon=False, loc="outside upper left")
        counts.set(xlabel="confidence", ylabel="rows", xlim=(0, 1), yscale="log")
        return as_svg(figure)


def as_svg(figure: Figure) -> str:
    """The same bytes for the same picture: no date and no maker is in it."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]

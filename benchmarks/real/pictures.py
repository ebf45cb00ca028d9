"""The pictures of docs/evidence/models.md, as SVG."""

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from benchmarks.real.confidence import CALIBRATORS, calibrated, right
from benchmarks.real.predictions import Predictions
from benchmarks.real.ranking import scores
from benchmarks.real.splits import splits
from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE, STYLE, as_svg
from demur.audit.findings import KnownDecisions
from demur.audit.metrics.calibration import binned
from demur.audit.metrics.selective import rc_curve, thinned

COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
RELIABILITY = "mistral-7b-instruct, MMLU"
RISK = ("mistral-7b, HellaSwag", "Qwen-14B, mean of 4 prompts")


def pictures(read: Sequence[Predictions]) -> dict[str, str]:
    """By name of the file."""
    by_model = {predictions.model: predictions for predictions in read}
    return {
        "evidence-reliability.svg": before_and_after(by_model[RELIABILITY]),
        "evidence-risk-coverage.svg": risk_coverage({model: by_model[model].answered() for model in RISK}),
    }


def before_and_after(predictions: Predictions) -> str:
    """The audit's own reliability picture of the first split, isotonic."""
    part = splits(predictions)[0]
    fit, test = predictions.rows.rows(part.fit), predictions.rows.rows(part.test)
    rows = KnownDecisions(
        quality=right(test),
        answered=np.ones(len(test), dtype=bool),
        confidence=calibrated(CALIBRATORS["isotonic"], fit, test),
        raw_confidence=calibrated(None, fit, test),
        scores={},
    )
    return reliability(rows)


def risk_coverage(models: Mapping[str, Predictions], *, max_points: int = 120) -> str:
    """Share of wrong answers among the surest rows, by each score, of the rows that do not refuse."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 4.2), layout="constrained")
        for axes, (model, predictions) in zip(figure.subplots(1, len(models)), models.items(), strict=True):
            _one_model(axes, predictions, max_points)
            axes.set_title(model, loc="left", fontsize=9)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
        return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _one_model(axes: Axes, predictions: Predictions, max_points: int) -> None:
    wrong = 1 - right(predictions.rows)
    shown = thinned(len(wrong), max_points)
    for colour, (name, (u, _)) in zip(COLOURS, scores(predictions).items(), strict=False):
        curve = rc_curve(wrong, u)
        axes.plot(curve.coverage[shown], curve.risk[shown], color=colour, label=name, linewidth=1.4)
    axes.axhline(wrong.mean(), color=GREY, linestyle=":", linewidth=1, label="chance")
    axes.set(xlabel="coverage: share of predictions answered", ylabel="risk: share of answers wrong", ylim=(0, None))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(frameon=False, fontsize=8)


def reliability(rows: KnownDecisions, *, n_bins: int = 10) -> str:
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

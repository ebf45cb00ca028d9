"""The pictures of docs/evidence.md, as SVG."""

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from audit.findings import Judged
from audit.plots import BLUE, GREEN, GREY, ORANGE, STYLE, reliability
from audit.selective import rc_curve, thinned
from benchmarks.real.confidence import CALIBRATORS, calibrated, right
from benchmarks.real.predictions import Predictions
from benchmarks.real.ranking import scores
from benchmarks.real.splits import splits

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
    rows = Judged(
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

"""The pictures of docs/evidence/sums.md, as SVG."""

import io
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, ScalarFormatter

from benchmarks.language.comparison import quality_of, unfitted
from benchmarks.language.findings import Findings
from benchmarks.real.pictures import COLOURS
from demur.audit.drawing import GREY, STYLE
from demur.audit.metrics.selective import rc_curve, thinned

POINTS = 150
DRAWN = {
    "choice": ("g_nll", "max_neg_logprob", "semantic_entropy", "sample_disagreement"),
    "labels": ("g_nll, whole answer", "g_nll", "semantic_entropy", "combined"),
    "think": ("g_nll, with the trace", "g_nll", "semantic_entropy", "trace_tokens"),
}
"""Scores of the curves, by task."""


def sums_pictures(found: Findings) -> dict[str, str]:
    """By name of the file."""
    return {
        "evidence-sums-tokens.svg": _drawn((7.2, 4.0), lambda figure: _tokens(figure.subplots(), found)),
        "evidence-sums-risk-coverage.svg": _drawn((9.2, 3.6), lambda figure: _curves(figure, found)),
    }


def _drawn(size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    with mpl.rc_context({**STYLE, "svg.hashsalt": "sums"}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
        return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _tokens(axes: Axes, found: Findings) -> None:
    """PRR by what was spent: a square for the one pass, a line for more and more samples."""
    for colour, task in zip(COLOURS, found.collected, strict=False):
        own_cheap = found.collected[task].task.cheap
        cheap = next(line for line in found.lines if line.task == task and line.score == own_cheap)
        axes.plot(cheap.cost.tokens, cheap.metrics["PRR"].mean, "s", color=colour, markersize=7)
        own = [one for one in found.budgets if one.task == task and one.samples > 1]
        axes.plot(
            [one.tokens for one in own],
            [one.metrics["semantic_entropy"].mean for one in own],
            "o-",
            color=colour,
            markersize=4,
            linewidth=1.3,
            label=task,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter("")
    axes.set_xticks([10, 20, 50, 100, 200, 500])
    axes.set(xlabel="tokens of an exercise, prompt and completion", ylabel="PRR", ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8, loc="lower right", title="square: one pass; line: samples")


def _curves(figure: Figure, found: Findings) -> None:
    for axes, (task, names) in zip(figure.subplots(1, len(DRAWN)), DRAWN.items(), strict=True):
        about = found.collected[task]
        wrong = 1 - quality_of(about.task.model().recipe, about.rows)
        values = unfitted(about)
        shown = thinned(len(wrong), POINTS)
        for colour, name in zip(COLOURS, names, strict=False):
            curve = rc_curve(wrong, values[name])
            axes.plot(curve.coverage[shown], curve.risk[shown], color=colour, label=name, linewidth=1.3)
        axes.axhline(wrong.mean(), color=GREY, linestyle=":", linewidth=1)
        axes.set(xlabel="coverage", ylim=(0, 1.45 * wrong.mean()))
        axes.set_title(task, loc="left", fontsize=9)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(frameon=False, fontsize=7, loc="upper left")
    figure.axes[0].set_ylabel("share of the answers wrong")

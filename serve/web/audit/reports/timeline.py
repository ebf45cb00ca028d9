"""The risk of a model over its last reports, as a picture."""

from collections.abc import Sequence
from datetime import UTC

import matplotlib as mpl
import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure as Canvas

from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE, inline_svg
from demur.audit.state.reports import Figure, Report
from demur.serve.web.shared.quantities import figure_in_words, percent

MARKS = {
    "kept": (GREEN, "o"),
    "broken": (ORANGE, "X"),
    "not enough evidence": (BLUE, "^"),
}
"""The colour and the shape of each verdict; grey diamonds for anything else."""


def timeline(reports: Sequence[Report], *, name: str = "timeline") -> str | None:
    """Risk with its interval at the end of each report's range, oldest first; None where fewer than two have one."""
    known = [(report, risk) for report in reports if (risk := risk_of(report)) is not None]
    if len(known) < 2:
        return None
    return inline_svg(name, _words(known), 2.6, lambda canvas: _draw(canvas, known), width=7.2)


def risk_of(report: Report) -> Figure | None:
    """The share of wrong answers, where it is known."""
    risk = report.summary.figure("selective_risk")
    return risk if risk is not None and risk.known else None


def _draw(canvas: Canvas, known: Sequence[tuple[Report, Figure]]) -> None:
    axes = canvas.subplots()
    ends = [report.extent.until for report, _ in known]
    at = [float(date2num(end)) for end in ends]
    for place, (_, risk) in zip(at, known, strict=True):
        if risk.bounded:
            axes.plot([place] * 2, [risk.low, risk.high], color=GREY, linewidth=1.4)
    axes.plot(at, [risk.value for _, risk in known], color=GREY, linewidth=0.8, alpha=0.6)
    for verdict in dict.fromkeys(report.summary.verdict for report, _ in known):
        colour, mark = MARKS.get(verdict, (GREY, "D"))
        chosen = [n for n, (report, _) in enumerate(known) if report.summary.verdict == verdict]
        axes.plot(
            [at[n] for n in chosen],
            [known[n][1].value for n in chosen],
            mark,
            color=colour,
            markersize=6,
            label=verdict,
        )
    promised = np.array([report.summary.max_risk for report, _ in known])
    if not np.isnan(promised).all():
        axes.step(at, promised, where="post", color=ORANGE, linestyle=":", linewidth=1.4, label="promised, at most")
    axes.set(ylabel="wrong answers", ylim=(0, None))
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
    axes.xaxis_date(tz=UTC)
    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    canvas.legend(frameon=False, loc="outside upper left", ncols=4, handlelength=1.2)


def _words(known: Sequence[tuple[Report, Figure]]) -> str:
    first, last = known[0], known[-1]
    worst = max(known, key=lambda pair: pair[1].value)
    promised = last[0].summary.max_risk
    return (
        f"Share of wrong answers over {len(known)} reports: {figure_in_words(first[1])} until"
        f" {first[0].extent.until:%Y-%m-%d}, at most {figure_in_words(worst[1])} until"
        f" {worst[0].extent.until:%Y-%m-%d}, {figure_in_words(last[1])} in the last one"
        + ("" if promised != promised else f"; at most {percent(promised, 1)} is promised")
    )

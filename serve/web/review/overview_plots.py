"""The pictures of the overview."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta

import matplotlib as mpl
import numpy as np
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure

from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE, inline_svg
from demur.audit.opinions import LabelDisagreement, OverturnRate
from demur.review.statistics import BacklogCurve, Flow
from demur.serve.web.shared.quantities import duration, percent

SHOWN = 12
"""Labels, and models, of which there may be very many."""

LONGEST = 18
"""Characters of a name beside a bar."""

MINUTE, HOUR, DAY = 60, 3600, 86400
TICKS = (
    *(1, 5, 20, MINUTE, 5 * MINUTE, 20 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY),
    *(14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plots:
    """Each as SVG; None where there is nothing to draw."""

    backlog: str
    overturned: str | None
    labels: str | None
    waits: str | None


def plots_of(
    backlog: BacklogCurve,
    overturned: Sequence[OverturnRate],
    labels: Sequence[LabelDisagreement],
    flows: Sequence[Flow],
) -> Plots:
    """Draw what there is."""
    known = [row for row in overturned if row.from_confidence is not None]
    named = [row for row in labels if row.apart][:SHOWN]
    timed = [flow for flow in flows if flow.to_first_claim.n or flow.to_resolution.n]
    timed = sorted(timed, key=lambda flow: -flow.arrived)[:SHOWN]
    return Plots(
        backlog=inline_svg("backlog", _backlog_words(backlog), 3.1, lambda figure: _backlog(figure, backlog)),
        overturned=inline_svg("overturned", _overturned_words(known), 3.1, lambda figure: _overturned(figure, known))
        if known
        else None,
        labels=inline_svg(
            "labels", _labels_words(named), 1.0 + 0.27 * len(named), lambda figure: _labels(figure, named)
        )
        if named
        else None,
        waits=inline_svg("waits", _waits_words(timed), 1.2 + 0.42 * len(timed), lambda figure: _waits(figure, timed))
        if timed
        else None,
    )


def _backlog(figure: Figure, curve: BacklogCurve) -> None:
    still, moves = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    still.fill_between(curve.at, curve.open, color=BLUE, alpha=0.15, linewidth=0)
    still.plot(curve.at, curve.open, color=BLUE, linewidth=1.8)
    still.set(ylabel="open cases", ylim=(0, max(1, *curve.open) * 1.08), xlim=(curve.at[0], curve.at[-1]))
    width = curve.at[1] - curve.at[0]
    middles = [at + width / 2 for at in curve.at[:-1]]
    moves.bar(middles, curve.arrived, width=width * 0.8, color=ORANGE, label="came")
    moves.bar(middles, [-n for n in curve.ended], width=width * 0.8, color=GREEN, label="done")
    most = max(1, *curve.arrived, *curve.ended)
    moves.set(ylim=(-most * 1.1, most * 1.1))
    moves.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4, integer=True, symmetric=True))
    moves.yaxis.set_major_formatter(lambda n, _: f"{abs(n):.0f}")
    still.yaxis.set_major_locator(mpl.ticker.MaxNLocator(5, integer=True))
    moves.axhline(0, color=GREY, linewidth=0.8)
    moves.xaxis.set_major_locator(AutoDateLocator(tz=UTC, minticks=3, maxticks=6))
    short = curve.at[-1] - curve.at[0] <= timedelta(days=2)
    moves.xaxis.set_major_formatter(DateFormatter("%H:%M" if short else "%d %b", tz=UTC))
    moves.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 0.97), borderpad=0, handlelength=1)


def _overturned(figure: Figure, rates: Sequence[OverturnRate]) -> None:
    axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    at, share = [1 - rate.expected for rate in rates], np.array([rate.share for rate in rates])
    axes.plot([0, 1], [1, 0], color=GREY, linestyle=":", linewidth=1.2, label="if the confidence means what it says")
    reach = [share - [rate.lower for rate in rates], [rate.upper for rate in rates] - share]
    axes.errorbar(
        at,
        share,
        yerr=np.maximum(reach, 0),
        fmt="o",
        color=BLUE,
        markersize=5,
        linewidth=1.4,
        label="overturned, with 95% interval",
    )
    axes.set(ylabel="overturned", ylim=(-0.02, 1.02), xlim=(0, 1))
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
    edges = [(rate.from_confidence or 0.0, rate.to_confidence or 0.0) for rate in rates]  # known, all of them
    counts.bar(
        [(low + high) / 2 for low, high in edges],
        [rate.n for rate in rates],
        width=[0.85 * (high - low) for low, high in edges],
        color=GREY,
    )
    counts.yaxis.set_major_locator(mpl.ticker.MaxNLocator(2, integer=True))
    counts.set(xlabel="the model's confidence", ylabel="cases")
    counts.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
    figure.legend(frameon=False, loc="outside upper left")


def _labels(figure: Figure, rows: Sequence[LabelDisagreement]) -> None:
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    axes.barh(places, [row.share for row in rows], color=ORANGE, height=0.62)
    for place, row in zip(places, rows, strict=True):
        mixed = f", mostly with {_short(row.mixed_with)}" if row.mixed_with else ""
        axes.annotate(
            f"{percent(row.share)} of {row.pairs}{mixed}",
            (row.share, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(places, [_short(row.label) for row in rows])
    most = max(row.share for row in rows)
    axes.set(xlabel="pairs of opinions that differ", xlim=(0, most * 2.1), ylim=(-0.6, len(rows) - 0.4))
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= max(most, 0.01)])
    axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=None))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _waits(figure: Figure, flows: Sequence[Flow]) -> None:
    axes = figure.subplots()
    places = np.arange(len(flows))[::-1]
    for offset, colour, name, found in (
        (0.16, BLUE, "first claim", [flow.to_first_claim for flow in flows]),
        (-0.16, GREEN, "resolved", [flow.to_resolution for flow in flows]),
    ):
        for place, waits in zip(places, found, strict=True):
            if waits.n:
                low, high = max(waits.median, 0.5), max(waits.p95, 0.5)
                axes.plot([low, high], [place + offset] * 2, color=colour, linewidth=1.6)
                axes.plot(low, place + offset, "o", color=colour, markersize=6)
                axes.plot(high, place + offset, "|", color=colour, markersize=9, markeredgewidth=1.8)
        axes.plot([], [], "o-", color=colour, label=name)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    low, high = min(low, high / 10), max(high, low * 10)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    ticks = ticks[:: 1 + len(ticks) // 7]
    axes.set_xticks(ticks, [duration(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_yticks(places, [_short(flow.model or "") for flow in flows])
    axes.set(xlabel="time since the case came: median to 95%", xlim=(low, high), ylim=(-0.6, len(flows) - 0.4))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    figure.legend(frameon=False, loc="outside upper left", ncols=2)


def _backlog_words(curve: BacklogCurve) -> str:
    return (
        f"Open cases over time: {curve.open[0]} at the start, {curve.open[-1]} at the end, at most {max(curve.open)};"
        f" {sum(curve.arrived)} came and {sum(curve.ended)} were done"
    )


def _overturned_words(rates: Sequence[OverturnRate]) -> str:
    parts = [f"{percent(rate.share)} at about {percent(1 - rate.expected)}" for rate in rates]
    return f"Share of cases in which people overturned the model, by its confidence: {', '.join(parts)}"


def _labels_words(rows: Sequence[LabelDisagreement]) -> str:
    parts = [f"{row.label} {percent(row.share)}" for row in rows]
    return f"Labels on which people differ most: {', '.join(parts)}"


def _waits_words(flows: Sequence[Flow]) -> str:
    parts = [
        f"{flow.model} {duration(flow.to_first_claim.median)} to the first claim,"
        f" {duration(flow.to_resolution.median)} until resolved"
        for flow in flows
    ]
    return f"Median times: {'; '.join(parts)}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"

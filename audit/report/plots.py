"""The pictures of a report, drawn from its document; None where there is nothing to draw."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from demur.audit.axes import (
    BAND,
    LEAST_HEIGHT,
    draw_rejection,
    draw_reliability,
    draw_risk_coverage,
    frame_rejection,
    frame_risk_coverage,
    percent,
)
from demur.audit.drawing import BLUE, GREEN, GREY, ORANGE, Drawing, add_tips
from demur.audit.report.quantities import moment, promised, quantity, told, when
from demur.uncertainty.checks import Array

Rows = Sequence[Mapping[str, Any]]

LONGEST = 18
"""Characters of a name in a picture."""

HOVERED = 40
"""Points of a curve that tell their values."""

SHOWN = 24
"""Scores, of which there may be many."""


def against_target(found: Mapping[str, Any], target: float | None, *, aim: float | None = None) -> Drawing | None:
    """Where the estimate and its interval lie, and what was promised, on one axis. Where nothing was promised, `aim` is
    the share that the policy aims at."""
    value, lower, upper, naive = (_number(found.get(key)) for key in ("value", "lower", "upper", "naive"))
    promise = target is not None
    aimed_at = "promised: at most" if promise else "no promise; aimed at"
    target = target if promise else aim
    line = _number(target)
    ends = [x for x in (value, lower, upper, naive, line) if not np.isnan(x)]
    if not ends:
        return None
    most = max(*ends, 1e-3) * 1.2
    shown = told(found, "share", target=target, least=2)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if not np.isnan(line):
            if promise:
                axes.axvspan(0, line, color=GREEN, alpha=BAND, linewidth=0)
            axes.axvline(line, color=GREEN if promise else GREY, linewidth=2, linestyle="-" if promise else "--")
            left = line > most / 2
            _say(axes, f"{aimed_at} {promised(line)}", (line, 1.16), (-4 if left else 4, 0), left=left)
        if not np.isnan(value):
            if not np.isnan(lower + upper):
                axes.plot([lower, upper], [0.42, 0.42], color=BLUE, linewidth=4, solid_capstyle="butt")
                for end in (lower, upper):
                    axes.plot([end, end], [0.28, 0.56], color=BLUE, linewidth=2)
            (dot,) = axes.plot(value, 0.42, "o", color=BLUE, markersize=9)
            add_tips(dot, [f"found: {shown.value}{f', {shown.interval}' if shown.interval else ''}"])
            left = value > 0.62 * most
            _say(axes, f"found: {shown.value}", (value, 0.8), (6 if left else -6, 0), left=left)
        else:
            room = 0.0 if np.isnan(line) or line > most / 2 else line
            _say(axes, "no number: insufficient evidence", (room, 0.5), (6, 0), left=False)
        if not np.isnan(naive) and (np.isnan(value) or abs(naive - value) > 0.01 * most):
            axes.plot(naive, 0.08, "D", color=GREY, markersize=5, markerfacecolor="none")
            left = naive > most / 2
            _say(axes, "counted plainly", (naive, 0.08), (-6 if left else 6, 0), left=left, size=9)
        axes.set(xlim=(0, most), ylim=(-0.1, 1.32), yticks=[])
        axes.spines["left"].set_visible(False)
        percent(axes.xaxis, most)

    aimed = f"{aimed_at} {promised(line)}" if not np.isnan(line) else "nothing was promised"
    found_words = f"found: {shown.value}, {shown.interval}" if shown.value else shown.lack
    return Drawing(
        name="target", title="The promise and what was found", height=1.35, draw=draw, words=f"{aimed}; {found_words}"
    )


def risk_coverage(document: Mapping[str, Any], target: float | None) -> Drawing | None:
    """Risk among the answered against the share answered, if the limit were moved along the confidence."""
    curves = document.get("risk_coverage") or {}
    points: Rows = curves.get("points") or []
    if not points:
        return None
    coverage, risk, lower, upper = (_column(points, key) for key in ("coverage", "risk", "lower", "upper"))
    naive, perfect = curves.get("naive") or [], curves.get("perfect") or []
    answered, wrong = (_found(document, name) for name in ("coverage", "selective_risk"))
    at, here = _number(answered.get("value")), _number(wrong.get("value"))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        draw_risk_coverage(
            axes,
            coverage,
            risk,
            label="corrected, with interval",
            interval=(lower, upper),
            naive=(_column(naive, "coverage"), _column(naive, "risk")) if naive else None,
            perfect=(_column(perfect, "coverage"), _column(perfect, "risk")) if perfect else None,
            target=_number(target),
        )
        if not np.isnan(at + here):
            reach = [[here - _number(wrong.get("lower"))], [_number(wrong.get("upper")) - here]]
            if not np.isnan(reach).any():
                axes.errorbar([at], [here], yerr=np.maximum(reach, 0), color=ORANGE, linewidth=1.8, capsize=4)
            axes.plot(at, here, "o", color=ORANGE, markersize=7, label="as decided")
        top = (
            np.nanmax([risk[-1] * 1.25, *risk, _number(target), *_column(naive, "risk")[len(naive) // 10 :]])
            or LEAST_HEIGHT
        )
        _hover(
            axes,
            coverage,
            risk,
            [f"answering {_share(x)}: {_share(y)} wrong" for x, y in zip(coverage, risk, strict=True)],
        )
        frame_risk_coverage(axes, top)
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2)

    steps = [int(np.argmin(np.abs(coverage - share))) for share in (0.25, 0.5, 0.75, 1.0)]
    words = "; ".join(f"answering {_share(coverage[i])}, {_share(risk[i])} are wrong" for i in steps)
    return Drawing(name="risk-coverage", title="Risk against the share answered", height=3.7, draw=draw, words=words)


def rejection(document: Mapping[str, Any]) -> Drawing | None:
    """What holding back the least sure brings, beside a perfect score and chance: PRR is a ratio of two areas."""
    curves = document.get("risk_coverage") or {}
    points, perfect = curves.get("points") or [], curves.get("perfect") or []
    if not points or not perfect:
        return None
    held, right = 1 - _column(points, "coverage"), 1 - _column(points, "risk")
    best_held, best = 1 - _column(perfect, "coverage"), 1 - _column(perfect, "risk")
    if np.isnan(right).all():
        return None
    ratio = told(_found(document, "prr", "confidence"), "number")

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        draw_rejection(axes, held, right, label="confidence", perfect=(best_held, best))
        _hover(
            axes, held, right, [f"{_share(x)} held back: {_share(y)} right" for x, y in zip(held, right, strict=True)]
        )
        frame_rejection(axes, float(np.nanmin(right)))
        figure.legend(loc="outside upper left", ncols=3, handlelength=1.6, columnspacing=1.2)

    words = f"PRR of the confidence: {ratio.value or ratio.lack}; the area above chance as a share of a perfect score's"
    return Drawing(
        name="rejection", title="What holding back the least sure brings", height=3.1, draw=draw, words=words
    )


def reliability(rows: Rows, name: str, title: str) -> Drawing | None:
    """How often predictions of each confidence were right, and how many of them there are."""
    known = [row for row in rows or [] if row.get("right") is not None and row.get("confidence") is not None]
    if not known:
        return None

    def draw(figure: Figure) -> None:
        axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.2])
        plain = [row for row in known if row.get("naive") is not None]
        at = [(_number(row.get("from")) + _number(row.get("to"))) / 2 for row in plain]
        draw_reliability(
            axes,
            *(_column(known, key) for key in ("confidence", "right", "lower", "upper")),
            label="corrected",
            naive=(np.array(at), _column(plain, "naive")),
        )
        _hover(
            axes,
            _column(known, "confidence"),
            _column(known, "right"),
            [
                f"confidence {_share(_number(row['confidence']))}: {_share(_number(row['right']))} right,"
                f" {row.get('labelled')} labels"
                for row in known
            ],
        )
        middles = [(_number(row.get("from")) + _number(row.get("to"))) / 2 for row in rows]
        width = 0.8 / max(1, len(rows))
        for key, colour in (("n", GREY), ("labelled", BLUE)):
            counts.bar(middles, np.nan_to_num(_column(rows, key)), width=width, color=colour, label=_COUNTED[key])
            width *= 0.5
        most = np.nanmax(_column(rows, "n"))
        counts.set(xlabel="confidence", ylabel="how many", xlim=(0, 1), yscale="log", ylim=(0.7, max(10, most * 2)))
        counts.yaxis.set_major_locator(mpl.ticker.LogLocator(numticks=4))
        counts.yaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        counts.yaxis.set_minor_locator(mpl.ticker.NullLocator())
        percent(counts.xaxis, 1)
        handles, labels = (a + b for a, b in zip(*(x.get_legend_handles_labels() for x in (axes, counts)), strict=True))
        figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1.4, columnspacing=1.2)

    words = "; ".join(
        f"at {_share(row['confidence'])} confidence, {_share(row['right'])} right ({row.get('labelled')} labels)"
        for row in known
    )
    return Drawing(name=name, title=title, height=4.0, draw=draw, words=words)


_COUNTED = {"n": "all rows", "labelled": "labelled"}


def scores(document: Mapping[str, Any]) -> Drawing | None:
    """How well each score ranks errors, with intervals, best first."""
    order = [str(row.get("score")) for row in (document.get("scores") or {}).get("best_first") or []][:SHOWN]
    drawn = [
        (metric, words, [_found(document, metric, name) for name in order])
        for metric, words in (("auroc", "AUROC"), ("prr", "PRR"))
    ]
    drawn = [entry for entry in drawn if any(one.get("value") is not None for one in entry[2])]
    if not order or not drawn:
        return None

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(drawn), sharey=True, squeeze=False)[0]
        places = np.arange(len(order))[::-1]
        for axes, (metric, words, found) in zip(panels, drawn, strict=True):
            value, lower, upper, naive = (_column(found, key) for key in ("value", "lower", "upper", "naive"))
            axes.axvline(0.5 if metric == "auroc" else 0, color=GREY, linestyle=":", linewidth=1.2)
            axes.plot(naive, places, "D", color=GREY, markersize=4, markerfacecolor="none", label="counted plainly")
            reach = np.maximum([value - lower, upper - value], 0)
            axes.errorbar(
                value, places, xerr=reach, fmt="o", color=BLUE, markersize=6, linewidth=1.6, label="corrected"
            )
            _hover(
                axes,
                value,
                places.astype(np.float64),
                [f"{name}: {words} {_plain(one)}" for name, one in zip(order, value, strict=True)],
            )
            for place, one in zip(places, value, strict=True):
                if np.isnan(one):
                    _say(axes, "insufficient", (0.5 if metric == "auroc" else 0, place), (4, 0), left=False, size=9)
            axes.set(xlabel=words, ylim=(-0.6, len(order) - 0.4))
            axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(3, steps=[1, 2, 5, 10]))
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        panels[0].set_yticks(places, [_short(name) for name in order])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside upper left", ncols=2, handlelength=1.4)

    words = "; ".join(
        f"{name}: " + ", ".join(f"{metric} {_plain(found[at].get('value'))}" for metric, _, found in drawn)
        for at, name in enumerate(order)
    )
    return Drawing(
        name="scores", title="How well each score ranks errors", height=1.25 + 0.3 * len(order), draw=draw, words=words
    )


def time_lines(document: Mapping[str, Any], target: float | None) -> Drawing | None:
    """Risk, the share answered and the share of labels that have come, by window; and when artifacts changed."""
    over_time: Mapping[str, Any] = next(
        (one for one in document.get("breakdowns") or [] if one.get("by") == "time"), {}
    )
    cells: Rows = [cell for cell in over_time.get("cells") or [] if moment(cell.get("name")) is not None]
    if not cells:
        return None
    starts = [moment(cell["name"]) or datetime.fromtimestamp(0, UTC) for cell in cells]
    gaps = [(b - a).total_seconds() for a, b in pairwise(starts)]
    width = timedelta(seconds=float(over_time.get("width_seconds") or min(gaps, default=86400.0)))
    middles = np.array([date2num(start + width / 2) for start in starts])
    whole = bool((document.get("labels") or {}).get("all_known"))
    changes = [
        (date, str(one.get("artifact")))
        for one in ((document.get("records") or {}).get("in_force") or [])[1:]
        if (date := moment(one.get("first"))) is not None
    ]

    def draw(figure: Figure) -> None:
        risk, answered, labels = figure.subplots(3, 1, sharex=True, height_ratios=[3, 1.5, 1.5])
        step = date2num(starts[0] + width) - date2num(starts[0])
        top = 0.0
        for key, colour, marker, words, shift in (
            ("risk", BLUE, "s", "all predictions", -0.12),
            ("selective_risk", ORANGE, "o", "answers", 0.12),
        ):
            rows = [cell.get(key) or {} for cell in cells]
            value, lower, upper = (_column(rows, part) for part in ("value", "lower", "upper"))
            beside = shift * min(step, 0.1 * len(cells) * step)  # so that two intervals do not lie on each other
            at, known, bounded = middles + beside, ~np.isnan(value), ~np.isnan(value + lower + upper)
            reach = np.maximum([(value - lower)[bounded], (upper - value)[bounded]], 0)
            risk.errorbar(at[bounded], value[bounded], yerr=reach, fmt="none", color=colour, linewidth=1.3)
            (dots,) = risk.plot(
                at[known], value[known], marker, color=colour, markersize=4.5, label=f"wrong, of {words}"
            )
            whens = [cell.get("name") for cell in np.array(cells, dtype=object)[known]]
            add_tips(
                dots,
                [
                    f"from {when(start)}: {_share(share)} wrong, of {words}"
                    for start, share in zip(whens, value[known], strict=True)
                ],
            )
            if not known.all():  # a line without points has an extent that the layout cannot use
                risk.plot(at[~known], np.zeros(int((~known).sum())), "x", color=colour, markersize=4, clip_on=False)
            top = max(top, *np.nan_to_num(upper), *np.nan_to_num(value))
        risk.plot([], [], "x", color=GREY, markersize=4, label="insufficient evidence")
        if not np.isnan(_number(target)):
            risk.axhline(_number(target), color=ORANGE, linestyle="-.", linewidth=1.2, label="promised at most")
            top = max(top, 1.3 * _number(target))
        risk.set(ylabel="wrong", ylim=(0, min(1.02, (top or 1) * 1.08)))
        answered.plot(middles, _column(cells, "coverage"), "o-", color=BLUE, markersize=3.5, linewidth=1.2)
        answered.set(ylabel="answered", ylim=(0, 1.04))
        done, of = _column(cells, "reviewed"), _column(cells, "drawn")
        if whole:
            done, of = _column([cell.get("risk") or {} for cell in cells], "labelled"), _column(cells, "n")
        share = np.divide(done, of, out=np.full(len(cells), np.nan), where=of > 0)
        labels.plot(middles, share, "o-", color=GREEN, markersize=3.5, linewidth=1.2)
        labels.set(
            ylabel="labelled" if whole else "reviewed",
            ylim=(0, 1.04),
            xlim=(date2num(starts[0]), date2num(starts[-1] + width)),
        )
        for date, name in changes:
            for axes in (risk, answered, labels):
                axes.axvline(date2num(date), color=GREY, linestyle="--", linewidth=1)
            if len(changes) <= 4:
                _say(risk, _short(name), (date2num(date), risk.get_ylim()[1]), (3, -5), left=False, size=9)
        percent(risk.yaxis, top)
        for axes in (answered, labels):
            percent(axes.yaxis, 1, ticks=2)
        locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=6)
        labels.xaxis.set_major_locator(locator)
        labels.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.6, columnspacing=1.2)

    known = sum((cell.get("selective_risk") or {}).get("value") is not None for cell in cells)
    words = f"{len(cells)} windows; of {known} the risk among the answers is known; {len(changes)} changes of artifact"
    return Drawing(name="time", title="Risk, share answered and labels over time", height=4.6, draw=draw, words=words)


def _found(document: Mapping[str, Any], name: str, of: str = "") -> Mapping[str, Any]:
    rows: Iterable[Mapping[str, Any]] = document.get("estimates") or []
    return next((row for row in rows if row.get("name") == name and (row.get("of") or "") == of), {})


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _column(rows: Rows, key: str) -> Array:
    return np.array([_number(row.get(key)) for row in rows], dtype=np.float64)


def _say(
    axes: Axes, text: str, at: tuple[float, float], by: tuple[float, float], *, left: bool, size: int = 10
) -> None:
    side = "right" if left else "left"
    text_of = axes.annotate(text, at, xytext=by, textcoords="offset points", ha=side, va="center", fontsize=size)
    text_of.set_in_layout(False)  # it may reach over the edge of the axes, which are not to shrink for it


def _hover(axes: Axes, x: Array, y: Array, texts: Sequence[str]) -> None:
    """Let a pointer find what is drawn at these points: at some of them, where there are many."""
    known = np.flatnonzero(~np.isnan(np.asarray(x, dtype=np.float64) + y))
    if not len(known):
        return
    chosen = np.unique(known[np.linspace(0, len(known) - 1, min(len(known), HOVERED)).round().astype(np.intp)])
    (points,) = axes.plot(np.asarray(x)[chosen], y[chosen], "o", color=BLUE, markersize=9, alpha=0)
    add_tips(points, [texts[at] for at in chosen])


def _share(value: float) -> str:
    return quantity(float(value), "share")


def _plain(value: Any) -> str:
    return "insufficient evidence" if np.isnan(_number(value)) else quantity(_number(value), "number")


def _short(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"

"""The picture of a control: its value over time, and how the average comes to its target."""

from collections.abc import Sequence
from datetime import UTC, timedelta

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure

from demur.audit.drawing import BLUE, GREEN, GREY, inline_svg
from demur.audit.state.control_states import Point
from demur.serve.web.audit.control.view import ControlPanel

WIDTH = 5.2


def control_plot(name: str, shown: ControlPanel) -> str | None:
    """Draw a control as SVG; None where there is nothing to draw. `name` is unique on its page."""
    histories = [points for points in shown.histories if len(points) > 1]
    if not histories:
        return None
    last = histories[0][-1]
    words = f"{shown.value} over time, now {last.value:.3g}"
    if last.average is not None:
        words += f"; the average of {shown.averaged}, now {last.average:.2%}, and its target, {shown.view.target:.2%}"
    return inline_svg(name, words, 3.4, lambda figure: _draw(figure, shown, histories), width=WIDTH)


def _draw(figure: Figure, shown: ControlPanel, histories: Sequence[Sequence[Point]]) -> None:
    value, average = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    for place, points in enumerate(histories):
        style = {"color": BLUE, "linewidth": 1.6, "alpha": 1.0 if place == 0 else 0.4}
        value.plot([p.at for p in points], [p.value for p in points], **style)
        known = [(p.at, p.average) for p in points if p.average is not None]
        if known:
            average.plot(*zip(*known, strict=True), color=GREEN, linewidth=1.6, alpha=style["alpha"])
    average.set_ylim(0, _highest(shown.view.target, histories))
    average.axhline(shown.view.target, color=GREY, linestyle=":", linewidth=1.4)
    value.set_ylabel(shown.value.lower().replace(" of ", " of\n", 1).replace(" on ", " on\n", 1))
    average.set_ylabel("average,\ntarget dotted")
    average.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
    average.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
    average.xaxis.set_major_locator(AutoDateLocator(tz=UTC, minticks=3, maxticks=6))
    whole = max(points[-1].at for points in histories) - min(points[0].at for points in histories)
    clock = "%H:%M:%S" if whole < timedelta(minutes=10) else "%H:%M" if whole <= timedelta(days=2) else "%d %b"
    average.xaxis.set_major_formatter(DateFormatter(clock, tz=UTC))


def _highest(target: float, histories: Sequence[Sequence[Point]]) -> float:
    """Where the axis of averages ends: the first of them, over few predictions, may leave it."""
    later = [p.average for points in histories for p in points[len(points) // 5 :] if p.average is not None]
    return max(1.6 * target, 1.2 * max(later, default=0.0), 0.001)

"""The pictures of the monitors, as small SVG that takes its colours from the page: by day, by night, on paper."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, isfinite, log

from demur.audit.monitors.path import Path
from demur.audit.monitors.risk import RiskState
from demur.audit.monitors.traffic import TrafficState
from demur.audit.monitors.wording import percent

WIDTH, HEIGHT = 340, 170
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 14, 34

Points = Sequence[tuple[float, float]]


def wealth_picture(state: RiskState, id: str) -> str:
    """The evidence against the promise after each checked answer, and the line at which there is an alarm."""
    if state.bets is None or not state.n_labelled:
        return ""
    line = [(0.0, 0.0), *_column(state.path, 0), (float(state.n_labelled), state.bets.log_wealth)]
    words = (
        f"Evidence against the promise after {state.n_labelled:,} checked answers: {_times(state.bets.log_wealth)},"
        f" at its highest {_times(state.bets.highest)}; an alarm takes {_times(-log(state.settings.delta))}"
    )
    return _evidence(id, words, line, -log(state.settings.delta), "checked answers")


def change_picture(state: TrafficState, id: str) -> str:
    """The evidence that confidences no longer come as they came, and the line at which there is an alarm."""
    if state.jumper is None or not state.jumper.n:
        return ""
    jumper = state.jumper
    line = [(0.0, 0.0), *_column(jumper.path, 0), (float(jumper.n), jumper.log_wealth)]
    words = (
        f"Evidence of a change after {jumper.n:,} records: {_times(jumper.log_wealth)}, at its highest"
        f" {_times(jumper.highest)}; an alarm takes {_times(-log(jumper.delta))}"
    )
    return _evidence(id, words, line, -log(jumper.delta), "records since the reference")


def interval_picture(state: RiskState, id: str) -> str:
    """The interval for a steady risk after each checked answer, and what was promised."""
    if not state.n_labelled:
        return ""
    n, target = float(state.n_labelled), state.settings.target
    low = [*_column(state.path, 1), (n, state.lower)]
    high = [*_column(state.path, 2), (n, state.upper)]
    settled = [value for at, value in high if at >= n / 5] or [state.upper]
    top = min(1.0, 1.15 * max(*settled, state.lower, target or 0.0, 0.02))
    axes = _Axes(right=n, low=0.0, high=top)
    band = [*low, *reversed(high)]
    marks = [axes.area(band, "band"), axes.line(low, "edge"), axes.line(high, "edge")]
    if target is not None:
        marks.append(axes.level(target, f"promised: at most {percent(target)}"))
    words = (
        f"Interval for a steady risk after {state.n_labelled:,} checked answers: {percent(state.lower)} to"
        f" {percent(state.upper)}" + ("" if target is None else f"; at most {percent(target)} was promised")
    )
    ticks = [(top * part, percent(round(top * part, 4))) for part in (0, 0.5, 1)]
    return axes.svg(id, words, marks, ticks, "checked answers")


class _Axes:
    """A plane of numbers, drawn from `low` to `high` upwards and from 0 to `right`."""

    def __init__(self, *, right: float, low: float, high: float) -> None:
        self._right, self._low, self._high = max(right, 1.0), low, high

    def line(self, points: Points, kind: str) -> str:
        return f'<polyline class="{kind}" points="{self._at(points)}"/>'

    def area(self, points: Points, kind: str) -> str:
        return f'<polygon class="{kind}" points="{self._at(points)}"/>'

    def level(self, value: float, words: str) -> str:
        y = self._y(value)
        above = y > TOP + 14
        return (
            f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="of-level" x="{WIDTH - RIGHT}" y="{y - 4 if above else y + 12:.1f}" text-anchor="end">'
            f"{escape(words)}</text>"
        )

    def svg(self, id: str, words: str, marks: Sequence[str], ticks: Sequence[tuple[float, str]], below: str) -> str:
        name = f"{escape(id, quote=True)}-title"
        labels = "".join(
            f'<line class="tick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self._y(at):.1f}" y2="{self._y(at):.1f}"/>'
            f'<text x="{LEFT - 5}" y="{self._y(at) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
            for at, text in ticks
        )
        foot = HEIGHT - BOTTOM + 14
        ends = (
            f'<text x="{LEFT}" y="{foot}">0</text>'
            f'<text x="{WIDTH - RIGHT}" y="{foot}" text-anchor="end">{self._right:,.0f}</text>'
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{foot + 14}" text-anchor="middle">{escape(below)}</text>'
        )
        return (
            f'<svg class="monitor" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}">'
            f'<title id="{name}">{escape(words)}</title>{labels}{ends}{"".join(marks)}</svg>'
        )

    def _at(self, points: Points) -> str:
        return " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points if isfinite(y))

    def _x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self._right

    def _y(self, value: float) -> float:
        inside = min(max(value, self._low), self._high)
        return TOP + (HEIGHT - TOP - BOTTOM) * (self._high - inside) / (self._high - self._low)


def _evidence(id: str, words: str, line: Points, alarm: float, below: str) -> str:
    known = [y for _, y in line if isfinite(y)]
    low, high = floor(min(known) / log(10)), ceil(max(alarm * 1.15, *known) / log(10))
    axes = _Axes(right=line[-1][0], low=low * log(10), high=high * log(10))
    step = max(1, ceil((high - low) / 4))
    ticks = [(power * log(10), _power(power)) for power in range(low, high + 1, step)]
    return axes.svg(id, words, [axes.level(alarm, f"alarm at {_times(alarm)}"), axes.line(line, "path")], ticks, below)


def _column(path: Path, at: int) -> list[tuple[float, float]]:
    return [(float(step), values[at]) for step, values in zip(path.steps, path.values, strict=True)]


def _times(log_wealth: float) -> str:
    """A wealth as a number, or as a power of ten where it has many digits."""
    power = log_wealth / log(10)
    return f"{10**power:.3g}" if -3 <= power <= 6 else f"10^{power:.0f}"


def _power(power: int) -> str:
    return f"{10**power:,}" if 0 <= power <= 4 else f"10^{power}"

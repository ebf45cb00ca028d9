"""The decisions of a day as a line of bars, one for each hour."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from demur.traffic.decision_counts import DecisionCounts

WIDTH, HEIGHT, GAP = 240, 40, 2


def hours_line(hours: Sequence[DecisionCounts]) -> Markup:
    """Draw a bar for each hour, the oldest first: what was answered below, what was held above. Empty without any."""
    most = max((hour.all for hour in hours), default=0)
    if most == 0:
        return Markup()
    step = WIDTH / len(hours)
    bars = []
    for place, hour in enumerate(hours):
        answered, all_of_it = HEIGHT * hour.answered / most, HEIGHT * hour.all / most
        x, width = place * step, step - GAP
        bars.append(_bar("answered", x, HEIGHT - answered, width, answered))
        bars.append(_bar("held", x, HEIGHT - all_of_it, width, all_of_it - answered))
    answered, every = sum(hour.answered for hour in hours), sum(hour.all for hour in hours)
    told = escape(
        f"{every:,} predictions in the last {len(hours)} hours, {answered:,} of them answered;"
        f" at most {most:,} in an hour"
    )
    axis = f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
    return Markup(  # noqa: S704 - numbers of ours, and a text that is escaped
        f'<svg class="hours" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{told}">'
        f"<title>{told}</title>{''.join(bars)}{axis}</svg>"
    )


def _bar(kind: str, x: float, y: float, width: float, height: float) -> str:
    if height <= 0:
        return ""
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'

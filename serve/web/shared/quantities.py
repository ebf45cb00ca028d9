"""Quantities in words, as the pages show them. What is not known is a dash."""

from datetime import datetime
from math import isnan

from demur.audit.state.reports import Figure

UNKNOWN = "–"


def duration(seconds: float) -> str:
    """In the largest unit that says something, with a digit after the point where there is one before it alone."""
    if isnan(seconds):
        return UNKNOWN
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{_brief(seconds / size)} {unit}"
    return f"{_brief(seconds) if seconds < 1 else round(seconds)} s"


def percent(share: float, digits: int = 0) -> str:
    return UNKNOWN if isnan(share) else f"{share:.{digits}%}"


def figure_in_words(figure: Figure) -> str:
    """The value of a headline number: a share in percent, anything else with three digits after the point."""
    return _of(figure, figure.value)


def interval_in_words(figure: Figure) -> str:
    """From where to where the truth lies, by 95% intervals; a dash where there is no interval."""
    return f"{_of(figure, figure.low)} to {_of(figure, figure.high)}" if figure.bounded else UNKNOWN


def points(difference: float) -> str:
    """A difference of shares, in percentage points."""
    return UNKNOWN if isnan(difference) else f"{100 * difference:+.2f} points"


def number(difference: float) -> str:
    return UNKNOWN if isnan(difference) else f"{difference:+.3f}"


def date(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


def _of(figure: Figure, number: float) -> str:
    if isnan(number):
        return UNKNOWN
    return percent(number, 2 if abs(number) < 0.1 else 1) if figure.share else f"{number:.3f}"


def _brief(number: float) -> str:
    return f"{number:.0f}" if number >= 9.95 else f"{number:.1f}".removesuffix(".0")

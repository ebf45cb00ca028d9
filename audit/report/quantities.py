"""Numbers of a report in words: with as many digits as their interval carries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10
from typing import Any

MINUS = "\N{MINUS SIGN}"

MOST_DIGITS = 4

WORDS = {
    "none": "no label that was drawn",
    "insufficient": "too few labels",
    "refused": "people were asked, and nothing is reviewed yet",
}
"""Why there is no number."""

METHODS = {
    "exact": "exact",
    "bootstrap": "bootstrap",
    "sequence": "betting",
    "normal": "normal",
}


@dataclass(frozen=True, kw_only=True)
class FigureTexts:
    """An estimate as texts; empty where there is nothing to tell."""

    value: str = ""
    interval: str = ""
    naive: str = ""
    lack: str = ""
    """Why there is no value, or no interval."""


def told(found: Any, unit: str, *, target: Any = None, least: int | None = None) -> FigureTexts:
    """`found` has `value`, `lower`, `upper`, `naive`, `labelled` and `evidence`, some or none of them. All are told
    with the same digits, and with so many that none seems to be the target when it is not."""
    if not isinstance(found, Mapping):
        return FigureTexts(lack="not in this document")
    value, lower, upper, naive = (known(found.get(key)) for key in ("value", "lower", "upper", "naive"))
    aim = known(target)
    ends = [x for x in (value, lower, upper) if x is not None]
    width = upper - lower if upper is not None and lower is not None else None
    digits = max(_digits(value if value is not None else naive, width, unit), least or 0)
    while aim is not None and digits < MOST_DIGITS and any(_alike(x, aim, digits, unit) for x in ends):
        digits += 1
    interval = ""
    if width is not None and lower is not None and upper is not None:
        interval = f"{quantity(lower, unit, digits)} to {quantity(upper, unit, digits)}"
    return FigureTexts(
        value="" if value is None else quantity(value, unit, digits),
        interval=interval,
        naive="" if naive is None else quantity(naive, unit, digits),
        lack=_lack(found, value, interval),
    )


def _lack(found: Mapping[str, Any], value: float | None, interval: str) -> str:
    evidence, labels = found.get("evidence"), found.get("labelled")
    have = f" ({count(labels)} label{'' if labels == 1 else 's'})" if known(labels) is not None else ""
    if value is None:
        if evidence in WORDS:
            return f"insufficient evidence: {WORDS[evidence]}{have if evidence != 'none' else ''}"
        return "undefined here" if evidence else "not in this document"
    if not interval and isinstance(note := found.get("note"), str) and note:
        return note
    if not interval and evidence == "exact_only":
        return "no interval: too few errors, or too few others"
    return ""


def quantity(value: float, unit: str, digits: int | None = None) -> str:
    if not isfinite(value):
        return "–"
    digits = _digits(value, None, unit) if digits is None else digits
    text = f"{100 * value:,.{digits}f}%" if unit == "share" else f"{value:,.{digits}f}"
    if float(text.rstrip("%").replace(",", "")) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def _digits(value: float | None, width: float | None, unit: str) -> int:
    """After the point: two that say something of the interval, else of a small number."""
    scale = 100 if unit == "share" else 1
    least = 1 if unit == "share" else 3 if width is None else 2
    size = abs(value or 0) * scale
    if width:
        return min(MOST_DIGITS, max(least, 1 - floor(log10(width * scale))))
    near = min(size, 100 - size) if unit == "share" and size < 100 else size
    return least if near == 0 or near >= 0.1 else min(MOST_DIGITS, max(least, 1 - floor(log10(near))))


def _alike(a: float, b: float, digits: int, unit: str) -> bool:
    return a != b and quantity(a, unit, digits) == quantity(b, unit, digits)


def known(value: Any) -> float | None:
    """The number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def count(value: Any) -> str:
    number = known(value)
    return "–" if number is None else f"{number:,.0f}"


def percent(value: Any) -> str:
    number = known(value)
    return "–" if number is None else quantity(number, "share")


def promised(value: Any) -> str:
    """Write a promised value as somebody wrote it down: 8%, and not 8.0%."""
    number = known(value)
    return "–" if number is None else f"{100 * number:g}%"


def moment(text: Any) -> datetime | None:
    """From ISO 8601; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def when(text: Any) -> str:
    """Write a time as people do, to the minute."""
    at = moment(text)
    return "an unknown moment" if at is None else f"{at.day} {at:%b %Y, %H:%M} UTC"


def span(since: Any, until: Any) -> str:
    """How long it is between two moments, in words."""
    a, b = moment(since), moment(until)
    if a is None or b is None:
        return ""
    hours = (b - a).total_seconds() / 3600
    number, unit = (hours / 24, "day") if hours >= 48 else (hours, "hour") if hours >= 2 else (hours * 60, "minute")
    text = f"{number:,.1f}".removesuffix(".0")
    return f"{text} {unit}{'' if text == '1' else 's'}"


def place(value: Any, most: float) -> str:
    """Where a number lies between 0 and the most, for a drawing: a percentage of its width."""
    number = known(value)
    return "0" if number is None or most <= 0 else f"{100 * min(1.0, max(0.0, number / most)):.2f}"


def round_above(value: float) -> float:
    """The next number above, of those with which an axis may end."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return min(
        1.0, next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if ceil(value / power * 1e9) <= step * 1e9)
    )

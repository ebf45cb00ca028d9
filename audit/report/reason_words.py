"""Why an audit found what it found, in sentences: from the numbers of its document."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demur.audit.report.glossary import metric
from demur.audit.report.quantities import MINUS, count, known, percent, quantity, when

PART_NAMES: Mapping[str, str] = {
    "group": "group",
    "predicted label": "predicted label",
    "time": "from",
    "artifact": "artifact",
}
"""How a part is called before its name."""

MISSED: Mapping[str, tuple[str, str]] = {
    "answers": ("answers", "of the answers are wrong"),
    "sets": ("sets", "of the sets lack something right"),
}
"""By subject: what is counted, and what is said of a share of it."""

COMPARED: Mapping[str, str] = {
    "promised": "more than promised",
    "aimed at": "more than the policy aims at",
    "average": "more than if it were like the rest",
}

LEAST_SHIFT = 0.02
"""Changes of the share answered that are told of: 2 points, and beyond chance."""


@dataclass(frozen=True, kw_only=True)
class PartWords:
    """One part that carries more misses than the others."""

    kind: str
    """How records are sorted, as documents name it."""

    by: str
    """The word for it that stands before the name of a part."""

    key: str
    """The name of the part as records have it."""

    name: str
    found: str
    excess: str
    sure: bool


def parts_in_words(document: Mapping[str, Any]) -> list[PartWords]:
    """Return the parts that carry the excess: those beyond chance, or, where there are none, the worst three."""
    why = _why(document)
    level = why.get("level") or {}
    rows = [one for one in why.get("contributors") or [] if isinstance(one, Mapping)]
    sure = [one for one in rows if one.get("sure")]
    return [_part(one, level) for one in (sure or rows[:3])]


def _part(one: Mapping[str, Any], level: Mapping[str, Any]) -> PartWords:
    by, key = str(one.get("by") or ""), str(one.get("name") or "")
    counted, missed = MISSED.get(str(level.get("about")), MISSED["answers"])
    name = when(key) if by == "time" else key
    interval = _interval(one, "lower", "upper", percent)
    of = f"{count(one.get('n'))} {counted}"
    found = f"{percent(one.get('value'))} {missed} ({f'{interval}; ' if interval else ''}{of})"
    excess = f"about {_whole(one.get('excess'))} {COMPARED.get(str(level.get('kind')), 'more than the rest')}"
    reach = _interval(one, "excess_lower", "excess_upper", _whole)
    return PartWords(
        kind=by,
        by=PART_NAMES.get(by, by),
        key=key,
        name=name,
        found=found,
        excess=f"{excess} ({reach})" if reach else excess,
        sure=bool(one.get("sure")),
    )


def heads_of_parts(document: Mapping[str, Any]) -> str:
    """Return the sentence above the parts; empty where nothing was looked at."""
    why, verdict = _why(document), (document.get("headline") or {}).get("verdict")
    rows = why.get("contributors") or []
    looked_at = known(why.get("parts_looked_at")) or 0
    if not looked_at:
        return ""
    among = f"{count(looked_at)} parts (groups, predicted labels, times, artifacts)"
    if any(isinstance(one, Mapping) and one.get("sure") for one in rows):
        return f"Worse than the rest by more than chance, of {among} that were looked at:"
    if verdict == "broken":
        spread = "The excess is spread: no part is worse than the rest by more than chance"
    else:
        spread = "No part is worse than the rest by more than chance"
    return f"{spread}, of {among}.{' The worst:' if rows else ''}"


def changes_in_words(document: Mapping[str, Any]) -> list[str]:
    """Return what changed: since the fit, and over the range."""
    drift = _why(document).get("drift") or {}
    risk = next((one for one in _rows(document.get("estimates")) if one.get("name") == "selective_risk"), {})
    return [*_surprise(drift, risk), *_over_time(drift)]


def _surprise(drift: Mapping[str, Any], risk: Mapping[str, Any]) -> Iterator[str]:
    expected, found = percent(drift.get("expected")), percent(risk.get("value"))
    seen = f"it foresaw {expected} wrong answers, and {found} were found ({_interval(risk, 'lower', 'upper', percent)})"
    if drift.get("surprise") == "more":
        yield f"The confidence is too sure: {seen}. The traffic is unlike the rows of the fit."
    elif drift.get("surprise") == "fewer":
        yield f"The confidence is not sure enough: {seen}."
    elif drift.get("surprise") == "as many":
        yield f"The confidence still fits the traffic: {seen}."


def _over_time(drift: Mapping[str, Any]) -> Iterator[str]:
    risk, answered = drift.get("risk") or {}, drift.get("answered") or {}
    if known(risk.get("after")) is not None:
        ends = (
            f"{percent(risk.get('before'))} of the answers were wrong in the first half, {percent(risk.get('after'))}"
        )
        ends += f" in the second; the difference is {_points(risk)}"
        side = _side(risk)
        word = {1: "It became worse over time", -1: "It became better over time"}.get(side, "No change is shown")
        yield f"{word}: {ends}."
    if _side(answered) and abs(known(answered.get("difference")) or 0.0) >= LEAST_SHIFT:
        word = "rose" if _side(answered) > 0 else "fell"
        yield (
            f"The share answered {word} from {percent(answered.get('before'))} in the first half to"
            f" {percent(answered.get('after'))} in the second: inputs have changed, or the artifact."
        )


def _side(change: Mapping[str, Any]) -> int:
    lower, upper = known(change.get("lower")), known(change.get("upper"))
    if lower is None or upper is None:
        return 0
    return 1 if lower > 0 else -1 if upper < 0 else 0


def _points(change: Mapping[str, Any]) -> str:
    reach = _interval(change, "lower", "upper", _signed)
    return f"{_signed(change.get('difference'))} points{f' ({reach})' if reach else ''}"


def _signed(value: Any) -> str:
    number = 100 * (known(value) or 0.0)
    return f"{'+' if number > 0 else MINUS if number < 0 else ''}{abs(number):.1f}"


def calibration_in_words(document: Mapping[str, Any]) -> str:
    """Return whether calibration made the confidence better, in a sentence; empty where that is not known."""
    told = {str(one.get("metric")): one for one in _rows(_why(document).get("calibration"))}
    one = told.get("ece")
    if one is None:
        return ""
    word = {"better": "Calibration made the confidence better", "worse": "Calibration made the confidence worse"}.get(
        str(one.get("says")), "Whether calibration made the confidence better is not shown"
    )
    before, after = (one.get(key) or {} for key in ("before", "after"))
    apart = "their intervals lie apart" if one.get("says") in ("better", "worse") else "their intervals overlap"
    if known(before.get("lower")) is None or known(after.get("lower")) is None:
        apart = "there is no interval to tell by"
    gap = f"the gap between confidence and share right (ECE) is {_number(after)} after it and {_number(before)} before"
    others = [
        f"by {metric(name).long} it is {other['says']}"
        for name, other in told.items()
        if name != "ece" and other.get("says") not in (one.get("says"), "no clear change", None)
    ]
    return f"{word}: {gap}; {apart}{'; ' if others else ''}{'; '.join(others)}."


def _number(found: Mapping[str, Any]) -> str:
    value = known(found.get("value"))
    return "–" if value is None else quantity(value, "number")


def _interval(found: Mapping[str, Any], low: str, high: str, words: Any) -> str:
    lower, upper = known(found.get(low)), known(found.get(high))
    return "" if lower is None or upper is None else f"{words(lower)} to {words(upper)}"


def _whole(value: Any) -> str:
    number = known(value)
    return "–" if number is None else f"{number:,.0f}".replace("-", MINUS)


def _why(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("why")
    return found if isinstance(found, Mapping) else {}


def _rows(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value or [] if isinstance(one, Mapping)]

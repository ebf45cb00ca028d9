"""Times, answers and confidences as the pages put them into words."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite, isnan
from typing import Any

from demur.review.item import Case, Event
from demur.traffic.record import Answer

UNITS = ((86400, "d"), (3600, "h"), (60, "min"))

SURENESS = ((0.99, "all but certain"), (0.9, "quite sure"), (0.75, "fairly sure"), (0.5, "rather unsure"))
"""From which confidence on the model is called what."""

HOW = {
    "agreed": "all who were asked said the same",
    "majority": "most of those who were asked said so",
    "adjudicated": "decided after others disagreed or could not tell",
    "undecided": "nobody could tell",
}
"""What the resolutions of a case mean."""


def said(answer: Answer | None) -> str:
    """An answer in words."""
    if answer is None:
        return "none"
    return answer if isinstance(answer, str) else ", ".join(answer) or "no label"


def sureness(confidence: float | None) -> str:
    """A confidence in words and as a number."""
    if confidence is None or isnan(confidence):
        return "confidence unknown"
    word = next((word for least, word in SURENESS if confidence >= least), "unsure")
    return f"{word}: {percent(confidence)}"


def percent(share: float) -> str:
    """Never 100% or 0% for what is only near it."""
    if 0.995 <= share < 1:
        return f"{min(99.9, 100 * share):.1f}%"
    return "below 1%" if 0 < share < 0.01 else f"{100 * share:.0f}%"


def age(since: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that says something."""
    return lasting((now - since).total_seconds())


def lasting(seconds: float) -> str:
    """A length of time, in the largest unit that says something."""
    seconds = max(0.0, seconds)
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def due(case: Case, now: datetime) -> str:
    """When a case is due, or since when it is overdue; empty where it has no due time."""
    if case.due_at is None:
        return ""
    left = (case.due_at - now).total_seconds()
    return f"in {lasting(left)}" if left >= 0 else f"overdue {lasting(-left)}"


def work(hours: float) -> str:
    """How long work takes; a line where that is not known."""
    return lasting(hours * 3600) if isfinite(hours) else "–"


def pace(hours: float) -> str:
    """How long the team needs for what waits."""
    if hours == 0:
        return "nothing waits"
    if not isfinite(hours):
        return "nobody answered in the last hour"
    return f"{work(hours)} of work at the pace of the last hour"


def moved(event: Event) -> str:
    """A move of a case in words, or what was changed about it, with the reason."""
    detail = event.detail or {}
    told = [_set(key, value) for key, value in detail.get("set", {}).items()] or [event.to_status.value]
    return ", ".join(told) + (f": {detail['why']}" if detail.get("why") else "")


def _set(key: str, value: Any) -> str:
    if key == "assigned_to":
        return "kept for nobody" if value is None else f"kept for {value}"
    if key == "due_at":
        return "no due time" if value is None else f"due {datetime.fromisoformat(value):%Y-%m-%d %H:%M %Z}"
    return f"{key} {value}"


def in_turn(steps: Sequence[Mapping[str, Any]]) -> str:
    """The models of a cascade that were asked, each with its confidence."""
    return ", ".join(
        f"{step['model']} {'unknown' if step['confidence'] is None else format(step['confidence'], '.2f')}"
        for step in steps
    )


FILTERS = {
    "age": age,
    "due": due,
    "is_known": isfinite,
    "how": lambda resolution: HOW.get(resolution, resolution),
    "in_turn": in_turn,
    "lasting": lasting,
    "moved": moved,
    "pace": pace,
    "percent": percent,
    "said": said,
    "sureness": sureness,
    "work": work,
}
"""As templates call them."""

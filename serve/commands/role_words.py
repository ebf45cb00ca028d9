"""The roles of artifacts, and what changed about them, in words."""

from demur.calibration_store.history import Change
from demur.calibration_store.standing import Canary, Standing
from demur.serve.commands.terminal import ended_roles


def role(standing: Standing, name: str) -> str:
    """What an artifact is now; empty if it is nothing but stored."""
    if name == standing.in_force:
        return "in force"
    if name == standing.shadow:
        return "shadow"
    if standing.canary and name == standing.canary.artifact:
        return f"canary {_percent(standing.canary.share)}"
    return ""


def bounds(canary: Canary | None) -> str:
    """How much of the traffic a canary gets, and what it may do with it."""
    if canary is None:
        return ""
    low, high = canary.held_between
    alarm = "" if canary.max_risk is None else f", at most {_percent(canary.max_risk)} wrong"
    return f"{_percent(canary.share)} of traffic, {_percent(low)} to {_percent(high)} held{alarm}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def told(change: Change) -> tuple[str, list[str]]:
    """The action in words, and what else is to be told of it."""
    words = {"stop_shadow": "shadow off", "stop_canary": "canary off"}
    ended = [] if change.action in words else ended_roles(change)
    if change.action == "rollback":
        return "rollback", [f"rollback of {change.rolled_back}", *ended]
    if change.action == "canary":
        return "canary", [bounds(change.standing.canary), *ended]
    return words.get(change.action, change.action), ended

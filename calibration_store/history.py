"""The changes of a model's standing. Each tells the standing after it, so the last one tells all."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from demur.calibration_store.standing import Canary, Standing


@dataclass(frozen=True, kw_only=True)
class Change:
    """One entry of the history: what somebody did at `at`, and which artifacts decide from then on."""

    number: int
    action: str
    """`promote`, `rollback`, `shadow`, `stop_shadow`, `canary` or `stop_canary`."""

    artifact: str
    """The one that the action is about. Of a promotion or a rollback, the one that it put in force."""

    at: str
    by: str
    why: str
    standing: Standing

    rolled_back: str | None = None
    """Of a rollback, the artifact that it put out of force."""

    shadow_ended: str | None = None
    """The artifact that was the shadow before this change and is not after it."""

    canary_ended: str | None = None
    """The artifact that was the canary before this change and is not after it."""

    def as_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False).encode()


def change_between(
    before: Standing,
    after: Standing,
    *,
    number: int,
    action: str,
    artifact: str | None,
    at: str,
    by: str,
    why: str,
    rolled_back: str | None = None,
) -> Change:
    """The entry for a change. An action that only ends a role is about the artifact that had it."""
    shadow_ended = before.shadow if before.shadow != after.shadow else None
    had, has = (standing.canary.artifact if standing.canary else None for standing in (before, after))
    canary_ended = had if had != has else None
    about = artifact or shadow_ended or canary_ended
    assert about is not None, "a change is about some artifact"
    return Change(
        number=number,
        action=action,
        artifact=about,
        at=at,
        by=by,
        why=why,
        standing=after,
        rolled_back=rolled_back,
        shadow_ended=shadow_ended,
        canary_ended=canary_ended,
    )


def read_change(content: bytes) -> Change | None:
    """An entry, or None for one that broke off while it was written: it never took effect."""
    try:
        entry: dict[str, Any] = json.loads(content)
        rolled_back = entry.get("rolled_back")
        return Change(
            number=entry["number"],
            # before there were shadows and canaries, an entry told only what it put in force
            action=entry.get("action", "rollback" if rolled_back else "promote"),
            artifact=entry["artifact"],
            at=entry["at"],
            by=entry["by"],
            why=entry["why"],
            standing=_read_standing(entry["standing"]) if "standing" in entry else Standing(in_force=entry["artifact"]),
            rolled_back=rolled_back,
            shadow_ended=entry.get("shadow_ended"),
            canary_ended=entry.get("canary_ended"),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read_standing(entry: dict[str, Any]) -> Standing:
    canary = entry["canary"]
    return Standing(
        in_force=entry["in_force"],
        shadow=entry["shadow"],
        canary=canary
        and Canary(
            artifact=canary["artifact"],
            share=canary["share"],
            held_between=tuple(canary["held_between"]),
            max_risk=canary["max_risk"],
            since=canary["since"],
        ),
    )


def line_in_force(history: Iterable[Change]) -> list[str]:
    """The artifacts that lead up to the one in force, which is the last; none follows itself.

    A promotion makes the line longer, a rollback cuts it back to where its artifact stands. Nothing else moves it.
    """
    line: list[str] = []
    for change in history:
        if change.action == "rollback" and change.artifact in line:
            while line[-1] != change.artifact:
                line.pop()
        elif change.action in ("promote", "rollback") and line[-1:] != [change.artifact]:
            line.append(change.artifact)
    return line

"""Which artifacts of a model decide, in which role, and what each change makes of that.

An artifact has one role at a time. A canary is judged beside the artifact in force: when another one takes that place,
the canary ends. A shadow is compared record by record with whatever decided, so it stays.
"""

from dataclasses import dataclass, replace

from demur.uncertainty.checks import InvalidInput, fraction


class RoleRefused(ValueError):
    """An artifact cannot take or leave this role as things stand. The message says why, and what to do first."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """An artifact that decides a part of the traffic, for as long as it keeps within bounds."""

    artifact: str

    share: float
    """Of traffic, in (0, 1)."""

    held_between: tuple[float, float]
    """Band of the held rate of its traffic; outside of it, it is stopped."""

    max_risk: float | None
    """The error alarm: share of wrong answers above which it is stopped; None for no alarm."""

    since: str
    """ISO time. What came before it says nothing about this canary."""

    def __post_init__(self) -> None:
        fraction("share", self.share, open_low=True, open_high=True)
        low, high = (fraction("held_between", bound) for bound in self.held_between)
        if low >= high:
            raise InvalidInput(f"held_between is {low} to {high}; the first bound is the lower one")
        if self.max_risk is not None:
            fraction("max_risk", self.max_risk, open_low=True, open_high=True)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Which artifacts of a model decide. None of them has two roles."""

    in_force: str | None = None

    shadow: str | None = None
    """Decides on all traffic beside the one in force; nobody but the record is told what."""

    canary: Canary | None = None


def after_promotion(standing: Standing, name: str) -> Standing:
    """`name` is in force. What other role it had ends, and so does a canary that was judged beside another one."""
    replaced = standing.in_force != name
    return Standing(
        in_force=name,
        shadow=None if standing.shadow == name else standing.shadow,
        canary=None if replaced else standing.canary,
    )


def after_shadow(standing: Standing, name: str) -> Standing:
    """`name` is the shadow, in the place of one that there may be."""
    _check_free(standing, name, role="shadow")
    if standing.canary and standing.canary.artifact == name:
        raise RoleRefused(
            f"artifact {name} is the canary and cannot be the shadow as well;"
            " stop it first with `demur artifacts canary MODEL --off`"
        )
    return replace(standing, shadow=name)


def after_shadow_stop(standing: Standing) -> Standing:
    if standing.shadow is None:
        raise RoleRefused("there is no shadow to end")
    return replace(standing, shadow=None)


def after_canary(standing: Standing, canary: Canary) -> Standing:
    """`canary` has its share, in the place of one that there may be: the same artifact may get another share."""
    _check_free(standing, canary.artifact, role="canary")
    if standing.shadow == canary.artifact:
        raise RoleRefused(
            f"artifact {canary.artifact} is the shadow and cannot be the canary as well;"
            " end it first with `demur artifacts shadow MODEL --off`"
        )
    return replace(standing, canary=canary)


def after_canary_stop(standing: Standing, *, only: str | None = None) -> Standing:
    """There is no canary. With `only`, raise unless it is this one that stops."""
    if standing.canary is None:
        raise RoleRefused("there is no canary to stop")
    if only is not None and standing.canary.artifact != only:
        raise RoleRefused(f"the canary is {standing.canary.artifact}, no longer {only}")
    return replace(standing, canary=None)


def _check_free(standing: Standing, name: str, *, role: str) -> None:
    if standing.in_force is None:
        raise RoleRefused(
            f"no artifact is in force, and a {role} is judged beside one;"
            " put one in force first with `demur artifacts promote`"
        )
    if standing.in_force == name:
        raise RoleRefused(f"artifact {name} is in force and cannot be the {role} as well; name another one")

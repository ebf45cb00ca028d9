"""The doors in the header of every page: where else there is something to see or to do, for whoever asks."""

from dataclasses import dataclass

from fastapi import Request

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.config.access import Scope


@dataclass(frozen=True, slots=True)
class Door:
    """A place of the service, and who may go there; None: anybody."""

    name: str
    path: str
    scope: Scope | None


DOORS = (
    Door("Try", "/try/", Scope.PREDICT),
    Door("Live", "/live/", Scope.AUDIT),
    Door("Models", "/models/", Scope.AUDIT),
    Door("Review", "/review/", Scope.REVIEW),
    Door("Audit", "/audit/", Scope.AUDIT),
    Door("API", "/docs", None),
)


def may(request: Request, scope: Scope | None) -> bool:
    """Whether whoever asks may do what needs this scope."""
    if scope is None or not access_is_on(request.scope):
        return True
    caller = caller_of(request.scope)
    return caller is not None and caller.may(scope)


def doors_of(request: Request) -> list[Door]:
    """Return the doors that are open to whoever asks."""
    return [door for door in DOORS if may(request, door.scope)]

"""What can go wrong when a service is asked: one table from what it says to an exception."""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

LONGEST_MESSAGE = 1000
"""Characters of a message from outside that are shown."""


class DemurError(Exception):
    """What every exception of a client is. The message says what is wrong, mostly in the words of the service."""

    may_pass: ClassVar[bool] = False
    """Whether the same request may succeed a little later."""

    status: int | None = None
    """The HTTP status; None where nobody answered."""

    kind: str | None = None
    """The service's name for the problem, as in docs/errors.md."""

    retry_after: float | None = None
    """After how many seconds to ask again, where the service says so."""

    position: int | None = None
    """Which of several inputs or outcomes this is about, from 0 on. The message begins with it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.told = message
        """What is wrong, without the position."""


class Unreachable(DemurError):
    """No service answers at this address, or the connection broke. Start the service, or correct the address."""

    may_pass = True


class ClientClosed(DemurError):
    """The client was closed. Make a new one, or do the work inside of its `with` block."""


class BadReply(DemurError):
    """What came back is not what this service says. Look whether the address is that of a demur, of this version."""


class InvalidRequest(DemurError):
    """Something in the request does not fit. Correct what the message names."""


class TooLarge(InvalidRequest):
    """The request is larger than the service takes. Send less at once."""


class NotKnown(DemurError):
    """The service asks who you are. Give a key, `Client(key=...)` or the environment variable DEMUR_KEY."""


class NotAllowed(DemurError):
    """The key may not do this, or is not for this model. Ask whoever runs the service for another one."""


class NotFound(DemurError):
    """There is no such model, prediction or address."""


class KeyReused(DemurError):
    """The Idempotency-Key was used before with another body. Choose another key."""


class NotPossible(DemurError):
    """It cannot be done as things stand now. The message says what is in the way."""


class JobFailed(DemurError):
    """A job came to no result. The message says why."""


class TooOften(DemurError):
    """The key has used up its rate. Ask again after `retry_after` seconds."""

    may_pass = True


class Unavailable(DemurError):
    """The service cannot answer at the moment. Ask again after `retry_after` seconds."""

    may_pass = True


class ModelUnavailable(DemurError):
    """The model's endpoint answers nobody until somebody mends something. Waiting does not help."""


class TimedOut(DemurError, TimeoutError):
    """The time for an answer is over. With an Idempotency-Key it is safe to ask again."""


class StillWaiting(DemurError, TimeoutError):
    """No person has answered yet. Wait again later; the case stays where it is."""


class ServiceFailed(DemurError):
    """The service failed in a way that it does not explain. Its log says more."""


CLOSED = "this client is closed; make a new one, or do the work inside of its `with` block"

BY_KIND: Mapping[str, type[DemurError]] = {
    "UpstreamFailed": ModelUnavailable,
    "KeyReused": KeyReused,
    "DeadlinePassed": TimedOut,
}
"""Where one status has two meanings, the kind says which."""

BY_STATUS: Mapping[int, type[DemurError]] = {
    400: InvalidRequest,
    401: NotKnown,
    403: NotAllowed,
    404: NotFound,
    405: NotFound,
    408: Unavailable,
    409: NotPossible,
    413: TooLarge,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TooOften,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, problem: object, retry_after: float | None = None) -> DemurError | None:
    """The exception for a problem as the service tells it, such as `{"kind": ..., "message": ...}`; None where this is
    not how the service tells one."""
    kind = None
    if isinstance(problem, Mapping):
        message = problem.get("message")
        kind = problem.get("kind") or problem.get("code")  # `code` at the doors that speak OpenAI's protocol
    else:
        message = problem
    if not isinstance(message, str):
        return None
    named = kind if isinstance(kind, str) else None
    error = (BY_KIND.get(named or "") or BY_STATUS.get(status, ServiceFailed))(readable(message))
    error.status, error.kind, error.retry_after = status, named and readable(named), retry_after
    return error


def at_position(error: DemurError, position: int, what: str) -> DemurError:
    """Return an error like this one that says which of several things it is about."""
    placed = type(error)(f"{what} {position}: {error.told}")
    placed.told, placed.position = error.told, position
    placed.status, placed.kind, placed.retry_after = error.status, error.kind, error.retry_after
    return placed


def seconds_until_retry(told: Any, now: float) -> float | None:
    """What a Retry-After says, a number of seconds or a date; None where it says nothing that can be used. `now` is in
    seconds since 1970."""
    if isinstance(told, bool) or not isinstance(told, str | int | float):
        return None
    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(str(told)).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    except OverflowError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def readable(text: str) -> str:
    """Text from outside on one line: it gives a terminal no orders, and fills no page."""
    shown = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} ..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)

"""How something is asked until it is answered, as steps: send this, pause so long. A client does them one after the
other, in a thread or with `await`."""

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, BinaryIO, TypeVar

from demur.client.errors import BadReply, DemurError, TimedOut, Unreachable, error_of, readable, seconds_until_retry
from demur.client.fields import Fields

T = TypeVar("T")

FIRST_PAUSE = 0.2
"""Seconds before the second try; each further pause is twice as long."""

LONGEST_PAUSE = 10.0
FIRST_CONTACT = 3.0
"""For so many seconds an address that has never answered is tried."""

SHOWN = 100
"""Characters of a reply that is none of ours."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, as often as it is sent."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    key: str | None = None
    """The Idempotency-Key."""

    tells_deadline: bool = False
    """Whether the service is told how long its answer is waited for."""

    takes: frozenset[int] = frozenset((200, 201))
    """Statuses of an answer; any other one is an error."""

    to: BinaryIO | None = None
    """Where the answer is written as it comes; None where it is kept in memory."""

    what: str = "the answer"
    once: bool = False
    """Whether it is sent once only: to do it twice would be something else."""


@dataclass(frozen=True, kw_only=True)
class Send:
    """The step of sending a request once, and reading the whole reply until the deadline."""

    call: Call
    deadline: float
    seconds: float
    """From now until the deadline."""


@dataclass(frozen=True)
class Pause:
    """The step of doing nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    """Their names in lower case."""

    content: bytes


Steps = Generator[Send | Pause, Reply | None, T]
"""Steps to be done in turn; each `Send` is answered with its reply, or with `Unreachable`."""


@dataclass(kw_only=True)
class Attempts:
    """How often, and with which pauses, something is tried."""

    shown: str
    """The address, for messages."""

    clock: Callable[[], float]
    draw: Callable[[], float]
    """A number from [0, 1), so that clients that were refused together do not come back together."""

    answered: bool = False
    """Whether this address has ever answered."""

    def of(self, call: Call, seconds: float | None) -> Steps[Reply]:
        """Send a call until it is answered, for at most so many seconds, with longer and longer pauses. What may be
        repeated is what the service says may pass. Raises `DemurError`."""
        began = self.clock()
        deadline = float("inf") if seconds is None else began + seconds
        for attempt in count():
            left = deadline - self.clock()
            if left <= 0:
                raise TimedOut(f"{self.shown} did not answer in time")
            try:
                reply = yield Send(call=call, deadline=deadline, seconds=left)
                assert isinstance(reply, Reply)
                self.answered = True
                if reply.status in call.takes:
                    return reply
                problem = self.problem(reply)
            except Unreachable as error:
                problem = error
            if call.once or not problem.may_pass:
                raise problem
            pause = self.pause(attempt, problem.retry_after)
            last = deadline if self.answered else min(deadline, began + FIRST_CONTACT)
            if self.clock() + pause >= last:
                raise problem
            yield Pause(pause)
        raise AssertionError("counting does not end")

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait after this attempt: at least as long as the service asks for, else longer each time."""
        most = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10))
        return (retry_after or 0.0) + most * (0.5 + 0.5 * self.draw())

    def answer(self, reply: Reply, what: str) -> Fields:
        """The object that a reply holds. Raises `BadReply` where it holds none."""
        body = json_of(reply)
        if body is None:
            said = readable(reply.content[:SHOWN].decode(errors="replace").strip())
            raise BadReply(f"{self.shown}{what} sent what is no JSON: {said!r}; is this the address of a demur?")
        return Fields(body, what)

    def problem(self, reply: Reply) -> DemurError:
        """What a reply that is no answer says."""
        body = json_of(reply)
        told = body.get("error") if isinstance(body, Mapping) else None
        wait = seconds_until_retry(reply.headers.get("retry-after"), time.time())
        if (error := error_of(reply.status, told, wait)) is not None:
            return error
        said = readable(reply.content[:SHOWN].decode(errors="replace").strip())
        error = error_of(reply.status, f"{self.shown} answered {reply.status}: {said or 'nothing'}", wait)
        if error is not None and error.may_pass:
            return error  # a proxy in front has words of its own
        if 300 <= reply.status < 400:
            where = readable(reply.headers.get("location", "another address")[:SHOWN])
            why = f"points to {where}; give that address if you trust it"
        else:
            why = f"says what no demur says: {said!r}; is this its address?"
        unknown = BadReply(f"{self.shown} answered {reply.status} and {why}")
        unknown.status = reply.status
        return unknown


def json_of(reply: Reply) -> Any:
    """The JSON of a reply; None where it is none."""
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        return None

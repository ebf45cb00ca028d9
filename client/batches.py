"""Many inputs, or many outcomes, in batches: each is sent under a key of its own, until every item has its answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from demur.client.errors import BadReply, DemurError, TooLarge, at_position, error_of, seconds_until_retry
from demur.client.fields import Fields
from demur.client.items import encoded
from demur.client.steps import Attempts, Call, Pause, Steps

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MOST_BYTES = 4 * 2**20
"""Of the body of one batch, unless one item alone is larger."""


@dataclass(frozen=True, kw_only=True)
class BatchKind(Generic[T_co]):
    """What is asked in batches."""

    path: str
    answer: str
    """Where the answer of an item stands in its result."""

    item: str
    """What one of them is called in messages."""

    read: Callable[[Fields, bool], T_co]
    """Makes a value of an answer, and of whether it was on record before."""

    tells_deadline: bool


@dataclass(kw_only=True)
class Batch(Generic[T]):
    """Items that are sent together."""

    first: int
    """The number of the first item among all of them."""

    bodies: list[bytes | DemurError] = field(default_factory=list)
    """The JSON of each item, or why there is none."""


class BatchBuilder(Generic[T]):
    """Gathers items into batches: `size` items, or fewer where they are large. The same items make the same batches."""

    def __init__(self, body_of: Callable[[Any], dict[str, Any]], *, size: int, first: int, what: str) -> None:
        self._body_of = body_of
        self._size = size
        self._what = what
        self._next = first
        self._gathered = 0
        self._bytes = 0
        self._batch: Batch[T] = Batch(first=first)

    def add(self, value: Any) -> Iterator[Batch[T]]:
        """Take one item, and yield the batches that are complete now. An exception in the place of an item is its
        answer already."""
        body: bytes | DemurError
        try:
            if isinstance(value, DemurError):
                raise value
            body = encoded(self._body_of(value))
        except DemurError as error:
            body = at_position(error, self._next, self._what)
        size = len(body) if isinstance(body, bytes) else 0
        if self._batch.bodies and self._bytes + size > MOST_BYTES:
            yield from self.rest()
        self._batch.bodies.append(body)
        self._next += 1
        self._gathered += 1
        self._bytes += size
        if self._gathered == self._size:
            self._gathered = 0
            yield from self.rest()

    def rest(self) -> Iterator[Batch[T]]:
        """Yield what has been gathered, if there is anything."""
        if self._batch.bodies:
            yield self._batch
        self._batch, self._bytes = Batch(first=self._next), 0


def ask_batch(
    attempts: Attempts, kind: BatchKind[T], batch: Batch[T], key: str, seconds: float
) -> Steps[list[T | DemurError]]:
    """Send a batch until each item has an answer, or the time is over; return them in order.

    An item that may succeed later is sent again with the whole batch, under the same key: what is on record is then
    only repeated. Raises `DemurError` where the batch as a whole is refused.
    """
    deadline = attempts.clock() + seconds
    results: dict[int, T | DemurError] = {
        batch.first + at: body for at, body in enumerate(batch.bodies) if isinstance(body, DemurError)
    }
    sent = {batch.first + at: body for at, body in enumerate(batch.bodies) if isinstance(body, bytes)}
    if sent:
        results |= yield from _ask(attempts, kind, sent, key, deadline)
    return [results[at] for at in sorted(results)]


def _ask(
    attempts: Attempts, kind: BatchKind[T], bodies: dict[int, bytes], key: str, deadline: float
) -> Steps[dict[int, T | DemurError]]:
    positions = list(bodies)
    call = Call(
        method="POST",
        path=kind.path,
        content=b'{"items":[' + b",".join(bodies.values()) + b"]}",
        key=f"{key}-{positions[0]}-{len(positions)}",  # a batch of other items has another key
        tells_deadline=kind.tells_deadline,
        what=kind.path,
    )
    attempt = 0
    while True:
        try:
            reply = yield from attempts.of(call, deadline - attempts.clock())
        except TooLarge as error:
            if len(positions) == 1:
                return {positions[0]: at_position(error, positions[0], kind.item)}
            half = len(positions) // 2
            halves = [dict(list(bodies.items())[:half]), dict(list(bodies.items())[half:])]
            first = yield from _ask(attempts, kind, halves[0], key, deadline)
            return first | (yield from _ask(attempts, kind, halves[1], key, deadline))
        answers = _results(kind, attempts.answer(reply, kind.path), positions)
        results = dict(zip(positions, answers, strict=True))
        waits = [one.retry_after or 0.0 for one in results.values() if isinstance(one, DemurError) and one.may_pass]
        pause = attempts.pause(attempt, max(waits, default=0.0))
        if not waits or attempts.clock() + pause >= deadline:
            return results
        yield Pause(pause)
        attempt += 1


def _results(kind: BatchKind[T], answer: Fields, positions: list[int]) -> list[T | DemurError]:
    told = answer.objects("results", lambda one: one)
    if len(told) != len(positions):
        raise BadReply(f"{kind.path}: the service sent {len(told)} results for {len(positions)} items")
    return [_result(kind, one, at) for one, at in zip(told, positions, strict=True)]


def _result(kind: BatchKind[T], told: Fields, position: int) -> T | DemurError:
    if told.raw.get("error") is None:
        return told.object(kind.answer, lambda answer: kind.read(answer, told.raw.get("replayed") is True))
    wait = seconds_until_retry(told.raw.get("retry_after"), 0.0)
    error = error_of(told.whole_number("status"), told.raw["error"], wait)
    if error is None:
        raise BadReply(f"{kind.path}: the service sent an error without a message")
    return at_position(error, position, kind.item)

"""A simulation of queues: a clock, processors that are shared, stations with servers, and a log of changes.

Times are seconds. Nothing here knows demur. Known results of queueing theory hold for it, and are tested.
"""

import heapq
from collections import deque
from collections.abc import Callable

import numpy as np

Then = Callable[[], object]

BLOCK = 4096
"""Random numbers that are drawn at a time."""


class Clock:
    """Simulated time, and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Then]] = []
        self._count = 0

    def later(self, seconds: float, then: Then) -> None:
        """Do something after so many seconds."""
        self._count += 1
        heapq.heappush(self._due, (self.now + seconds, self._count, then))

    def run(self, until: float) -> None:
        """Let time pass until then, or until nothing is left to happen."""
        while self._due and self._due[0][0] <= until:
            self.now, _, then = heapq.heappop(self._due)
            then()
        self.now = max(self.now, until)


class Variation:
    """Factors with a mean of 1 and a given coefficient of variation, from a gamma distribution."""

    def __init__(self, rng: np.random.Generator, cv: float) -> None:
        self._rng, self._cv = rng, cv
        self._left: list[float] = []

    def __call__(self) -> float:
        if self._cv == 0:
            return 1.0
        if not self._left:
            shape = 1 / self._cv**2
            self._left = self._rng.gamma(shape, 1 / shape, BLOCK).tolist()
        return self._left.pop()


class Processors:
    """So many processors, shared alike by all work that is under way; one piece of work uses one of them at most.

    Beside it so many programs of `others` always have work, each of which gets as much as a piece of ours.
    """

    def __init__(self, clock: Clock, cores: float, others: float = 0.0) -> None:
        self.clock, self.cores, self.others = clock, cores, others
        self.spent = 0.0
        """Seconds of processor time so far."""

        self.spent_by_others = 0.0

        self._work: list[tuple[float, int, Then]] = []
        self._each = 0.0
        """Processor time that a piece of work would have had that has been here from the beginning."""

        self._at = 0.0
        self._count = 0
        self._plan = 0

    def run(self, seconds: float, then: Then) -> None:
        """Begin work of so many seconds of processor time; `then` is called when it has had them."""
        self._advance()
        self._count += 1
        heapq.heappush(self._work, (self._each + seconds, self._count, then))
        self._plan_next()

    def _rate(self) -> float:
        return min(1.0, self.cores / (len(self._work) + self.others))

    def _advance(self) -> None:
        elapsed, self._at = self.clock.now - self._at, self.clock.now
        if self._work or self.others:
            rate = self._rate()
            self.spent_by_others += rate * elapsed * self.others
            self._each += rate * elapsed
            self.spent += rate * elapsed * len(self._work)

    def _plan_next(self) -> None:
        self._plan += 1
        if self._work:
            plan = self._plan
            left = max(0.0, self._work[0][0] - self._each)
            self.clock.later(left / self._rate(), lambda: self._finish(plan))

    def _finish(self, plan: int) -> None:
        if plan != self._plan:  # other work has come since, and moved the time
            return
        self._advance()
        self._each, _, then = heapq.heappop(self._work)
        self._plan_next()
        then()


class Station:
    """Servers with one queue, first come first served, whose work runs on processors."""

    def __init__(self, processors: Processors, servers: int, vary: Variation) -> None:
        self._processors, self._free, self._vary = processors, servers, vary
        self._waiting: deque[tuple[float, Then]] = deque()
        self.spent = 0.0
        """Seconds of processor time of the work that has begun so far."""

    def do(self, seconds: float, then: Then) -> None:
        """Queue work that takes so many seconds of processor time on average."""
        self._waiting.append((seconds * self._vary(), then))
        self._begin()

    def _begin(self) -> None:
        while self._free and self._waiting:
            seconds, then = self._waiting.popleft()
            self._free -= 1
            self.spent += seconds
            self._processors.run(seconds, lambda then=then: self._done(then))  # type: ignore[misc]

    def _done(self, then: Then) -> None:
        self._free += 1
        self._begin()
        then()


class WriteAheadLog:
    """A log on a disk: one flush at a time, and those who come meanwhile share the next one."""

    def __init__(self, clock: Clock, flush_seconds: float, vary: Variation) -> None:
        self._clock, self._seconds, self._vary = clock, flush_seconds, vary
        self._waiting: list[Then] = []
        self._busy = False
        self.spent = 0.0
        """Seconds in which it was flushing."""

    def flush(self, then: Then) -> None:
        """Call `then` when all that was written before now is on disk."""
        self._waiting.append(then)
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        self._busy = True
        sharing, self._waiting = self._waiting, []
        seconds = self._seconds * self._vary()
        self.spent += seconds

        def done() -> None:
            self._busy = False
            if self._waiting:
                self._begin()
            for then in sharing:
                then()

        self._clock.later(seconds, done)


class Gathering:
    """Greedy gathering as in `serve/contract/batching.py`: what waits leaves as one batch when there is room.

    `send` gets the parts of a batch and what to call when it has come back.
    """

    def __init__(
        self,
        clock: Clock,
        send: Callable[[list[tuple[int, Then]], Then], object],
        *,
        most: int,
        in_flight: int,
        alone: int,
        patience_seconds: float,
    ) -> None:
        self._clock, self._send = clock, send
        self._most, self._in_flight, self._alone, self._patience = most, in_flight, alone, patience_seconds
        self._waiting: deque[tuple[int, Then]] = deque()
        self._queued = self._away = self._last = 0
        self._turn = 0
        self._patient = False
        self.batches = self.rows = 0

    def submit(self, rows: int, then: Then) -> None:
        """Send rows with the next batch; `then` is called by whoever answers the batch."""
        self._waiting.append((rows, then))
        self._queued += rows
        self._pump()

    def _pump(self, *, at_once: bool = False) -> None:
        while self._away < self._in_flight and self._waiting:
            if not at_once and self._away >= self._alone and self._queued < min(self._last, self._most):
                self._wait()
                return
            at_once = self._patient = False
            self._turn += 1
            batch = [self._waiting.popleft()]
            size = batch[0][0]
            while self._waiting and size + self._waiting[0][0] <= self._most:
                batch.append(self._waiting.popleft())
                size += batch[-1][0]
            self._queued -= size
            self._away += 1
            self._last = size
            self.batches += 1
            self.rows += size
            self._send(batch, self._back)

    def _wait(self) -> None:
        if self._patient:
            return
        self._patient, turn = True, self._turn

        def over() -> None:
            if self._patient and turn == self._turn:
                self._patient = False
                self._pump(at_once=True)

        self._clock.later(self._patience, over)

    def _back(self) -> None:
        self._away -= 1
        self._pump()

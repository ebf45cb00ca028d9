"""Several ways to do the same, which take turns, so that what else the machine does falls on all alike."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

Ask = Callable[[int], Awaitable[object]]
"""Does what is measured, for the request of this number."""


@dataclass
class Turns:
    """What one way took, in milliseconds for each request, turn by turn."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Time on processors, of this process and of the one in which the model runs. It hangs less on what else the
    machine does, and knows no waiting."""


async def turn(ask: Ask, requests: range, concurrency: int, turns: Turns) -> None:
    """Ask for all of them, so many at a time."""
    numbers = iter(requests)

    async def work() -> None:
        for number in numbers:
            await ask(number)

    processes = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
    spent, began = _spent(processes), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    turns.wall.append((time.perf_counter() - began) * 1000 / len(requests))
    turns.processor.append((_spent(processes) - spent) * 1000 / len(requests))


async def in_turns(
    ways: Mapping[str, Ask], *, requests: int, concurrency: int, rounds: int, after_each: Callable[[], object]
) -> dict[str, Turns]:
    """Let every way take a turn in each round, another one first each time. All of a round get the same numbers."""
    names, found = list(ways), {name: Turns() for name in ways}
    for name in names:
        await turn(ways[name], range(2 * concurrency), concurrency, Turns())
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            await turn(ways[name], range(number * requests, (number + 1) * requests), concurrency, found[name])
        after_each()
    return found


def shares(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """How much of `after` was not in `before`, turn by turn."""
    return [(more - less) / more for less, more in zip(before, after, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower one, the median, the upper one."""
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def _spent(processes: Sequence[int]) -> float:
    """Seconds on processors, by Linux's own clock of each process: /proc tells them in steps of ten milliseconds."""
    return sum(time.clock_gettime(~process << 3 | 2) for process in processes)

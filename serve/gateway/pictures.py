"""Pictures on their way to a model: decoded beside the event loop, few at a time, each model in its turn.

A picture costs far more than its bytes: two kilobytes may hold sixteen million pixels. So the pictures of one model are
decoded one request after another, and a flood of them keeps no other model waiting. What waits, and what was decoded
for requests that are still open, has a bound for each model.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from PIL import Image

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.contract.batching import Overloaded, Pace
from demur.serve.contract.body import read_apart
from demur.serve.contract.inputs import CheckedInput, InputLimits, InputSpec, InvalidRequest
from demur.serve.contract.reading.given import GivenReader
from demur.serve.contract.reading.inputs import decode_all, measure_all, pixels_kept, read_inputs, urls_of
from demur.serve.contract.reading.pictures import Picture
from demur.serve.contract.reading.stored_form import pictures_in, with_kept, with_kept_beside
from demur.serve.telemetry.telemetry import Queue
from demur.traffic.dataset import GivenRow

T = TypeVar("T")

Checked = list[CheckedInput | InvalidRequest]
"""Every input of a request in the form that a model takes, or an error in its place."""

Read = Callable[[str, Sequence[Any], InputSpec], Awaitable[Checked]]
"""Reads inputs for a model. Raises `Overloaded`."""

DECODED_AT_ONCE = 2
"""Requests whose pictures are decoded at a time, of all models together. No two of them are for one model."""

THREADS = DECODED_AT_ONCE + 2
"""The others prepare pictures, which is quick."""

BLOCKS_KEPT = 8
"""Blocks of 16 MB that Pillow keeps for the next picture. To get one from the system takes ten times as long as to
clear one, and in that time no other thread runs."""

LARGE_PIXELS = 2**20
"""A request that brings more is decoded in threads that step back where processors are short."""

NICENESS = 19
"""Of these threads."""

FEW_CHARACTERS = 2**14
"""Up to so many, the pictures of a request are measured at once: the way to a thread and back would take longer."""

FEW_PIXELS = 2**14
"""Up to so many, they are decoded at once as well."""

MOST_WAITING = 16
"""What waits to be decoded for one model has at most so many times the pixels that one request may bring."""

MOST_KEPT = 8
"""What is kept, decoded and shrunk, for open requests to one model has at most so many times these pixels."""


class PictureQueue:
    """The pictures of one model."""

    def __init__(self, model: str, most: int) -> None:
        self._model, self._most = model, most
        self.preparing, self.decoding = asyncio.Lock(), asyncio.Lock()
        self._waiting = 0
        """Pixels that wait, or are being decoded."""

        self._kept = 0
        """Pixels that are kept, or will be."""

        self._pace = Pace()

    @contextmanager
    def waiting(self, pixels: int) -> Iterator[None]:
        """Wait with so many pixels; raises `Overloaded` where too many wait already.

        Nobody waits for room: a request may be about several models, and would wait for another that waits for it.
        """
        if self._waiting + pixels > MOST_WAITING * self._most:
            raise self._overloaded(f"{self._waiting:,} pixels wait to be decoded")
        self._waiting += pixels
        try:
            yield
            self._pace.note(pixels)
        finally:
            self._waiting -= pixels

    @contextmanager
    def keeping(self, pixels: int) -> Iterator[None]:
        """Keep so many pixels; raises `Overloaded` where too many are kept already."""
        if self._kept + pixels > MOST_KEPT * self._most:
            raise self._overloaded(f"{self._kept:,} pixels of open requests are kept")
        self._kept += pixels
        try:
            yield
        finally:
            self._kept -= pixels

    def queue(self) -> Queue:
        """What waits now, in pixels."""
        return "pictures", self._model, self._waiting, MOST_WAITING * self._most

    def _overloaded(self, why: str) -> Overloaded:
        error = Overloaded(f"{why} for model {self._model}; try again a little later")
        error.seconds = self._pace.seconds_for(self._waiting)
        return error


class PictureReader:
    """Reads the inputs of requests, of which only pictures take long. It is used from one event loop."""

    def __init__(self, limits: InputLimits, models: Mapping[str, ModelConfig]) -> None:
        self._limits = limits
        self._given = {
            name: GivenReader(model.host, model.task, limits)
            for name, model in models.items()
            if isinstance(model.host, GivenHost)
        }
        self._lines: dict[str, PictureQueue] = {}
        self._decoding = asyncio.Semaphore(DECODED_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, "pictures")
        self._large = ThreadPoolExecutor(DECODED_AT_ONCE, "large-pictures", _step_back)
        Image.core.set_blocks_max(BLOCKS_KEPT)  # type: ignore[attr-defined]  # what PILLOW_BLOCKS_MAX sets

    @contextmanager
    def request(self) -> Iterator[Read]:
        """Give what reads the inputs of one request. What is decoded for it counts until this is closed."""
        with ExitStack() as at_its_end:
            yield partial(self._read, at_its_end)

    async def _read(self, at_its_end: ExitStack, model: str, values: Sequence[Any], spec: InputSpec) -> Checked:
        if model in self._given:
            return await self._read_given(model, values)
        as_numbers = not spec.takes_pictures or (spec.kind == "image" and set(map(type, values)) == {list})
        characters = 0 if as_numbers else sum(len(url) for value in values for url in urls_of(value, spec))
        if not characters:
            return with_kept(values, read_inputs(values, spec, self._limits), spec)
        line, measure = self._line(model, spec), partial(measure_all, values, spec, self._limits)
        pictures = measure() if characters <= FEW_CHARACTERS else await self.prepare(model, spec, measure)
        taken = [picture for picture in pictures if isinstance(picture, Picture)]
        pixels = sum(picture.pixels for picture in taken)
        if characters <= FEW_CHARACTERS and pixels <= FEW_PIXELS:
            return self._decoded(values, pictures, spec)
        at_its_end.enter_context(line.keeping(pixels_kept(taken, spec)))
        with line.waiting(pixels), ExitStack() as turn:
            await _enter(turn, line.decoding)
            await _enter(turn, self._decoding)
            threads = self._large if pixels > LARGE_PIXELS else self._threads
            return await _in_thread(threads, turn, partial(self._decoded, values, pictures, spec))

    def _decoded(self, values: Sequence[Any], pictures: Sequence[Picture | InvalidRequest], spec: InputSpec) -> Checked:
        return with_kept(values, decode_all(values, pictures, spec, self._limits), spec, pictures)

    async def _read_given(self, model: str, rows: Sequence[GivenRow]) -> Checked:
        """What models elsewhere said. Pictures beside it are for reviewers alone, and are not decoded."""
        read = self._given[model].read_all(rows)
        characters = sum(len(url) for row in rows for url in pictures_in(row.input))
        return await read_apart(characters, partial(with_kept_beside, rows, read))

    async def prepare(self, model: str, spec: InputSpec, work: Callable[[], T]) -> T:
        """Do what comes before pictures of a model are decoded in a thread, in the model's turn."""
        with ExitStack() as turn:
            await _enter(turn, self._line(model, spec).preparing)
            return await _in_thread(self._threads, turn, work)

    def queues(self) -> list[Queue]:
        """What waits now, of each model that was sent a large picture."""
        return [line.queue() for line in self._lines.values()]

    def close(self) -> None:
        """Give up what waits for a thread."""
        for threads in (self._threads, self._large):
            threads.shutdown(wait=False, cancel_futures=True)

    def _line(self, model: str, spec: InputSpec) -> PictureQueue:
        if model not in self._lines:
            self._lines[model] = PictureQueue(model, self._limits.pixels_of(spec))
        return self._lines[model]


async def _in_thread(threads: ThreadPoolExecutor, turn: ExitStack, work: Callable[[], T]) -> T:
    """Return what some work comes to. The turn ends with the work, also where nobody waits for it any more."""
    job = asyncio.get_running_loop().run_in_executor(threads, work)
    ends = turn.pop_all()
    job.add_done_callback(lambda _: ends.close())
    return await asyncio.shield(job)


def _step_back() -> None:
    """Let other threads go before this one, where the system has a priority for each thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


async def _enter(turn: ExitStack, gate: asyncio.Lock | asyncio.Semaphore) -> None:
    await gate.acquire()
    turn.callback(gate.release)

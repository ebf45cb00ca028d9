"""Pictures on their way to a model: who waits for whom, how much may wait, and what becomes of those who leave."""

import asyncio
import threading
from contextlib import suppress

import numpy as np
import pytest

from demur.serve.contract.batching import Overloaded
from demur.serve.contract.inputs import CheckedInput, InputLimits, InputSpec, TooLarge
from demur.serve.contract.reading.inputs import decode_all
from demur.serve.gateway import pictures
from demur.serve.gateway.pictures import MOST_KEPT, MOST_WAITING, PictureReader
from tests.serve.contract.reading.png_files import png, url

SPEC = InputSpec(kind="image", channels=1, height=8, width=8)
LARGE = url(png(200, 200))
SMALL = url(png(8, 8))
LIMITS = InputLimits(text_characters=100, image_pixels=40_000)
"""One picture of this size in a request."""

PATIENCE_SECONDS = 60


class Decoding:
    """The decoder, which waits until it is told to go on. It knows how many it works for at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Semaphore(0)
        self.begun: list[int] = []
        self.now, self.most = 0, 0
        self._lock = threading.Lock()
        self._real = decode_all
        monkeypatch.setattr(pictures, "decode_all", self._decode)

    def _decode(self, values, opened, spec, limits):
        with self._lock:
            self.begun.append(len(self.begun))
            self.now += 1
            self.most = max(self.most, self.now)
        self.go_on.acquire(timeout=PATIENCE_SECONDS)
        with self._lock:
            self.now -= 1
        return self._real(values, opened, spec, limits)

    def let_all_go_on(self) -> None:
        self.go_on.release(1000)

    async def until(self, n: int) -> None:
        """Come back when so many have begun."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.begun) < n:
                await asyncio.sleep(0.005)


@pytest.fixture
def decoding(monkeypatch):
    made = Decoding(monkeypatch)
    yield made
    made.let_all_go_on()


@pytest.fixture
def reader():
    made = PictureReader(LIMITS, {})
    yield made
    made.close()


async def read(reader: PictureReader, model: str, *values, spec: InputSpec = SPEC):
    with reader.request() as reading:
        return [one.value if isinstance(one, CheckedInput) else one for one in await reading(model, values, spec)]


async def settle() -> None:
    """Let everything that can go on without a thread do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def waiting(reader: PictureReader) -> dict[str, int]:
    return {model: n for _, model, n, _ in reader.queues()}


def test_large_pictures_are_read_like_small_ones(reader):
    async def work():
        found = await read(reader, "a", LARGE, [[0.5] * 8] * 8, SMALL, "a text", None)
        assert [getattr(one, "shape", str(one)[:40]) for one in found] == [
            (1, 24, 24),
            (1, 8, 8),
            "input: the images of one request have mo",
            "input: an image given as text must be a ",
            "input: this model takes an image, as nes",
        ]
        assert isinstance((await read(reader, "a", url(png(201, 200))))[0], TooLarge)
        assert await read(reader, "t", "a text", spec=InputSpec(kind="text")) == ["a text"]

    asyncio.run(work())
    assert waiting(reader) == {"a": 0}


def test_small_pictures_and_numbers_do_not_wait_for_large_ones(reader, decoding):
    async def work():
        flood = [asyncio.create_task(read(reader, "a", LARGE)) for _ in range(5)]
        await decoding.until(1)
        decoding.let_all_go_on()
        for value in (SMALL, [[0.5] * 8] * 8):
            step = read(reader, "a", value).send  # without the event loop: it comes to its end at the first step
            with pytest.raises(StopIteration) as ended:
                step(None)
            assert ended.value.value[0].shape == (1, 8, 8)
        await asyncio.gather(*flood)

    asyncio.run(work())


def test_a_flood_for_one_model_keeps_no_other_waiting(reader, decoding):
    async def work():
        flood = [asyncio.create_task(read(reader, "flooded", LARGE)) for _ in range(MOST_WAITING)]
        await decoding.until(1)
        other = asyncio.create_task(read(reader, "other", LARGE))
        await decoding.until(2)  # it has begun, though fifteen came before it
        third = asyncio.create_task(read(reader, "third", LARGE))
        await settle()
        assert decoding.most == 2  # of all models together
        decoding.go_on.release(2)
        await other
        decoding.let_all_go_on()
        await asyncio.gather(*flood, third)
        assert decoding.most == 2

    asyncio.run(work())


def test_what_is_too_much_is_refused_at_once_and_says_when_to_come_again(reader, decoding):
    async def work():
        flood = [asyncio.create_task(read(reader, "a", LARGE)) for _ in range(MOST_WAITING)]
        await decoding.until(1)
        with pytest.raises(Overloaded, match="640,000 pixels wait to be decoded for model a") as refused:
            await read(reader, "a", LARGE)
        assert refused.value.seconds > 0
        assert waiting(reader) == {"a": MOST_WAITING * 40_000}
        decoding.let_all_go_on()
        await asyncio.gather(*flood)
        await read(reader, "a", LARGE)

    asyncio.run(work())
    assert waiting(reader) == {"a": 0}


def test_what_was_decoded_counts_until_the_request_ends(reader):
    spec = InputSpec(kind="image", channels=1, height=100, width=100)  # nothing is shrunk

    async def work():
        requests = [reader.request() for _ in range(MOST_KEPT)]
        for request in requests:
            await request.__enter__()("a", [LARGE], spec)
        with pytest.raises(Overloaded, match="320,000 pixels of open requests are kept for model a"):
            await read(reader, "a", LARGE, spec=spec)
        assert waiting(reader) == {"a": 0}
        requests[0].__exit__(None, None, None)
        await read(reader, "a", LARGE, spec=spec)
        await read(reader, "a", LARGE, spec=spec)
        with reader.request() as reading:  # of which several models of a cascade may ask
            await reading("a", [LARGE], spec)
            with pytest.raises(Overloaded):
                await reading("a", [LARGE], spec)

    asyncio.run(work())


def test_who_leaves_waits_no_longer(reader, decoding):
    async def work():
        first, second, third = (asyncio.create_task(read(reader, "a", LARGE)) for _ in range(3))
        await decoding.until(1)
        await settle()
        second.cancel()
        await asyncio.wait([second])
        assert waiting(reader) == {"a": 80_000}
        decoding.let_all_go_on()
        await asyncio.gather(first, third)
        assert len(decoding.begun) == 2

    asyncio.run(work())


def test_what_was_begun_for_somebody_who_left_keeps_its_turn_until_it_ends(reader, decoding):
    """Else whoever sends pictures and leaves at once would have as many decoded at a time as there are threads."""

    async def work():
        for n in range(1, 6):
            leaving = asyncio.create_task(read(reader, "a", LARGE))
            if n == 1:
                await decoding.until(1)
            await settle()
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
        staying = asyncio.create_task(read(reader, "a", LARGE))
        await settle()
        await asyncio.sleep(0.05)
        assert decoding.begun == [0]
        decoding.let_all_go_on()
        assert (await staying)[0].shape == (1, 24, 24)
        assert decoding.most == 1

    asyncio.run(work())
    assert waiting(reader) == {"a": 0}


def test_requests_about_several_models_do_not_wait_for_each_other(reader):
    spec = InputSpec(kind="image", channels=1, height=100, width=100)

    async def both(first, second):
        with reader.request() as reading, suppress(Overloaded):
            for model in (first, second) * 3:
                await reading(model, [LARGE], spec)

    async def work():
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(both(*("ab" if n % 2 else "ba")) for n in range(12)))
        assert np.all([(await read(reader, model, LARGE, spec=spec))[0].shape == (1, 200, 200) for model in "ab"])

    asyncio.run(work())
    assert waiting(reader) == {"a": 0, "b": 0}

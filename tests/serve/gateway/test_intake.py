"""Bodies come in time and fit in memory, or are refused; none of them keeps another caller out."""

import asyncio

import pytest

from demur.serve.config.file import LimitsConfig
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway import intake as module
from demur.serve.gateway.intake import UNFINISHED, Arrival, BodyTooSlow, CallerLeft, Intake

POST = {"method": "POST", "headers": []}
LARGE = 10 * UNFINISHED


def intake_of(**limits):
    return Intake(LimitsConfig(**{"body_bytes": LARGE, **limits}))


class Sender:
    """A body that comes when a test says so."""

    def __init__(self, intake, owner="", *, scope=POST, most=LARGE):
        self._parts = asyncio.Queue()
        self.told = asyncio.create_task(self._read(intake, owner, scope, most))
        self.goes = asyncio.Event()

    def send(self, size, *, more=True):
        self._parts.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})

    def leave(self):
        self._parts.put_nowait({"type": "http.disconnect"})

    async def _read(self, intake, owner, scope, most):
        with Arrival(intake, owner) as arrival:
            again = await arrival.over_http(scope, self._parts.get, most=most)
            body = (await again())["body"]
            await self.goes.wait()
            return len(body)


async def soon():
    for _ in range(10):
        await asyncio.sleep(0)


def test_bodies_are_held_until_their_requests_are_over():
    async def main():
        intake = intake_of()
        large, small = Sender(intake), Sender(intake)
        large.send(5)
        small.send(5, more=False)
        await soon()
        assert intake.room.taken == UNFINISHED  # the small one came at once, and is not counted
        large.send(2 * UNFINISHED)
        await soon()
        assert intake.room.taken == 2 * UNFINISHED + 5
        large.send(0, more=False)
        await soon()
        assert (intake.room.taken, intake.coming) == (2 * UNFINISHED + 5, {})
        for one in (large, small):
            one.goes.set()
        assert [await large.told, await small.told] == [2 * UNFINISHED + 5, 5]
        assert intake.room.taken == 0

    asyncio.run(main())


@pytest.mark.parametrize("how", ["it leaves", "it is too long", "it says that it is too long", "it is given up"])
def test_nothing_is_held_of_what_is_read_no_further(how):
    async def main():
        intake = intake_of()
        long = {"method": "POST", "headers": [(b"content-length", b"%d" % (LARGE + 1))]}
        sender = Sender(intake, scope=long if "says" in how else POST)
        sender.send(5)
        if how == "it leaves":
            sender.leave()
        elif how == "it is too long":
            sender.send(LARGE)
        elif how == "it is given up":
            await soon()
            sender.told.cancel()
        expected = {"it leaves": CallerLeft, "it is given up": asyncio.CancelledError}.get(how, TooLarge)
        with pytest.raises(expected):
            await sender.told
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())


@pytest.mark.parametrize(
    ("parts", "limits", "why"),
    [
        ([], {"body_seconds": 0.1}, r"the body had not come within 0.1 s \(limits.body_seconds\)"),
        ([5], {"body_seconds": 0.1}, "the body had not come within 0.1 s"),
        ([5], {"body_bytes_per_second": 1e9}, "5 bytes of the body came in 0 s; after 0.2 s at least 1,000,000,000 a"),
        ([], {"body_bytes_per_second": 1e9}, "0 bytes of the body came in 0 s; after 0.2 s at least"),
    ],
)
def test_what_comes_too_slowly_is_read_no_further(monkeypatch, parts, limits, why):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)

    async def main():
        intake = intake_of(**limits)
        sender = Sender(intake)
        for size in parts:
            sender.send(size)
        with pytest.raises(BodyTooSlow, match=why):
            await sender.told
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())


def test_what_comes_at_the_least_pace_has_time(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)

    async def main():
        sender = Sender(intake_of(body_bytes_per_second=10))
        for _ in range(4):
            sender.send(1)
            await asyncio.sleep(0.08)  # 0.32 s in all, and each byte has brought a tenth of a second
        sender.send(1, more=False)
        sender.goes.set()
        assert await sender.told == 5

    asyncio.run(main())


def test_a_body_that_has_come_is_given_all_the_time_it_needs(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def main():
        sender = Sender(intake_of(body_seconds=0.1))
        sender.send(5)
        sender.send(LARGE - 5, more=False)
        await asyncio.sleep(0.3)
        sender.goes.set()
        assert await sender.told == LARGE

    asyncio.run(main())


def test_where_there_is_no_room_the_newest_is_refused_until_others_are_slow(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)

    async def main():
        intake = intake_of(open_bytes=3 * LARGE, share_per_key=1, body_bytes_per_second=1)
        slow = [Sender(intake) for _ in range(3)]
        for one in slow:
            one.send(LARGE - 1)
            await soon()
        refused = Sender(intake)
        refused.send(UNFINISHED)
        with pytest.raises(Overloaded, match="bytes of bodies are held here already"):
            await refused.told
        await asyncio.sleep(0.3)
        quick = Sender(intake)
        quick.send(LARGE - 1)
        quick.send(1, more=False)
        with pytest.raises(Overloaded):  # the oldest has given way, and no other
            await slow[0].told
        await soon()
        assert not any(one.told.done() for one in (*slow[1:], quick))
        assert intake.room.taken == 3 * LARGE - 2
        quick.goes.set()
        assert await quick.told == LARGE
        for one in slow[1:]:
            one.send(1, more=False)
            one.goes.set()
            assert await one.told == LARGE
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())


def test_a_part_that_comes_as_its_body_gives_way_changes_nothing(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)

    async def main():
        intake = intake_of(open_bytes=LARGE, share_per_key=1, body_bytes_per_second=1)
        slow = Sender(intake)
        slow.send(LARGE - 1)
        await asyncio.sleep(0.2)
        quick = Sender(intake)
        quick.send(LARGE, more=False)
        slow.send(0)  # in the same turn of the loop
        with pytest.raises(Overloaded):
            await slow.told
        quick.goes.set()
        assert await quick.told == LARGE
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())


def test_who_has_used_up_a_share_gives_way_to_itself_alone(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)

    async def main():
        intake = intake_of(open_bytes=4 * LARGE, share_per_key=0.75, body_bytes_per_second=1)
        modest = Sender(intake, "modest")
        modest.send(LARGE)
        greedy = [Sender(intake, "greedy") for _ in range(2)]
        for one in greedy:
            one.send(LARGE)
        await asyncio.sleep(0.2)
        another = Sender(intake, "greedy")
        another.send(LARGE, more=False)
        with pytest.raises(Overloaded, match=f"{2 * LARGE:,} bytes of bodies are held here already for 'greedy' alone"):
            await greedy[0].told
        await soon()
        assert not any(one.told.done() for one in (modest, greedy[1], another))
        for one in (modest, greedy[1], another):
            one.told.cancel()
        await asyncio.gather(modest.told, greedy[1].told, another.told, return_exceptions=True)
        assert intake.room.taken == 0

    asyncio.run(main())


@pytest.mark.slow
def test_three_thousand_bodies_that_never_come_take_little(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.5)

    async def main():
        intake = intake_of(body_bytes=16 * 2**20)
        idle = [Sender(intake, most=16 * 2**20) for _ in range(3020)]
        for one in idle:
            one.send(1)
        await asyncio.sleep(0.1)
        assert intake.room.taken == 3020 * UNFINISHED
        quick = Sender(intake, most=16 * 2**20)
        quick.send(16 * 2**20, more=False)
        quick.goes.set()
        assert await quick.told == 16 * 2**20
        told = await asyncio.gather(*(one.told for one in idle), return_exceptions=True)
        assert {type(one) for one in told} == {BodyTooSlow}
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 7), (0.2, 7), (5.0, BodyTooSlow)])
def test_over_grpc_a_slow_message_counts_as_long_as_it_may_be(monkeypatch, seconds, expected):
    monkeypatch.setattr(module, "QUICK_SECONDS", 0.05)

    async def main():
        intake = intake_of(body_seconds=0.5)

        async def coming():
            await asyncio.sleep(seconds)
            return b"message"

        async def read():
            with Arrival(intake, "") as arrival:
                return len(await arrival.over_grpc(coming()))

        told = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        assert intake.room.taken == (LARGE if seconds else 0)
        if expected is BodyTooSlow:
            with pytest.raises(BodyTooSlow, match=r"within 0\.5 s"):
                await told
        else:
            assert await told == expected
        assert (intake.room.taken, intake.coming) == (0, {})

    asyncio.run(main())

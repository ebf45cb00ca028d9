import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.contract import batching
from demur.serve.contract.batching import LONGEST_RETRY_SECONDS, GreedyBatcher, Overloaded, Pace, TurnBatcher


class Sender:
    """Doubles numbers, remembers batches, and waits until it is let go."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, items):
        self.batches.append(list(items))
        await self.gate.wait()
        if any(item < 0 for item in items):
            raise ValueError("negative")
        return [item * 2 for item in items]


def batcher(send, **changes):
    return GreedyBatcher(send, **{"max_size": 4, "in_flight": 1, "max_queued": 100, "name": "x", **changes})


def test_what_comes_together_goes_together():
    async def main():
        send = Sender()
        gather = batcher(send)
        results = await asyncio.gather(*(gather.submit([i]) for i in range(3)))
        assert results == [[0], [2], [4]]
        assert send.batches == [[0, 1, 2]]

    asyncio.run(main())


def test_alone_an_item_leaves_at_once_and_under_load_batches_fill():
    async def main():
        send = Sender()
        gather = batcher(send)
        send.gate.clear()
        first = asyncio.create_task(gather.submit([0]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        later = [asyncio.create_task(gather.submit([i])) for i in range(1, 7)]
        await asyncio.sleep(0.01)
        assert send.batches == [[0]]
        assert gather.queued == 6
        send.gate.set()
        assert await asyncio.gather(first, *later) == [[2 * i] for i in range(7)]
        assert send.batches == [[0], [1, 2, 3, 4], [5, 6]]

    asyncio.run(main())


def test_beside_others_a_small_batch_waits_until_it_is_as_large_as_the_last(monkeypatch):
    monkeypatch.setattr(batching, "PATIENCE_SECONDS", 3600.0)

    async def main():
        send = Sender()
        gather = batcher(send, in_flight=3, alone=1, max_size=8)
        send.gate.clear()
        asked = [asyncio.create_task(gather.submit([0, 1, 2]))]
        await asyncio.sleep(0.01)
        for number in (3, 4):
            asked.append(asyncio.create_task(gather.submit([number])))
            await asyncio.sleep(0.01)
            assert send.batches == [[0, 1, 2]]
        asked.append(asyncio.create_task(gather.submit([5])))
        await asyncio.sleep(0.01)
        assert send.batches[1:] == [[3, 4, 5]]
        asked.append(asyncio.create_task(gather.submit([6])))
        await asyncio.sleep(0.01)
        assert len(send.batches) == 2
        send.gate.set()
        assert await asyncio.gather(*asked) == [[0, 2, 4], [6], [8], [10], [12]]
        assert send.batches[2:] == [[6]]

    asyncio.run(main())


def test_a_small_batch_leaves_after_a_moment_beside_one_that_does_not_come_back():
    async def main():
        stuck, sent = asyncio.Event(), []

        async def send(items):
            sent.append(items)
            if 0 in items:
                await stuck.wait()
            return items

        gather = batcher(send, in_flight=2, alone=1, max_size=8)
        first = asyncio.create_task(gather.submit([0, 1, 2]))
        await asyncio.sleep(0.01)
        for number in (3, 4):
            assert await asyncio.wait_for(gather.submit([number]), 30) == [number]
        assert sent == [[0, 1, 2], [3], [4]]
        stuck.set()
        assert await first == [0, 1, 2]

    asyncio.run(main())


def test_a_full_batch_leaves_beside_a_larger_call():
    async def main():
        send = Sender()
        gather = batcher(send, in_flight=2, alone=1, max_size=4)
        send.gate.clear()
        asked = [asyncio.create_task(gather.submit(range(4))), asyncio.create_task(gather.submit(range(4)))]
        await asyncio.sleep(0.01)
        assert len(send.batches) == 2
        send.gate.set()
        await asyncio.gather(*asked)

    asyncio.run(main())


def test_what_is_done_then_keeps_no_batch_from_leaving_and_is_done_for_those_who_wait():
    async def main():
        send, done, gate = Sender(), [], asyncio.Event()

        async def then(items, results):
            done.append(items)
            await gate.wait()
            return [result + 1 for result in results]

        gather = batcher(send, then=then)
        first = asyncio.create_task(gather.submit([0, 1]))
        await asyncio.sleep(0.01)
        send.gate.clear()
        second, left = asyncio.create_task(gather.submit([2])), asyncio.create_task(gather.submit([3]))
        await asyncio.sleep(0.01)
        assert (done, send.batches) == ([[0, 1]], [[0, 1], [2, 3]])
        left.cancel()
        send.gate.set()
        gate.set()
        assert await asyncio.gather(first, second) == [[1, 3], [5]]
        assert done == [[0, 1], [2]]

    asyncio.run(main())


def test_what_fails_then_fails_its_callers():
    async def main():
        async def then(items, results):
            raise ValueError("then")

        gather = batcher(Sender(), then=then)
        assert [type(one) for one in await asyncio.gather(gather.submit([1]), return_exceptions=True)] == [ValueError]

    asyncio.run(main())


@given(st.lists(st.integers(1, 11), min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 3))
def test_everybody_gets_their_own_results_in_order(sizes, max_size, in_flight):
    async def main():
        send = Sender()
        gather = batcher(send, max_size=max_size, in_flight=in_flight, max_queued=1000)
        calls, start = [], 0
        for size in sizes:
            calls.append(list(range(start, start + size)))
            start += size
        results = await asyncio.gather(*(gather.submit(call) for call in calls))
        assert results == [[2 * i for i in call] for call in calls]
        assert max(map(len, send.batches)) <= max_size
        assert sum(map(len, send.batches)) == start

    asyncio.run(main())


def test_a_failing_batch_fails_its_callers_and_nobody_else():
    async def main():
        gather = batcher(Sender(), max_size=1)
        results = await asyncio.gather(*(gather.submit([i]) for i in (1, -1, 2)), return_exceptions=True)
        assert results[0] == [2]
        assert isinstance(results[1], ValueError)
        assert results[2] == [4]

    asyncio.run(main())


def test_too_much_is_refused_at_once():
    async def main():
        send = Sender()
        send.gate.clear()
        gather = batcher(send, max_size=1, max_queued=2)
        tasks = [asyncio.create_task(gather.submit([0]))]
        await asyncio.sleep(0.01)  # it is away
        tasks += [asyncio.create_task(gather.submit([i])) for i in (1, 2)]
        await asyncio.sleep(0.01)  # they wait
        with pytest.raises(Overloaded, match="2 items wait for x already"):
            await gather.submit([9])
        send.gate.set()
        assert await asyncio.gather(*tasks) == [[0], [2], [4]]

    asyncio.run(main())


def test_a_caller_that_went_away_is_not_served():
    async def main():
        send = Sender()
        send.gate.clear()
        gather = batcher(send, max_size=1)
        first = asyncio.create_task(gather.submit([1]))
        await asyncio.sleep(0.01)
        gone, stays = asyncio.create_task(gather.submit([2])), asyncio.create_task(gather.submit([3]))
        await asyncio.sleep(0.01)
        gone.cancel()
        send.gate.set()
        assert await asyncio.gather(first, stays) == [[2], [6]]
        assert send.batches == [[1], [3]]
        assert gather.queued == 0

    asyncio.run(main())


def test_the_places_of_those_who_went_away_are_free_again():
    async def main():
        send = Sender()
        send.gate.clear()
        gather = batcher(send, max_size=2, max_queued=4)
        first = asyncio.create_task(gather.submit([1]))
        await asyncio.sleep(0.01)
        gone = [asyncio.create_task(gather.submit([9, 9])) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await gather.submit([2])
        gone[1].cancel()
        await asyncio.sleep(0.01)
        stays = asyncio.create_task(gather.submit([2, 3]))
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded, match="4 items wait"):
            await gather.submit([4])
        gone[0].cancel()
        send.gate.set()
        assert await asyncio.gather(first, stays) == [[2], [4, 6]]
        assert send.batches == [[1], [2, 3]]
        assert gather.queued == 0

    asyncio.run(main())


def test_how_long_it_will_take_follows_what_was_done_lately():
    now = 100.0
    pace = Pace(lambda: now)
    for _ in range(80):
        now += 0.1
        pace.note(10)
    assert 4 < pace.seconds_for(500) < 6  # of a hundred a second
    for _ in range(80):
        now += 0.1
        pace.note(100)
    assert 0.4 < pace.seconds_for(500) < 0.6
    now += 1000  # nothing is done any more
    assert pace.seconds_for(500) == LONGEST_RETRY_SECONDS
    assert Pace(lambda: 0.0).seconds_for(5) == 0


def test_who_is_refused_is_told_for_how_long():
    async def main():
        send = Sender()
        gather = batcher(send, max_size=1, max_queued=1)
        gather._pace = Pace(iter([0.0, *[10.0] * 99]).__next__)
        send.gate.clear()
        tasks = [asyncio.create_task(gather.submit([0]))]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(gather.submit([1])))
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded) as refused:
            await gather.submit([2])
        assert refused.value.seconds == 10.0
        send.gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_what_is_asked_for_in_one_turn_is_done_in_one_go():
    async def main():
        done = []

        def double(items):
            done.append(list(items))
            return [item * 2 for item in items]

        together = TurnBatcher(double)
        assert await asyncio.gather(*(together.one(i) for i in range(3))) == [0, 2, 4]
        assert await together.one(5) == 10
        assert done == [[0, 1, 2], [5]]

    asyncio.run(main())


def test_what_cannot_be_done_together_is_done_one_by_one():
    async def main():
        def halve(items):
            if any(item % 2 for item in items):
                raise ValueError(f"odd among {items}")
            return [item // 2 for item in items]

        together = TurnBatcher(halve)
        found = await asyncio.gather(*(together.one(i) for i in (2, 3, 4)), return_exceptions=True)
        assert [found[0], found[2]] == [1, 2]
        assert str(found[1]) == "odd among [3]"

    asyncio.run(main())


def test_who_went_away_is_not_waited_for():
    async def main():
        done = []
        together = TurnBatcher(lambda items: done.append(list(items)) or items)
        gone, stays = (asyncio.create_task(together.one(i)) for i in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == 1
        assert done == [[1]]
        gone = asyncio.create_task(together.one(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert await together.one(3) == 3
        assert done == [[1], [3]]

    asyncio.run(main())


def test_more_may_be_away_from_one_moment_to_the_next_and_then_less():
    async def main():
        send = Sender()
        gather = batcher(send, max_size=1)
        send.gate.clear()
        asked = [asyncio.create_task(gather.submit([i])) for i in range(8)]
        await asyncio.sleep(0.01)
        assert send.batches == [[0]]
        gather.in_flight = 3
        asked.append(asyncio.create_task(gather.submit([8])))  # it is looked at when something happens
        await asyncio.sleep(0.01)
        assert send.batches == [[0], [1], [2]]
        gather.in_flight = 1
        send.gate.set()
        assert await asyncio.gather(*asked) == [[2 * i] for i in range(9)]
        assert len(send.batches) == 9

    asyncio.run(main())

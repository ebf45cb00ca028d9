import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.gateway.batching import GreedyBatcher, Overloaded, Together


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


def test_what_is_asked_for_in_one_turn_is_done_in_one_go():
    async def main():
        done = []

        def double(items):
            done.append(list(items))
            return [item * 2 for item in items]

        together = Together(double)
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

        together = Together(halve)
        found = await asyncio.gather(*(together.one(i) for i in (2, 3, 4)), return_exceptions=True)
        assert [found[0], found[2]] == [1, 2]
        assert str(found[1]) == "odd among [3]"

    asyncio.run(main())


def test_who_went_away_is_not_waited_for():
    async def main():
        done = []
        together = Together(lambda items: done.append(list(items)) or items)
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

"""Whether `generate()` of transformers could serve the quickstart's language model: `python -m benchmarks.decoding`.

Two ways take turns on one model. Ours is the decoder of the host `transformers`. The other gathers what waits, as it is
usual: all requests of a turn become one padded batch for `model.generate`, and none of them comes back before the last
one is written. Both give each reply with the log-probabilities of its tokens, which the scores need.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from demur.serve.contract.batching import GreedyBatcher
from demur.serve.contract.engine import Asking
from demur.serve.contract.messages import Message
from demur.serve.hosts.language.transformers_engine import TransformersEngine

CHECKPOINT = "deploy/models/sums"
MAX_TOKENS = 32
ROUNDS = 7


class Generate:
    """`model.generate` behind a greedy batcher, in one thread."""

    def __init__(self, engine: TransformersEngine) -> None:
        self._model, self._template = engine._model, engine._template
        self._pad = engine._decoder._pad
        self._batcher: GreedyBatcher[tuple[list[int], Asking], list[float]] = GreedyBatcher(
            lambda items: asyncio.to_thread(self._run, items), max_size=64, in_flight=1, max_queued=10_000, name="model"
        )

    async def ask(self, messages: Sequence[Message], asking: Asking) -> list[float]:
        return (await self._batcher.submit([(self._template.read(messages).ids, asking)]))[0]

    def _run(self, items: list[tuple[list[int], Asking]]) -> list[list[float]]:
        longest = max(len(ids) for ids, _ in items)
        ids = torch.tensor([[self._pad] * (longest - len(one)) + one for one, _ in items])
        mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one, _ in items])
        asking = items[0][1]
        how: dict[str, Any] = {"do_sample": False}
        if asking.temperature > 0:
            how = {"do_sample": True, "temperature": asking.temperature, "num_return_sequences": asking.n}
        with torch.inference_mode():
            found = self._model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=asking.max_tokens,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=self._pad,
                **how,
            )
        chosen = found.sequences[:, longest:]
        logprobs = torch.stack(found.logits, dim=1).log_softmax(dim=-1).gather(2, chosen[:, :, None])[:, :, 0]
        return [logprobs[row * asking.n].tolist() for row in range(len(items))]


async def seconds_of(ask: Any, asking: Asking, at_once: int, requests: Sequence[Sequence[Message]]) -> float:
    """How long all requests take, so many at a time."""
    waiting = iter(requests)

    async def caller() -> None:
        for messages in waiting:
            await ask(messages, asking)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return time.perf_counter() - began


def requests(n: int, rng: random.Random) -> list[list[Message]]:
    return [
        [{"role": "user", "content": f"What is {rng.randint(1, 10 ** rng.randint(1, 4))} + {rng.randint(1, 999)}?"}]
        for _ in range(n)
    ]


async def main(n: int, rounds: int) -> None:
    engine = await TransformersEngine.started(_host())
    ways = {"ours": engine.generate, "generate()": Generate(engine).ask}
    table = Table()
    for column in ("what", "at a time", "ours, requests/s", "generate(), requests/s", "ours is faster by"):
        table.add_column(column, justify="left" if column == "what" else "right")
    greedy = Asking(max_tokens=MAX_TOKENS, logprobs=True)
    sampled = Asking(max_tokens=MAX_TOKENS, logprobs=True, temperature=1.0, n=10)
    for what, asking, many in (("one greedy reply", greedy, n), ("ten samples", sampled, max(8, n // 4))):
        for at_once in (1, 8, 32):
            rng = random.Random(at_once)  # noqa: S311 - exercises
            rates: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                asked = requests(many, rng)
                for way, ask in ways.items():
                    rates[way].append(many / await seconds_of(ask, asking, at_once, asked))
            ours, theirs = (statistics.median(rates[way]) for way in ways)
            ratio = statistics.median(a / b for a, b in zip(*rates.values(), strict=True))
            table.add_row(what, str(at_once), f"{ours:.0f}", f"{theirs:.0f}", f"{ratio:.2f}")
    Console().print(table)
    await engine.close()


def _host() -> Any:
    from demur.serve.config.hosts.language import TransformersHost

    return TransformersHost(kind="transformers", checkpoint=CHECKPOINT, device="cpu")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    told = parser.parse_args()
    asyncio.run(main(told.requests, told.rounds))

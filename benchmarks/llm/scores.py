"""What each score costs on vLLM: `python -m benchmarks.llm.scores`, in the environment that has vLLM.

Three ways take turns on one engine, with the same conversations: the bare engine asked for a text; the bare engine
asked for the log-probabilities as well that a score needs; and demur, which asks for the same and judges them. What the
second takes beyond the first is the engine's share, what the third takes beyond the second is ours.
"""

import argparse
import asyncio
import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.llm.subjects import (
    BINARY,
    CHOICE,
    GENERATE,
    MAX_TOKENS,
    OF_LOGPROBS,
    configured,
    exercises,
    fitted,
    markdown,
    read,
)
from benchmarks.llm.turns import Ask, Turns, in_turns, quartiles, shares, turn
from demur.policies.decision import Action
from demur.policies.selector import Selector
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.language import VllmHost
from demur.serve.contract.batching import TurnBatcher
from demur.serve.contract.engine import Asking
from demur.serve.contract.inputs import Conversation, ModelInput
from demur.serve.contract.messages import Message
from demur.serve.contract.model import ModelRequest, MoreSamples
from demur.serve.hosts.language.budget import more
from demur.serve.hosts.language.model import ALTERNATIVES, LanguageModel
from demur.serve.hosts.language.vllm_engine import VllmEngine
from demur.uncertainty.generation import Usage
from demur.uncertainty.output import Output

REQUESTS = {1: 12, 16: 96, 64: 192}
"""In one turn, by how many are asked at a time."""

SINGLE_PASS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "`trace_tokens`": (("trace_tokens",), None),
    "`g_nll`": (("g_nll",), 0),
    "the seven of log-probabilities": (OF_LOGPROBS, 0),
    "`token_entropy`": (("token_entropy",), ALTERNATIVES),
    "all eight": ((*OF_LOGPROBS, "token_entropy"), ALTERNATIVES),
}
"""Scores, and the `logprobs` that vLLM is asked for; None for those of the text, here of traces."""

UNSHUFFLED = {"prompt": {"shuffle": False}}
BUDGET = {"samples": {"min": 3, "max": 10, "stop": "decision"}}

DECISIONS: dict[str, tuple[str, tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "`g_nll`": ("choice", ("g_nll",), CHOICE, {}),
    "`softmax_response` of first tokens": (
        *("claim", ("softmax_response",), BINARY),
        {"prompt": {"probabilities": "first_token"}},
    ),
    "`softmax_response` of full labels": (
        *("claim", ("softmax_response",), BINARY),
        {"prompt": {"probabilities": "full_label"}},
    ),
    "`sample_disagreement`, 10 texts": ("total", ("sample_disagreement",), GENERATE, {}),
    "`semantic_entropy`, 10 samples, options shuffled": ("choice", ("semantic_entropy",), CHOICE, {}),
    "`semantic_entropy`, 10 samples": ("choice", ("semantic_entropy",), CHOICE, UNSHUFFLED),
    "`semantic_entropy`, 3 to 10, `stop: decision`": (
        *("choice", ("semantic_entropy",), CHOICE),
        {**UNSHUFFLED, **BUDGET},
    ),
}
"""The exercise, the scores, the task and its settings."""


class Bare:
    """The same engine without demur: a conversation in, a text and what was asked for out."""

    def __init__(self, engine: VllmEngine) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._engine, self._template = engine._engine, engine._template
        self._params, self._last = SamplingParams, RequestOutputKind.FINAL_ONLY
        self._numbers = itertools.count()

    async def ask(self, messages: Sequence[Message], logprobs: int | None) -> None:
        ids = self._template.read(messages).ids
        asked = self._params(
            temperature=0.0, max_tokens=MAX_TOKENS, logprobs=logprobs, output_kind=self._last, skip_clone=True
        )
        name = f"bare-{next(self._numbers)}"
        async for _ in self._engine.generate({"type": "token", "prompt_token_ids": ids}, asked, request_id=name):
            pass


class Judged:
    """A configured model on the engine, with what was fitted for it. As in a host, what the engine ends in one step is
    judged together."""

    def __init__(self, model: LanguageModel, selector: Selector, inputs: list[ModelInput], more: MoreSamples) -> None:
        self._model, self._selector, self._inputs, self._more = model, selector, inputs, more
        self._judging: TurnBatcher[Output, Action] = TurnBatcher(self._judge)

    @classmethod
    async def on(cls, engine: VllmEngine, task: str, settings: dict[str, Any]) -> "Judged":
        config, rows = ModelConfig.model_validate(settings), exercises(task)
        model, selector = await fitted(config, engine, rows)
        return cls(model, selector, read(rows, model), more([selector], config.samples))

    def input(self, number: int) -> ModelInput:
        return self._inputs[number % len(self._inputs)]

    async def ask(self, number: int) -> Usage:
        """Decide about one input, and say what that took."""
        output = await self._model.run(
            ModelRequest(inputs=[self.input(number)], needs=self._selector.needs, more=self._more)
        )
        await self._judging.one(output)
        assert output.replies is not None
        usage: Usage = output.replies[0].usage
        return usage

    def _judge(self, outputs: Sequence[Output]) -> tuple[Action, ...]:
        return self._selector.decide(Output.concatenate(outputs)).decisions.actions


async def single_pass(engine: VllmEngine, task: str, rounds: int, bar: Progress) -> str:
    """Each set of scores, at each concurrency."""
    bare, lines = Bare(engine), []
    sets = {title: one for title, one in SINGLE_PASS.items() if task == "think" or one[1] is not None}
    work = bar.add_task(f"single pass: {task}", total=len(sets) * len(REQUESTS) * rounds)
    for title, (scores, logprobs) in sets.items():
        judged = await Judged.on(engine, task, configured(*scores, task=GENERATE))
        ways: dict[str, Ask] = {"alike": _bare_way(bare, judged, logprobs), "judged": judged.ask}
        if logprobs is not None:
            ways["nothing"] = _bare_way(bare, judged, None)
        for concurrency, requests in REQUESTS.items():
            turns = await in_turns(
                ways, requests=requests, concurrency=concurrency, rounds=rounds, after_each=lambda: bar.advance(work)
            )
            lines.append([title, str(concurrency), *_told(turns)])
            bar.console.print(" | ".join(lines[-1]), markup=False)
    columns = ["scores", "at a time", "text only, ms", "asked alike, ms", "demur, ms", "engine's share", "our share"]
    of_processor = ["our share of processor time", "quartiles", "in the calmest turns"]
    return markdown([*columns, "quartiles", *of_processor], lines)


def _bare_way(bare: Bare, judged: Judged, logprobs: int | None) -> Ask:
    async def ask(number: int) -> None:
        value = judged.input(number)
        assert isinstance(value, Conversation)
        await bare.ask(value.messages, logprobs)

    return ask


def _told(turns: dict[str, Turns]) -> list[str]:
    alike, ours = turns["alike"], turns["judged"]
    nothing = turns.get("nothing", alike)
    return [
        *(f"{statistics.median(one.wall):.2f}" for one in (nothing, alike, ours)),
        _percent(statistics.median(shares(nothing.wall, alike.wall))),
        *_with_quartiles(shares(alike.wall, ours.wall)),
        *_with_quartiles(shares(alike.processor, ours.processor)),
        _percent(*shares([min(alike.processor)], [min(ours.processor)])),
    ]


def _with_quartiles(values: Sequence[float]) -> tuple[str, str]:
    low, middle, high = map(_percent, quartiles(values))
    return middle, f"{low} to {high}"


async def decisions(engine: VllmEngine, rounds: int, bar: Progress) -> str:
    """What a decision takes, whatever it asks for: calls, tokens, milliseconds."""
    work, lines = bar.add_task("decisions", total=len(DECISIONS) * rounds), []
    for title, (exercise, scores, task, settings) in DECISIONS.items():
        judged = await Judged.on(engine, exercise, configured(*scores, task=task, **settings))
        usages: list[Usage] = []
        ask = _noting(judged, usages.append)
        alone, crowded = Turns(), Turns()
        for number in range(rounds):
            await turn(ask, range(number * 32, number * 32 + 32), 1, alone)
            await turn(ask, range(number * 96, number * 96 + 96), 16, crowded)
            bar.advance(work)
        counts = [
            statistics.mean(getattr(usage, name) for usage in usages)
            for name in ("calls", "prompt_tokens", "completion_tokens")
        ]
        times = [statistics.median(turns.wall) for turns in (alone, crowded)]
        lines.append([title, *(f"{value:.1f}" for value in (*counts, *times))])
    return markdown(["what is read", "calls", "tokens read", "tokens written", "ms, 1 at a time", "ms, 16"], lines)


def _noting(judged: Judged, note: Callable[[Usage], None]) -> Ask:
    async def ask(number: int) -> None:
        note(await judged.ask(number))

    return ask


async def shared_prompt(engine: VllmEngine, rounds: int, bar: Progress) -> str:
    """Ten samples of one prompt against ten requests for one sample. No two turns see the same prompt."""
    work, lines = bar.add_task("shared prompt", total=2 * rounds), []
    for earlier in (0, 10):
        asked = _Samples(engine, earlier)
        turns = await in_turns(
            {"one": asked.one, "ten, one by one": asked.in_turn, "ten at once": asked.at_once, "together": asked.n_ten},
            requests=12,
            concurrency=1,
            rounds=rounds,
            after_each=lambda: bar.advance(work),
        )
        lines.append(
            [f"{statistics.mean(asked.read):.0f}", *(f"{statistics.median(one.wall):.1f}" for one in turns.values())]
        )
    columns = ["tokens of the prompt", "one sample, ms", "ten requests, one by one", "ten requests at once"]
    return markdown([*columns, "one request for ten"], lines, left=0)


class _Samples:
    """Sampled replies to exercises with others before them, to make a long prompt."""

    def __init__(self, engine: VllmEngine, earlier: int) -> None:
        self._engine = engine
        self._earlier = earlier
        self._texts = [
            "\n".join(
                [one["question"], *(f"[{letter}] {text}" for letter, text in zip("ABCD", one["options"], strict=True))]
            )
            for one in exercises("choice").inputs
        ]
        self._numbers = itertools.count()
        self.read: list[int] = []

    def _messages(self) -> list[Message]:
        start = next(self._numbers)
        texts = [self._texts[(start * 7 + at) % len(self._texts)] for at in range(self._earlier + 1)]
        return [{"role": "user", "content": "\n".join(texts)}]

    async def _sample(self, messages: Sequence[Message], *, n: int, seed: int) -> None:
        replies = await self._engine.generate(messages, Asking(max_tokens=12, n=n, temperature=1.0, seed=seed))
        self.read.append(replies[0].prompt_tokens)

    async def one(self, number: int) -> None:
        await self._sample(self._messages(), n=1, seed=number)

    async def in_turn(self, number: int) -> None:
        messages = self._messages()
        for at in range(10):
            await self._sample(messages, n=1, seed=number + at)

    async def at_once(self, number: int) -> None:
        messages = self._messages()
        await asyncio.gather(*(self._sample(messages, n=1, seed=number + at) for at in range(10)))

    async def n_ten(self, number: int) -> None:
        await self._sample(self._messages(), n=10, seed=number)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


async def measure(options: argparse.Namespace) -> None:
    host = VllmHost.model_validate(configured("g_nll", task=GENERATE)["host"])
    engine = await VllmEngine.started(host)
    try:
        with Progress(transient=True) as bar:
            for task in options.tasks:
                print(f"\n{task}\n\n{await single_pass(engine, task, options.rounds, bar)}\n", flush=True)
            if options.rest:
                print(f"\n{await decisions(engine, options.rounds, bar)}\n", flush=True)
                print(f"\n{await shared_prompt(engine, options.rounds, bar)}\n", flush=True)
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--tasks", nargs="*", default=["total", "think"], help="replies of some 4, and of some 35 tokens"
    )
    parser.add_argument("--rest", action=argparse.BooleanOptionalAction, default=True, help="the other tables as well")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

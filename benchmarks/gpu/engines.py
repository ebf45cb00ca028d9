"""vLLM with and without log-probabilities, and demur beside `vllm serve`. Skipped where vLLM is not installed."""

import asyncio
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu.plan import Plan, Results
from benchmarks.serving.models import ROOT

VOCABULARY = 32_000
PROMPT, REPLY = 128, 64
"""Tokens."""


def engines(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure requests a second of an engine by how many log-probabilities are asked for."""
    columns = ("log-probabilities", "at a time", "requests/s", "tokens/s")
    table = Results(f"vLLM, prompts of {PROMPT} and replies of {REPLY} tokens", columns, words=1)
    if find_spec("vllm") is None:
        table.notes.append("Skipped: vllm is not installed in this environment (`pip install 'demur[vllm]'`).")
        return table
    with tempfile.TemporaryDirectory() as folder:
        _save_language_model(Path(folder), plan)
        asyncio.run(_measure(Path(folder), plan, table, tick))
    table.notes.append(_beside_serve(plan))
    return table


def _save_language_model(folder: Path, plan: Plan) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=1024, **plan.language)
    dtype = torch.bfloat16 if plan.is_gpu else torch.float32
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder)


async def _measure(folder: Path, plan: Plan, table: Results, tick: Callable[[], None]) -> None:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    settings = AsyncEngineArgs(
        model=str(folder), skip_tokenizer_init=True, max_model_len=512, max_num_seqs=64, disable_log_stats=True
    )
    engine = AsyncLLM.from_engine_args(settings)
    names = itertools.count()

    async def ask(logprobs: int | None) -> None:
        asked = SamplingParams(
            temperature=0.0, max_tokens=REPLY, ignore_eos=True, detokenize=False, logprobs=logprobs,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip
        name = next(names)
        prompt: Any = {"prompt_token_ids": [(name * 31 + at) % (VOCABULARY - 10) + 5 for at in range(PROMPT)]}
        async for _ in engine.generate(prompt, asked, request_id=f"r{name}"):
            pass

    try:
        for logprobs in (None, 0, 5, 20):
            for callers in plan.callers:
                await asyncio.gather(*(ask(logprobs) for _ in range(callers)))  # warms up
                rate = await _rate(lambda logprobs=logprobs: ask(logprobs), callers, 4 * plan.seconds)  # type: ignore[misc]
                told = "none" if logprobs is None else "of the written token" if logprobs == 0 else f"{logprobs} more"
                table.rows.append([told, callers, rate, rate * REPLY])
                tick()
    finally:
        engine.shutdown()


async def _rate(ask: Callable[[], Any], callers: int, seconds: float) -> float:
    began, done = time.perf_counter(), 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await ask()
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (time.perf_counter() - began)


def _beside_serve(plan: Plan) -> str:
    """The table of the benchmark that has demur and `vllm serve` stand beside each other."""
    rounds = ["--rounds", "1", "--seconds", "1", "--only", "total, log-probabilities"] if plan.small else []
    command = [sys.executable, "-m", "benchmarks.llm.served", *rounds]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if ended.returncode:
        return f"demur beside `vllm serve`: it ended with {ended.returncode}: {ended.stderr[-300:]}"
    return (
        f"demur beside `vllm serve`, the sums model (1.3 million parameters):\n\n{ended.stdout.split(chr(10) * 2)[-1]}"
    )

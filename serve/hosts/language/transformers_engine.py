"""A small language model of the transformers library, in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.hosts.language import TransformersHost
from demur.serve.contract.engine import Asking, EngineFailed, Gives, LabelLogprobs, Piece
from demur.serve.contract.messages import Message
from demur.serve.hosts.checkpoint import check_writes, first_line, local_folder
from demur.serve.hosts.classifier.loading import device_of, with_adapter
from demur.serve.hosts.language.adapter import check_adapter
from demur.serve.hosts.language.decoding import Decoder, DecodingRequest, DecodingRow, Place, as_array
from demur.serve.hosts.language.prompt_tokens import ChatTemplate, PromptTokens
from demur.serve.hosts.language.reasoning import ReasoningStream
from demur.serve.hosts.language.reply import TokenTexts, put_together
from demur.uncertainty.generation import Generation


class TransformersEngine:
    """Gives everything. Greedy and sampled requests are decoded together, and a seeded one is the same whatever else is
    decoded with it, up to the rounding of the model's numbers."""

    def __init__(
        self,
        checkpoint: str,
        *,
        device: str = "auto",
        adapter: Path | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        """`variables` are those of the chat template. Raises `BadCheckpoint`."""
        folder = local_folder(checkpoint)
        check_writes(checkpoint)
        where = device_of(device)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32 if where.type == "cpu" else "auto")
        except (OSError, ValueError, KeyError) as error:
            raise BadCheckpoint(
                f"{checkpoint} holds no language model that transformers can load: {first_line(error)}"
            ) from None
        check_adapter(adapter)
        if adapter is not None:
            model = with_adapter(model, adapter)
        longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._template = ChatTemplate(tokenizer, checkpoint, longest=longest, variables=variables)
        self._texts = TokenTexts(tokenizer)
        self._model = model.to(where).eval()
        self._end = _ends(tokenizer, model, checkpoint)
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self._end[0]
        self._decoder = Decoder(self._model, ends=frozenset(self._end), pad=pad, longest=longest)

    @classmethod
    async def started(cls, host: TransformersHost) -> "TransformersEngine":
        """Load the checkpoint. Raises `BadCheckpoint` where that cannot be done."""
        engine = await asyncio.to_thread(
            cls, host.checkpoint, device=host.device, adapter=host.adapter, variables=host.chat_template_kwargs
        )
        await engine.generate([{"role": "user", "content": "."}], Asking(max_tokens=1))
        return engine

    @property
    def gives(self) -> frozenset[Gives]:
        return frozenset({"logprobs", "top_logprobs", "label_logprobs", "constrained"})

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        prompt = self._template.read(messages)
        rows = await asyncio.wrap_future(self._decoder.write(self._request(prompt, asking)))
        return [self._generation(row, prompt, asking) for row in rows]

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
        prompt = self._template.read(messages)
        if first_token:
            first = self._template.first_tokens(labels)
            values = await asyncio.wrap_future(self._decoder.do(lambda: self._first_logprobs(prompt.ids, first)))
        else:
            written = [self._template.written(label) for label in labels]
            values = await asyncio.wrap_future(self._decoder.do(lambda: self._full_logprobs(prompt.ids, written)))
        return LabelLogprobs(values=as_array(values), prompt_tokens=len(prompt.ids))

    async def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        prompt = self._template.read(messages)
        loop = asyncio.get_running_loop()
        tokens: asyncio.Queue[int | None] = asyncio.Queue()
        request = self._request(prompt, asking)

        def tell(token: int | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody listens
                loop.call_soon_threadsafe(tokens.put_nowait, token)

        request.on_token = tell
        written = self._decoder.write(request)
        written.add_done_callback(lambda _: tell(None))
        text, parts = self._texts.growing(), ReasoningStream(opened=prompt.opened, stop=asking.stop)
        try:
            while (token := await tokens.get()) is not None:
                reasoning, answer = parts.add(text.add(token))
                if reasoning or answer:
                    yield Piece(text=answer, reasoning=reasoning)
            whole = self._generation(written.result()[0], prompt, asking)
            reasoning, answer = parts.end(whole.reasoning, whole.text)
            yield Piece(text=answer, reasoning=reasoning, whole=whole)
        finally:
            written.cancel()

    async def check_health(self) -> None:
        if self._decoder.failure is not None:
            raise EngineFailed(self._decoder.failure)

    async def close(self) -> None:
        await asyncio.to_thread(self._decoder.close)

    def _request(self, prompt: PromptTokens, asking: Asking) -> DecodingRequest:
        only = None if asking.only is None else Place.before(self._template.written(text) for text in asking.only)
        is_over = None
        if asking.stop:
            last = (
                4 * max(map(len, asking.stop)) + 8
            )  # a character has up to four tokens; told each time, it is at the end

            def is_over(ids: list[int]) -> bool:
                written = "".join(self._texts.of(ids[-last:]))
                return any(text in written for text in asking.stop)

        return DecodingRequest(prompt=prompt.ids, asking=asking, only=only, is_over=is_over)

    def _generation(self, row: DecodingRow, prompt: PromptTokens, asking: Asking) -> Generation:
        return put_together(
            self._texts.of(row.ids),
            logprobs=as_array(row.logprobs) if asking.logprobs else None,
            top_logprobs=row.top_logprobs if asking.logprobs and asking.top_logprobs else None,
            opened=prompt.opened,
            stop=asking.stop,
            finish_reason=row.finish_reason or "stop",
            prompt_tokens=len(prompt.ids),
            completion_tokens=row.passes,
        )

    def _first_logprobs(self, prompt: list[int], first: list[int]) -> list[float]:
        logits = self._model(input_ids=self._tensor([prompt]), logits_to_keep=1, use_cache=False).logits[0, -1]
        values: list[float] = logits.float().log_softmax(dim=0)[first].tolist()
        return values

    def _full_logprobs(self, prompt: list[int], written: list[list[int]]) -> list[float]:
        """ln P of each label and the end of the reply; the prompt is read once."""
        read = self._model(input_ids=self._tensor([prompt]), use_cache=True, logits_to_keep=1)
        count, longest = len(written), max(len(tokens) for tokens in written)
        cache = read.past_key_values
        cache.batch_select_indices(torch.zeros(count, dtype=torch.long, device=self._model.device))
        padded = self._tensor([[*tokens, *[self._end[0]] * (longest - len(tokens))] for tokens in written])
        output = self._model(
            input_ids=padded,
            attention_mask=torch.ones((count, len(prompt) + longest), dtype=torch.long, device=self._model.device),
            position_ids=torch.arange(len(prompt), len(prompt) + longest, device=self._model.device).expand(count, -1),
            past_key_values=cache,
        )
        before = read.logits[:, -1:].expand(count, -1, -1)
        logprobs = torch.cat([before, output.logits], dim=1).float().log_softmax(dim=2)
        return [
            sum(logprobs[i, at, token].item() for at, token in enumerate([*tokens, self._end[0]]))
            for i, tokens in enumerate(written)
        ]

    def _tensor(self, ids: list[list[int]]) -> torch.Tensor:
        return torch.tensor(ids, device=self._model.device)


def _ends(tokenizer: Any, model: Any, checkpoint: str) -> list[int]:
    """The tokens that end a reply, the tokenizer's own first."""
    of_model = model.generation_config.eos_token_id
    listed = of_model if isinstance(of_model, list) else [of_model]
    ends = list(dict.fromkeys(token for token in [tokenizer.eos_token_id, *listed] if token is not None))
    if not ends:
        raise BadCheckpoint(f"{checkpoint} names no token that ends a reply; set `eos_token` in tokenizer_config.json")
    return ends

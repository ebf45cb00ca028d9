"""Replies of a causal language model of transformers, token by token: requests that wait are decoded together.

One thread owns the model. Requests that wait become a padded group with a cache of its own, and a few groups take
turns, so that none waits for another to end. Rows of a group share a pass and nothing else: each has its settings and
its own random numbers. A row leaves as soon as it is written or its request is cancelled.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from demur.serve.contract.engine import Asking, EngineFailed
from demur.serve.hosts.checkpoint import first_line
from demur.uncertainty.checks import Array

T = TypeVar("T")

GROUPS = 4
"""That take turns. Further requests wait, and then share a group."""

ROWS = 64
"""Of a group, unless a single request wants more."""


@dataclass
class Place:
    """Where a constrained reply stands among the texts that it may become."""

    next: dict[int, "Place"] = field(default_factory=dict)
    is_whole: bool = False

    @classmethod
    def before(cls, texts: Iterable[Sequence[int]]) -> "Place":
        """The place before all of these texts, given as tokens."""
        root = cls()
        for tokens in texts:
            place = root
            for token in tokens:
                place = place.next.setdefault(token, cls())
            place.is_whole = True
        return root


@dataclass(kw_only=True)
class DecodingRow:
    """One reply, while it is written."""

    generator: torch.Generator
    place: Place | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[Array] = field(default_factory=list)
    passes: int = 0
    """Tokens that were chosen, the end included."""

    finish_reason: str | None = None


@dataclass(kw_only=True)
class DecodingRequest:
    """What is to be replied to, and how."""

    prompt: list[int]
    asking: Asking
    only: Place | None = None
    is_over: Callable[[list[int]], bool] | None = None
    """Told the tokens so far, whether a text that ends the reply is there."""

    on_token: Callable[[int], None] | None = None
    """Called in the thread of the model with each token of the first reply."""

    rows: list[DecodingRow] = field(default_factory=list)
    written: "Future[list[DecodingRow]]" = field(default_factory=Future)
    """Cancel it, and its rows leave at the next token."""


@dataclass(kw_only=True)
class Group:
    """Rows that are decoded together. `rows[i]` belongs to `requests[i]`."""

    requests: list[DecodingRequest]
    rows: list[DecodingRow]
    cache: Any
    mask: torch.Tensor
    """[B, T] 1 for tokens, 0 for padding, which is on the left."""

    logits: torch.Tensor
    """[B, V] of the next token."""


class Decoder:
    """The thread and its model. `longest` is how many tokens prompt and reply may have together."""

    def __init__(self, model: Any, *, ends: frozenset[int], pad: int, longest: int | None) -> None:
        self._model = model
        self._device = model.device
        self._ends = ends
        self._end_list = sorted(ends)
        self._pad = pad
        self._longest = longest
        self._waiting: queue.SimpleQueue[DecodingRequest | Callable[[], None] | None] = queue.SimpleQueue()
        self._broken: str | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="decoder", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why no further reply can come; None where it can."""
        if self._broken is not None:
            return self._broken
        return None if self._thread.is_alive() else "the thread of the model has ended"

    def write(self, request: DecodingRequest) -> "Future[list[DecodingRow]]":
        """Return what will be written."""
        self._put(request)
        return request.written

    def do(self, work: Callable[[], T]) -> "Future[T]":
        """Return what will come of some other work with the model, between two passes."""
        done: Future[T] = Future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                value = work()
            except Exception as error:
                self._note(error)
                _fail(done, EngineFailed(f"the model failed: {first_line(error)}"))
            else:
                _finish(done, value)

        self._put(run)
        return done

    def close(self) -> None:
        """End the thread. What was not written yet fails."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _put(self, item: "DecodingRequest | Callable[[], None]") -> None:
        if self._closed or self.failure is not None:
            raise EngineFailed(f"the model is not running: {self.failure or 'it was closed'}")
        self._waiting.put(item)

    def _run(self) -> None:
        groups: list[Group] = []
        held: list[DecodingRequest] = []
        with torch.inference_mode():
            while True:
                block = not groups and not held
                while block or not self._waiting.empty():
                    item = self._waiting.get()
                    block = False
                    if item is None:
                        self._abandon([*held, *(request for group in groups for request in group.requests)])
                        return
                    if isinstance(item, DecodingRequest):
                        held.append(item)
                    else:
                        item()
                if held and len(groups) < GROUPS:
                    taken, held = _first(held)
                    groups += self._guarded(taken, self._begin, taken)
                groups = [kept for group in groups for kept in self._guarded(group.requests, self._step, group)]

    def _guarded(self, requests: list[DecodingRequest], work: Callable[[T], Group | None], given: T) -> list[Group]:
        try:
            group = work(given)
        except Exception as error:  # whatever the model raises fails these requests, and no others
            self._note(error)
            for request in requests:
                _fail(request.written, EngineFailed(f"the model failed: {first_line(error)}"))
            return []
        return [] if group is None else [group]

    def _note(self, error: Exception) -> None:
        """A GPU that failed stays failed in this process, unless it was only full."""
        if self._device.type == "cuda" and not isinstance(error, torch.cuda.OutOfMemoryError):
            self._broken = first_line(error)

    def _abandon(self, requests: list[DecodingRequest]) -> None:
        while not self._waiting.empty():
            item = self._waiting.get()
            if isinstance(item, DecodingRequest):
                requests.append(item)
            elif item is not None:
                item()
        for request in requests:
            _fail(request.written, EngineFailed("the model was closed"))

    def _begin(self, requests: list[DecodingRequest]) -> Group | None:
        """Read the prompts, each once, and make a row for each reply to them."""
        requests = [request for request in requests if not request.written.cancelled()]
        if not requests:
            return None
        longest = max(len(request.prompt) for request in requests)
        ids = torch.full((len(requests), longest), self._pad)
        mask = torch.zeros((len(requests), longest), dtype=torch.long)
        for i, request in enumerate(requests):
            ids[i, longest - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[i, longest - len(request.prompt) :] = 1
        mask = mask.to(self._device)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        output = self._model(
            input_ids=ids.to(self._device),
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
        )
        owners = [i for i, request in enumerate(requests) for _ in range(request.asking.n)]
        for request in requests:
            request.rows = [
                DecodingRow(generator=_generator(request.asking.seed, index), place=request.only)
                for index in range(request.asking.n)
            ]
        cache = output.past_key_values
        index = torch.tensor(owners, device=self._device)
        if len(owners) != len(requests):
            cache.batch_select_indices(index)
        return Group(
            requests=[requests[i] for i in owners],
            rows=[row for request in requests for row in request.rows],
            cache=cache,
            mask=mask[index],
            logits=output.logits[:, -1].float()[index],
        )

    def _step(self, group: Group) -> Group | None:
        """Choose a token for each row, and read it; None once every row is written."""
        alive = [i for i, request in enumerate(group.requests) if not request.written.done()]
        if not alive:
            return None
        if len(alive) < len(group.rows):
            self._keep(group, alive)
        chosen = self._choose(group)
        self._note_tokens(group, chosen)
        kept = [i for i, row in enumerate(group.rows) if row.finish_reason is None]
        for request in {id(request): request for request in group.requests}.values():
            if all(row.finish_reason is not None for row in request.rows):
                _finish(request.written, request.rows)
        if not kept:
            return None
        if len(kept) < len(group.rows):
            self._keep(group, kept)
        group.mask = torch.cat([group.mask, group.mask.new_ones((len(kept), 1))], dim=1)
        output = self._model(
            input_ids=torch.tensor([[chosen[i]] for i in kept], device=self._device),
            attention_mask=group.mask,
            position_ids=group.mask.sum(dim=1, keepdim=True) - 1,
            past_key_values=group.cache,
            use_cache=True,
        )
        group.cache = output.past_key_values
        group.logits = output.logits[:, -1].float()
        return group

    def _keep(self, group: Group, rows: list[int]) -> None:
        index = torch.tensor(rows, device=self._device)
        group.cache.batch_select_indices(index)
        group.mask, group.logits = group.mask[index], group.logits[index]
        group.requests = [group.requests[i] for i in rows]
        group.rows = [group.rows[i] for i in rows]

    def _choose(self, group: Group) -> list[int]:
        """[B] the next tokens; what they are worth is noted in their rows."""
        allowed = self._allowed(group)
        greedy = allowed.argmax(dim=1).tolist()
        sampled = [i for i, request in enumerate(group.requests) if request.asking.temperature > 0]
        chosen: list[int] = greedy
        if sampled:
            for i, token in zip(sampled, _sampled(allowed, group, sampled), strict=True):
                chosen[i] = token
        told = [i for i, request in enumerate(group.requests) if request.asking.logprobs]
        if told:
            self._note_logprobs(group, told, chosen)
        return chosen

    def _allowed(self, group: Group) -> torch.Tensor:
        """[B, V] logits, with those ruled out that would lead away from the texts a reply must be one of."""
        if all(row.place is None for row in group.rows):
            return group.logits
        allowed = group.logits.clone()
        for i, row in enumerate(group.rows):
            if row.place is not None:
                tokens = list(row.place.next) + (self._end_list if row.place.is_whole else [])
                kept = allowed[i, tokens].clone()
                allowed[i] = -torch.inf
                allowed[i, tokens] = kept
        return allowed

    def _note_logprobs(self, group: Group, told: list[int], chosen: list[int]) -> None:
        logprobs = group.logits[told].log_softmax(dim=1)
        own = logprobs.gather(1, torch.tensor([[chosen[i]] for i in told], device=self._device))[:, 0].tolist()
        most = max(group.requests[i].asking.top_logprobs for i in told)
        top = logprobs.topk(min(most, logprobs.shape[1]), dim=1).values.double().cpu().numpy() if most else None
        for place, i in enumerate(told):
            group.rows[i].logprobs.append(own[place])
            if top is not None:
                group.rows[i].top_logprobs.append(top[place, : group.requests[i].asking.top_logprobs])

    def _note_tokens(self, group: Group, chosen: list[int]) -> None:
        for request, row, token in zip(group.requests, group.rows, chosen, strict=True):
            row.passes += 1
            if token in self._ends:
                row.finish_reason = "stop"
                del row.logprobs[len(row.ids) :], row.top_logprobs[len(row.ids) :]
                continue
            row.ids.append(token)
            if request.on_token is not None and row is request.rows[0]:
                request.on_token(token)
            if row.place is not None:
                row.place = row.place.next[token]
            leads_on = row.place is None or bool(row.place.next)  # else nothing but the end can follow
            if not leads_on or (request.is_over is not None and request.is_over(row.ids)):
                row.finish_reason = "stop"
            elif len(row.ids) >= request.asking.max_tokens or (
                self._longest is not None and len(request.prompt) + len(row.ids) >= self._longest
            ):
                row.finish_reason = "length"


def _first(held: list[DecodingRequest]) -> tuple[list[DecodingRequest], list[DecodingRequest]]:
    """Split requests into as many as make a group, and those that wait on."""
    rows, count = 0, 0
    for request in held:
        rows += request.asking.n
        if count and rows > ROWS:
            break
        count += 1
    return held[:count], held[count:]


def _generator(seed: int | None, index: int) -> torch.Generator:
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed((seed + index) % (1 << 63))
    return generator


def _sampled(logits: torch.Tensor, group: Group, rows: list[int]) -> list[int]:
    """A token for each of the rows, by one number of its own generator: the place where it falls among the tokens."""
    asked = [group.requests[i].asking for i in rows]
    temperature = torch.tensor([asking.temperature for asking in asked], device=logits.device)
    chances = (logits[rows] / temperature[:, None]).double().softmax(dim=1)
    if any(asking.top_p < 1 for asking in asked):
        top_p = torch.tensor([asking.top_p for asking in asked], device=logits.device, dtype=torch.double)
        ordered, order = chances.sort(dim=1, descending=True)
        before = ordered.cumsum(dim=1) - ordered
        ordered[(before >= top_p[:, None]) & (before > 0)] = 0
        chances = torch.zeros_like(chances).scatter(1, order, ordered)
    ends = chances.cumsum(dim=1)
    drawn = [torch.rand(1, generator=group.rows[i].generator, dtype=torch.double).item() for i in rows]
    at = torch.tensor(drawn, device=logits.device, dtype=torch.double)[:, None] * ends[:, -1:]
    last = chances.shape[1] - 1 - chances.flip(1).gt(0).float().argmax(dim=1)  # the last token with any chance
    found = torch.searchsorted(ends, at, right=True)[:, 0]
    tokens: list[int] = torch.minimum(found, last).tolist()
    return tokens


def _finish(future: "Future[T]", value: T) -> None:
    if not future.done():
        try:
            future.set_result(value)
        except InvalidStateError:  # it was cancelled between the two lines
            return


def _fail(future: "Future[Any]", error: EngineFailed) -> None:
    if not future.done():
        try:
            future.set_exception(error)
        except InvalidStateError:
            return


def as_array(values: Sequence[float]) -> Array:
    return np.asarray(values, dtype=np.float64)

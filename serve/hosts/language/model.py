"""A language model with its task: inputs in, what was read from its replies out, as any other model's output."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.config.task import LETTERS
from demur.serve.contract.engine import Asking, CannotGive, Engine, EngineFailed, LabelsUntold
from demur.serve.contract.inputs import Conversation, InputSpec, ModelInput, Question
from demur.serve.contract.messages import Message, with_pictures
from demur.serve.contract.model import ModelRequest, MoreSamples
from demur.serve.hosts.language.few_shot import Reviewed, few_shot_from
from demur.serve.hosts.language.forms import (
    ChoiceForm,
    FreeText,
    ManyLabels,
    ModelQuestion,
    ReplyReading,
    UnfitExample,
    form_of,
)
from demur.serve.hosts.language.prompts import BadPrompt, Prompts
from demur.serve.hosts.language.row import LEAST, LanguageRow, Spending
from demur.serve.hosts.language.tournament import Tournament
from demur.serve.hosts.outages import EndpointAway
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.generation import Generation, as_column
from demur.uncertainty.output import OF_REPLIES, Need, Output
from demur.uncertainty.self_report import parse_confidence_rating, parse_joint_confidences

log = logging.getLogger(__name__)

"""Told what is known so far of a batch, says which rows [n] want samples, or more of them."""

ALTERNATIVES = 5
"""Alternatives of each token that are asked for, where a score wants them (MADE A.4)."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _RowNeeds:
    """What is to be found out about each row."""

    needs: frozenset[Need]
    first: bool
    label_logprobs: bool
    samples: bool


class LanguageModel:
    """Takes many batches at a time; nothing of one request is seen by another."""

    def __init__(
        self,
        model: ModelConfig,
        engine: Engine,
        *,
        reviewed: Reviewed | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Raises `CannotGive`, `BadPrompt`, `UnfitExample`, `BadDataFile` or `BadRatings` where what is configured
        cannot work.

        `reviewed` gives labelled inputs of the log, for `few_shot: {examples: reviews}`.
        """
        assert isinstance(model.host, LanguageHost)
        self._task, self._prompt, self._drawing = model.task, model.prompt, model.samples
        self._max_tokens = model.host.max_tokens
        self._engine = engine
        self._clock = clock
        self._prompts = Prompts(model)
        self._form = form_of(model, self._prompts)
        few_shot = model.prompt.few_shot
        self._few_shot = (
            few_shot_from(few_shot, self._form, reviewed, file_form=model.calibration.form) if few_shot else None
        )
        self._check_settings()
        self._tournament = Tournament.of(model, engine)

    @property
    def spec(self) -> InputSpec:
        """What the task takes."""
        return self._form.spec

    def example(self) -> ModelInput:
        """An input without meaning that the model takes: to warm it up, and to show what a request looks like."""
        return self._form.example

    def check(self, needs: frozenset[Need]) -> None:
        """Raise `CannotGive` where the engine, or a task of this kind, cannot give what scores need."""
        gives, kind = self._engine.gives, self._task.kind
        for need in ("logprobs", "top_logprobs"):
            if need in needs and need not in gives:
                raise CannotGive(
                    f"a score needs the {need.replace('_', ' ')} of the reply's tokens, and this host gives none (of an"
                    " endpoint, `host.gives_logprobs: false` says so); leave out that score, or use a host that gives"
                    " them (`host.kind: vllm` or `transformers`)"
                )
        if "embedding" in needs:
            raise CannotGive(
                "a score or a gate needs an embedding, and a language model gives none; leave it out of `scores`"
            )
        if "stated" in needs and kind == "generate":
            raise CannotGive("a score needs confidences stated for labels, and a generate task has none; use `rating`")
        if "mc_probabilities" in needs and kind == "generate":
            raise CannotGive("what reads repeated passes needs labels, and a generate task has none; leave it out")
        if "mc_probabilities" in needs and self._drawing.stop:
            raise CannotGive(
                "what reads repeated passes needs all of the samples; leave out `samples.min` and `samples.stop`, or"
                " what reads them, such as `sampled` sets"
            )

    @property
    def engine(self) -> Engine:
        """What writes the replies."""
        return self._engine

    def remarks(self) -> list[str]:
        return self._engine.remarks()

    async def check_health(self) -> None:
        """Raise if the engine is dead."""
        await self._engine.check_health()

    async def close(self) -> None:
        """Let go of the engine."""
        await self._engine.close()

    async def run(self, request: ModelRequest) -> Output:
        """Return what was asked for about each input, and nothing that was not; rows run at the same time.

        `request.more` is asked after the first replies, and again whenever `samples.min` further ones are there, until
        no row wants any or `samples.max` are drawn; without it all are drawn. With `probabilities: samples` it is first
        asked once `samples.min` are there, because before that nothing is known. A row whose reply cannot be read, or
        that the engine failed on, is `unreadable`, and says why. With a tournament it is asked nothing but to compare.
        """
        inputs, needs, without = request.inputs, request.needs, request.without
        self.check(needs)
        if self._tournament:
            return await self._tournament.run(inputs, without=without)
        by = self._prompt.probabilities
        wanted = _RowNeeds(
            needs=needs,
            first=bool(needs & OF_REPLIES) or by == "reply",
            label_logprobs=by in ("first_token", "full_label"),
            samples=bool(needs & {"samples", "mc_probabilities"}) or by == "samples",
        )
        rows = [
            LanguageRow(value=value, options=self._form.options(value), ledger=Spending(self._clock), without=without)
            for value in inputs
        ]
        await _all(self._guarded(row, self._first(row, wanted)) for row in rows)
        if wanted.samples:
            await self._sample(rows, wanted, request.more)
        return self._output(rows, wanted)

    def _check_settings(self) -> None:
        by, gives = self._prompt.probabilities, self._engine.gives
        if by in ("first_token", "full_label") and "label_logprobs" not in gives:
            raise CannotGive(
                f"prompt.probabilities: {by} needs log-probabilities of the labels, and this host gives none; set"
                " `reply` or `samples`"
            )
        if self._prompt.constrained and "constrained" not in gives:
            raise CannotGive("prompt.constrained: this host cannot keep a reply to the labels; leave it out")
        texts = self._form.asked(self._form.example).texts
        if by == "first_token" and len({text[:1] for text in texts}) == 1 and not texts[0][:1].isalnum():
            raise CannotGive(
                f"prompt.probabilities: every answer begins with {texts[0][:1]!r}, so the first token tells nothing;"
                " set `full_label`"
            )

    async def _guarded(self, row: LanguageRow, work: Coroutine[Any, Any, None]) -> None:
        """Whatever fails, fails for this row alone."""
        try:
            await work
        except EndpointAway as away:
            row.failed, row.outage = f"the model could not be asked: {away}", away.outage
        except LabelsUntold as error:
            row.failed = f"the probabilities of the labels are not known: {error}"
        except (EngineFailed, CannotGive) as error:
            row.failed = f"the model gave no reply: {error}"
        except (BadPrompt, UnfitExample) as error:
            row.failed = f"the model could not be asked: {error}"
        except Exception:
            log.exception("a row could not be run")
            row.failed = "something went wrong in the model that should not; the service's log says what"

    async def _first(self, row: LanguageRow, wanted: _RowNeeds) -> None:
        if self._few_shot:
            row.examples = await asyncio.to_thread(self._few_shot.nearest, row.value)
        asked = row.asked = self._form.asked(row.value, row.examples)
        work = [self._reply(row, asked, wanted.needs)] if wanted.first else []
        if wanted.label_logprobs:
            work.append(self._label_logprobs(row, asked))
        await _all(work)
        if row.failed is None and wanted.first:
            await _all(self._afterwards(row, asked, wanted.needs))

    async def _reply(self, row: LanguageRow, asked: ModelQuestion, needs: frozenset[Need]) -> None:
        """The reply at temperature 0, and what it is read as."""
        asking = Asking(
            max_tokens=self._max_tokens,
            logprobs=bool(needs & {"logprobs", "top_logprobs"}),
            top_logprobs=ALTERNATIVES if "top_logprobs" in needs else 0,
            only=self._only(asked),
            without=row.without,
        )
        row.first = (await self._generate(row, asked.messages, asking))[0]
        row.read = await self._read(row, row.first, asked)
        row.stated = row.read.stated
        if row.read.said is None and self._prompt.probabilities == "reply":
            cut_off = row.first.finish_reason == "length"
            row.failed = f"{row.read.why}; it was cut off at `host.max_tokens`" if cut_off else row.read.why

    async def _read(self, row: LanguageRow, reply: Generation, asked: ModelQuestion) -> ReplyReading:
        read = self._form.read(reply, asked)
        if read.said is not None or read.settled or not isinstance(self._form, ChoiceForm):
            return read
        by_text = self._form.read_text(reply, row.value)
        if by_text.said is not None or not reply.text.strip():
            return by_text
        variables = self._form.mapping_variables(reply, row.value, asked)
        meant = (await self._ask(row, self._prompts.mapping.messages(variables)))[0]
        mapped = self._form.read(meant, asked)
        return mapped if mapped.said is not None else ReplyReading(why="it cannot be told which option the reply means")

    def _afterwards(
        self, row: LanguageRow, asked: ModelQuestion, needs: frozenset[Need]
    ) -> list[Coroutine[Any, Any, None]]:
        """What is asked about a reply that was read."""
        work = []
        if "stated" in needs and row.stated is None and row.read.said is not None:
            work.append(self._state(row, asked))
        if "rating" in needs and row.read.said is not None:
            work.append(self._rate(row, asked))
        return work

    async def _state(self, row: LanguageRow, asked: ModelQuestion) -> None:
        """Ask how sure the model is of each label: of those it named, where it may name several."""
        said = row.read.said
        named = said if isinstance(said, tuple) else row.options or ()
        if not named:
            row.stated = {}
            return
        names = LETTERS if isinstance(self._form, ChoiceForm) else self._task.labels
        labels = {names[index]: index for index in named}
        variables = {"question": asked.question, "labels": list(labels)}
        reply = (await self._ask(row, self._prompts.stated.messages(variables)))[0]
        try:
            joint = parse_joint_confidences(reply.text, list(labels))
        except InvalidInput:
            return
        stated = {labels[name]: confidence for name, confidence in joint.confidences.items()}
        row.stated = self._form.risen(stated) if isinstance(self._form, ManyLabels) else stated

    async def _rate(self, row: LanguageRow, asked: ModelQuestion) -> None:
        assert row.first is not None
        variables = {"question": asked.question, "answer": row.first.text.strip()}
        messages = with_pictures(self._prompts.rating.messages(variables), asked.pictures)
        reply = (await self._ask(row, messages))[0]
        try:
            row.rating = parse_confidence_rating(reply.text)
        except InvalidInput:
            row.rating = None

    async def _label_logprobs(self, row: LanguageRow, asked: ModelQuestion) -> None:
        first_token = self._prompt.probabilities == "first_token"
        with row.ledger:
            told = await self._engine.label_logprobs(
                asked.messages, asked.texts, first_token=first_token, without=row.without
            )
        row.ledger.add(asked.messages, prompt_tokens=told.prompt_tokens)
        row.note(told)
        row.label_logprobs = told.values
        if (unknown := np.flatnonzero(np.isnan(told.values))).size:
            row.failed = f"the model gave the label {asked.texts[unknown[0]]!r} no probability, but NaN"
        elif not np.isfinite(told.values).any():
            row.failed = "the model gave every label the probability 0"

    async def _sample(self, rows: Sequence[LanguageRow], wanted: _RowNeeds, more: MoreSamples | None) -> None:
        """Draw in rounds of `samples.min`. They are the same rounds whoever asks: the same input gets the same samples,
        however early it stops."""
        most, step = self._drawing.max, self._drawing.min or self._drawing.max
        if more is None:
            await _all(self._guarded(row, self._draw(row, range(most))) for row in rows if row.failed is None)
            return
        wants = np.full(len(rows), self._prompt.probabilities == "samples")
        while True:
            if not wants.any():
                wants = more(self._output(rows, wanted, so_far=True))
            live = [
                row
                for row, wish in zip(rows, wants, strict=True)
                if wish and row.failed is None and len(row.samples) < most
            ]
            if not live:
                return
            await _all(
                self._guarded(row, self._draw(row, range(len(row.samples), min(len(row.samples) + step, most))))
                for row in live
            )
            wants = np.zeros(len(rows), dtype=bool)

    async def _draw(self, row: LanguageRow, numbers: range) -> None:
        """Draw the samples of these numbers."""
        step = self._drawing.min or self._drawing.max
        rounds = [range(start, min(start + step, numbers.stop)) for start in range(numbers.start, numbers.stop, step)]
        drawn = await _all(
            self._draw_group(row, order, group) for one in rounds for order, group in self._groups(row, one)
        )
        found: dict[int, Hashable | None] = {}
        for group in drawn:
            found |= group
        row.samples += [found[number] for number in numbers]

    def _groups(self, row: LanguageRow, numbers: range) -> list[tuple[tuple[int, ...] | None, list[int]]]:
        """Samples that share a prompt: all of them, unless each sees the options in an order of its own."""
        if not (isinstance(self._form, ChoiceForm) and self._prompt.shuffle):
            return [(None, list(numbers))]
        groups: dict[tuple[int, ...], list[int]] = {}
        for number in numbers:
            rng = np.random.default_rng(self._seed(row.value, "order", number))
            order = tuple(rng.permutation(len(row.options or ())).tolist())
            groups.setdefault(order, []).append(number)
        return list(groups.items())

    async def _draw_group(
        self, row: LanguageRow, order: tuple[int, ...] | None, numbers: list[int]
    ) -> dict[int, Hashable | None]:
        asked = self._form.asked(row.value, row.examples, order)
        asking = Asking(
            max_tokens=self._max_tokens,
            n=len(numbers),
            temperature=self._drawing.temperature,
            top_p=self._drawing.top_p,
            seed=self._seed(row.value, "sample", numbers[0]),
            only=self._only(asked),
            without=row.without,
        )
        replies = await self._generate(row, asked.messages, asking)
        reads = await _all(self._read(row, reply, asked) for reply in replies)
        return {number: read.said for number, read in zip(numbers, reads, strict=True)}

    def _seed(self, value: ModelInput, *more: str | int) -> int:
        """Return the seed of one draw: an input gets the same samples whatever it stands beside."""
        written = json.dumps([self._drawing.seed, _plain(value), *more], sort_keys=True)
        return int.from_bytes(hashlib.sha256(written.encode()).digest()[:4]) & 0x7FFFFFFF

    def _only(self, asked: ModelQuestion) -> tuple[str, ...] | None:
        return asked.texts if self._prompt.constrained else None

    async def _ask(self, row: LanguageRow, messages: Sequence[Message]) -> list[Generation]:
        """A question about the answer, at temperature 0."""
        return await self._generate(row, messages, Asking(max_tokens=self._max_tokens, without=row.without))

    async def _generate(self, row: LanguageRow, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        with row.ledger:
            replies = await self._engine.generate(messages, asking)
        if len(replies) != asking.n:
            raise EngineFailed(f"it gave {len(replies)} replies where {asking.n} were asked for")
        row.ledger.add(
            messages,
            prompt_tokens=max(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
        )
        row.note(*replies)
        return replies

    def _output(self, rows: Sequence[LanguageRow], wanted: _RowNeeds, *, so_far: bool = False) -> Output:
        """`so_far`: with the replies in any case, and without giving up a row of which more may be read."""
        width = len(self._task.labels)
        probabilities = np.array([self._probabilities(row, width) for row in rows])
        return Output(
            logits=self._logits(probabilities),
            probabilities=probabilities,
            mc_probabilities=self._passes(rows, width) if "mc_probabilities" in wanted.needs else None,
            replies=as_column([row.replies for row in rows]),  # whoever needs them: they know what it cost
            unreadable=as_column([row.failed if so_far else self._why(row) for row in rows]),
        )

    def _why(self, row: LanguageRow) -> str | None:
        """Why a row cannot be read; None where it can."""
        if row.failed is None and self._prompt.probabilities == "samples" and not row.n_read:
            return "none of the sampled replies could be read"
        return row.failed

    def _probabilities(self, row: LanguageRow, width: int) -> Array | tuple[float, ...]:
        if row.failed is not None:
            return (np.nan,) * width
        if isinstance(self._form, FreeText):
            return (1.0, 0.0)
        by = self._prompt.probabilities
        if by == "reply":
            return row.by_reply(width)
        return row.by_samples(width) if by == "samples" else row.by_logprobs(width)

    def _logits(self, probabilities: Array) -> Array:
        logits = np.log(np.maximum(probabilities, LEAST))
        if not self._task.exclusive:
            logits -= np.log(np.maximum(1 - probabilities, LEAST))
        return np.asarray(logits)

    def _passes(self, rows: Sequence[LanguageRow], width: int) -> Array:
        """[n, M, C]; all NaN for a row that has not all of its samples."""
        passes = np.full((len(rows), self._drawing.max, width), np.nan)
        for index, row in enumerate(rows):
            if row.failed is None and len(row.samples) == self._drawing.max:
                passes[index] = row.passes(width)
        return passes


async def _all(work: Any) -> list[Any]:
    """Do it at the same time, and return what comes back in order; what fails first ends the rest."""
    work = list(work)
    if len(work) < 2:
        return [await one for one in work]  # a task, and a group of them, would cost more than the rest of a request
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _plain(value: ModelInput) -> Any:
    if isinstance(value, Question):
        return {"question": value.question, "options": list(value.options)}
    return {"messages": list(value.messages)} if isinstance(value, Conversation) else value

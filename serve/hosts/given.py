"""`host: {kind: given}`: what a model that runs elsewhere said, made an `Output`. No model is run here."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from demur.library.model_identity import given_fingerprint
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.contract.inputs import GivenOutput, GivenReply, InputSpec, ModelInput, Question
from demur.serve.contract.model import Model
from demur.serve.hosts.kind import ModelKind
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.forms import ChoiceForm, ModelQuestion, ReplyReading, form_of
from demur.serve.hosts.language.prompts import Prompts
from demur.serve.hosts.language.reasoning import answer_start, split
from demur.serve.hosts.language.row import one_hot
from demur.serve.hosts.one_thread import OneThread
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import NO_LABEL, Need, Output
from demur.uncertainty.readings import sample_probabilities

TOO_FEW = "no candidate is as probable as all the labels together that are not named"


class GivenModel:
    """A `SyncModel` whose inputs are outputs already."""

    def __init__(self, model: ModelConfig) -> None:
        self._host, self._task = _host(model), model.task
        self._by_samples = model.prompt.probabilities == "samples"
        self._form = form_of(model, Prompts(model)) if self._host.has_replies else None

    @property
    def spec(self) -> InputSpec:
        return InputSpec(kind="given")

    def example(self) -> ModelInput:
        """Return an output without meaning, with every part that requests bring."""
        host, width = self._host, max(2, len(self._task.outputs))
        even = np.full(width, 1 / width)
        return GivenOutput(
            probabilities=even if "probabilities" in host.gives else None,
            candidates=None if host.candidates is None else (np.array([0], dtype=np.int32), np.array([0.5])),
            logits=np.zeros(width) if "logits" in host.gives else None,
            predicted=(0,) if "prediction" in host.gives else None,
            embedding=None if host.embedding_size is None else np.zeros(host.embedding_size),
            passes=None if host.passes is None else np.tile(even, (host.passes, 1)),
            scores=(0.0,) * len(host.scores),
            reply=GivenReply(text=self._task.labels[0]) if host.has_replies else None,
            samples=(GivenReply(text=self._task.labels[0]),) if "samples" in host.gives else (),
        )

    def remarks(self) -> list[str]:
        """Return nothing: there is nothing to remark."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what came with each request, and nothing that was not asked about."""
        rows = cast(Sequence[GivenOutput], inputs)
        replies, unreadable = self._replies(rows) if self._form else (None, None)
        parts: dict[str, Any] = {
            "embedding": np.array([row.embedding for row in rows]) if "embedding" in needs else None,
            "mc_probabilities": np.array([row.passes for row in rows]) if "mc_probabilities" in needs else None,
            "given": np.array([row.scores for row in rows], dtype=np.float64) if "given" in needs else None,
        }
        if self._host.candidates is not None:
            return replace(self._of_candidates(rows, self._host.candidates), **parts)
        parts |= {
            "replies": None if replies is None else as_column(replies),
            "unreadable": None if unreadable is None else as_column(unreadable),
        }
        if rows[0].logits is not None:
            output = Output.from_logits(
                np.array([row.logits for row in rows]), link=self._task.link, tree=self._task.tree
            )
        else:
            output = self._with_probabilities(np.array(self._probabilities(rows, replies)))
        return Output(logits=output.logits, probabilities=output.probabilities, **parts)

    def _of_candidates(self, rows: Sequence[GivenOutput], most: int) -> Output:
        """One column for each candidate that a row may have, whatever its label; so a row looks the same in any batch.
        Where labels exclude each other, a last column has what all others share."""
        width = most + self._task.exclusive
        slots = np.full((len(rows), width), NO_LABEL, dtype=np.int32)
        probabilities = np.zeros((len(rows), width))
        for at, row in enumerate(rows):
            labels, p = cast(tuple[Any, Any], row.candidates)
            slots[at, : len(labels)], probabilities[at, : len(p)] = labels, p
        unreadable = None
        if self._task.exclusive:
            probabilities[:, -1] = np.maximum(0.0, 1 - probabilities[:, :-1].sum(axis=1))
            rest = probabilities[:, -1] >= probabilities[:, :-1].max(axis=1)
            unreadable = as_column([TOO_FEW if yes else None for yes in rest.tolist()]) if rest.any() else None
        output = Output.from_probabilities(probabilities, link=self._task.link)
        return replace(output, slots=slots, unreadable=unreadable)

    def _with_probabilities(self, probabilities: Array) -> Output:
        tree = self._task.tree if probabilities.shape[1] == len(self._task.outputs) else None
        return Output.from_probabilities(probabilities, link=self._task.link, tree=tree)

    def _probabilities(self, rows: Sequence[GivenOutput], replies: Sequence[Replies] | None) -> list[Array]:
        width = len(self._task.labels)
        if rows[0].probabilities is not None:
            return [cast(Array, row.probabilities) for row in rows]
        if rows[0].predicted is not None:
            return [self._certain(self._closed(row.predicted or ())) for row in rows]
        assert replies is not None
        if self._by_samples:
            return [sample_probabilities(one, width) for one in replies]
        if self._task.writes:
            return [np.array((1.0, 0.0)) if one.said is not None else np.full(2, np.nan) for one in replies]
        return [self._certain(one.said) if one.said is not None else np.full(width, np.nan) for one in replies]

    def _certain(self, said: Any) -> Array:
        return one_hot(said, len(self._task.labels))

    def _closed(self, predicted: Sequence[int]) -> tuple[int, ...]:
        named = self._task.with_ancestors(self._task.outputs[index] for index in predicted)
        index = {label: position for position, label in enumerate(self._task.labels)}
        return tuple(sorted(index[label] for label in named))

    def _replies(self, rows: Sequence[GivenOutput]) -> tuple[list[Replies], list[str | None]]:
        """Read what each reply says, and why nothing can be read of some."""
        found, unreadable = [], []
        for row in rows:
            asked = self._asked(row)
            first = _generation(cast(GivenReply, row.reply))
            read = self._read(first, asked, row)
            samples = tuple(self._read(_generation(one), asked, row).said for one in row.samples)
            found.append(
                Replies(
                    first=first,
                    said=read.said,
                    spans=read.spans,
                    unknown=read.unknown,
                    options=asked.order or None,
                    samples=samples,
                    stated=read.stated,
                )
            )
            unreadable.append(self._why(read, samples))
        return found, unreadable

    def _why(self, read: ReplyReading, samples: Sequence[Any]) -> str | None:
        if self._by_samples:
            return None if any(one is not None for one in samples) else "none of the sampled replies could be read"
        return read.why if read.said is None else None

    def _read(self, reply: Generation, asked: ModelQuestion, row: GivenOutput) -> ReplyReading:
        assert self._form is not None
        read = self._form.read(reply, asked)
        if read.said is None and not read.settled and isinstance(self._form, ChoiceForm) and row.options:
            return self._form.read_text(reply, Question(question="", options=row.options))
        return read

    def _asked(self, row: GivenOutput) -> ModelQuestion:
        """What could be replied: every label, or every option that came with the question."""
        labels = self._task.labels
        if self._task.kind in ("multilabel", "generate"):
            return ModelQuestion(messages=(), question="", order=(), texts=())
        n = min(len(row.options), len(labels)) if row.options else len(labels)
        return ModelQuestion(messages=(), question="", order=tuple(range(n)), texts=tuple(labels[:n]))


def _generation(reply: GivenReply) -> Generation:
    """A reply with its reasoning apart, where that came within the text or among the tokens."""
    parts = split(reply.text, opened=None if reply.reasoning is None else False)
    tokens = reply.tokens
    start = answer_start(tokens, parts.answer_at) if "".join(tokens) == reply.text else 0
    return Generation(
        text=reply.text[parts.answer_at :],
        reasoning=reply.reasoning if reply.reasoning is not None else parts.reasoning,
        tokens=tokens,
        logprobs=reply.logprobs,
        top_logprobs=reply.top_logprobs,
        answer_start=start,
        finish_reason=reply.finish_reason,
        no_logprobs="" if reply.logprobs is not None else "no log-probabilities came with the reply",
    )


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    return await OneThread.started(lambda: GivenModel(model))


def _fingerprint(model: ModelConfig) -> str:
    """Hash what the configuration says of the model: nobody here can tell when its weights change."""
    host = _host(model)
    read_as = [model.prompt.probabilities, model.prompt.reply] if host.has_replies else []
    return given_fingerprint(host.model, host.version, *read_as)


def _host(model: ModelConfig) -> GivenHost:
    assert isinstance(model.host, GivenHost)
    return model.host


GIVEN = ModelKind(load=_load, check=lambda _: None, fingerprint=_fingerprint, is_here=lambda _: True)

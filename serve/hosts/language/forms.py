"""The kinds of task as a language model meets them: what is asked about an input, and what a reply is read as."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from demur.serve.config.task import LETTERS, TaskConfig
from demur.serve.contract.inputs import Conversation, InputSpec, ModelInput, Question
from demur.serve.contract.messages import Message, pictures_of, text_of
from demur.serve.hosts.language.label_lists import json_read, lines_read, token_spans
from demur.serve.hosts.language.matching import reading_of
from demur.serve.hosts.language.prompts import Option, Prompts
from demur.serve.hosts.language.readings import Names, letter_in
from demur.traffic.record import Answer
from demur.uncertainty.generation import Generation, Span

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig

Example = tuple[ModelInput, Answer]
"""An input with its right label, or labels."""


class UnfitExample(ValueError):
    """A labelled example does not fit the task. The message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class ModelQuestion:
    """One way to ask about one input."""

    messages: tuple[Message, ...]
    question: str
    """What is asked, in one text and without examples: for prompts about the answer."""

    order: tuple[int, ...]
    """What can be replied, by its place in the prompt: indices of labels, or of options in the caller's order."""

    texts: tuple[str, ...]
    """How each of them is to be written. Empty where replies are not one of a list."""

    pictures: tuple[str, ...] = ()
    """URLs of the pictures in the question: for prompts about the answer."""


@dataclass(frozen=True, kw_only=True)
class ReplyReading:
    """What one reply was read as."""

    said: Hashable | None = None
    """As in `Replies`."""

    why: str = ""
    """Why nothing could be read; empty where something could."""

    settled: bool = False
    """Whether asking what the reply means would be of no use."""

    unknown: tuple[str, ...] = ()
    spans: Mapping[int, Span] = field(default_factory=dict)
    stated: Mapping[int, float] | None = None


class Form(Protocol):
    """A kind of task."""

    @property
    def spec(self) -> InputSpec: ...

    @property
    def example(self) -> ModelInput: ...

    def options(self, value: ModelInput) -> tuple[int, ...] | None:
        """What can be read, in the caller's order; None where anything can."""
        ...

    def asked(
        self, value: ModelInput, examples: Sequence[Example] = (), order: Sequence[int] | None = None
    ) -> ModelQuestion:
        """Raises `BadPrompt` or `UnfitExample`."""
        ...

    def read(self, reply: Generation, asked: ModelQuestion) -> ReplyReading: ...


class _TemplateForm:
    """What forms with a template share."""

    def __init__(self, task: TaskConfig, prompts: Prompts) -> None:
        assert prompts.main is not None
        self._main = prompts.main
        self._labels = task.labels

    def _asked(
        self,
        variables: Mapping[str, Any],
        shots: Sequence[Mapping[str, Any]],
        order: Sequence[int],
        texts: Sequence[str],
    ) -> ModelQuestion:
        messages = self._main.messages(variables, shots)
        alone = [*(message for message in messages if message["role"] == "system"), messages[-1]]
        question = "\n\n".join(message["content"] for message in alone)
        return ModelQuestion(messages=messages, question=question, order=tuple(order), texts=tuple(texts))

    def _written(self, variables: Mapping[str, Any], name: str) -> str:
        """An answer as it stands in examples."""
        return self._main.text("assistant", variables) or name


class OneLabel(_TemplateForm):
    """`binary` and `multiclass`: a text, and the name of one label."""

    spec = InputSpec(kind="text")
    example: ModelInput = "a text"

    def __init__(self, task: TaskConfig, prompts: Prompts) -> None:
        super().__init__(task, prompts)
        self._names = Names(task.labels)
        common = {"labels": task.labels, "input": self.example}
        self._texts = tuple(self._written({**common, "answer": label}, label) for label in task.labels)

    def options(self, value: ModelInput) -> tuple[int, ...] | None:  # noqa: ARG002 - the same for all
        return tuple(range(len(self._labels)))

    def asked(
        self,
        value: ModelInput,
        examples: Sequence[Example] = (),
        order: Sequence[int] | None = None,  # noqa: ARG002
    ) -> ModelQuestion:
        common = {"labels": self._labels}
        shots = [{**common, "input": shown, "answer": self._known(label)} for shown, label in examples]
        return self._asked({**common, "input": value}, shots, range(len(self._labels)), self._texts)

    def read(self, reply: Generation, asked: ModelQuestion) -> ReplyReading:
        if reply.text.strip() in asked.texts:
            return ReplyReading(said=asked.texts.index(reply.text.strip()))
        said = self._names.read(reply.text)
        return ReplyReading(said=said.index, why=said.why)

    def _known(self, label: Answer) -> str:
        if not isinstance(label, str) or label not in self._labels:
            raise UnfitExample(f"{label!r} is not one of the labels")
        return label


class ChoiceForm(_TemplateForm):
    """`choice`: a question with options, and the letter of one of them."""

    def __init__(self, task: TaskConfig, prompts: Prompts) -> None:
        super().__init__(task, prompts)
        self.spec = InputSpec(kind="choice", options=len(task.labels))
        self.example: ModelInput = Question(question="a question", options=("one option", "another option"))

    def options(self, value: ModelInput) -> tuple[int, ...] | None:
        return tuple(range(len(_question(value).options)))

    def asked(
        self, value: ModelInput, examples: Sequence[Example] = (), order: Sequence[int] | None = None
    ) -> ModelQuestion:
        question = _question(value)
        order = range(len(question.options)) if order is None else order
        options = _lettered(question, order)
        variables = {"question": question.question, "options": options}
        texts = [self._written({**variables, "answer": option}, option.letter) for option in options]
        return self._asked(variables, [self._shot(*example) for example in examples], order, texts)

    def read(self, reply: Generation, asked: ModelQuestion) -> ReplyReading:
        said = letter_in(reply.text, len(asked.order))
        return ReplyReading(
            said=None if said.index is None else asked.order[said.index], why=said.why, settled=said.settled
        )

    def read_text(self, reply: Generation, value: ModelInput) -> ReplyReading:
        """The option whose own text a reply gives."""
        said = Names(_question(value).options).read(reply.text)
        return ReplyReading(said=said.index, why=said.why)

    def mapping_variables(self, reply: Generation, value: ModelInput, asked: ModelQuestion) -> dict[str, Any]:
        """What the template is told that asks which option a reply means: options as they were shown."""
        question = _question(value)
        options = _lettered(question, asked.order)
        return {"question": question.question, "options": options, "reply": reply.text}

    def _shot(self, shown: ModelInput, label: Answer) -> dict[str, Any]:
        question = _question(shown)
        options = _lettered(question, range(len(question.options)))
        index = option_of(label, question.options)
        if index is None:
            raise UnfitExample(f"{label!r} is neither the letter nor the text of an option")
        return {"question": question.question, "options": options, "answer": options[index]}


class ManyLabels(_TemplateForm):
    """`multilabel`: a text, and every label that holds, as lines or as JSON."""

    spec = InputSpec(kind="text")
    example: ModelInput = "a text"

    def __init__(self, task: TaskConfig, prompts: Prompts, *, reply: str) -> None:
        super().__init__(task, prompts)
        self._task = task
        self._reply = reply
        self._names = Names(task.labels)
        self._above = lru_cache(maxsize=len(task.labels))(self._closure)

    def options(self, value: ModelInput) -> tuple[int, ...] | None:  # noqa: ARG002 - any number of the labels
        return None

    def asked(
        self,
        value: ModelInput,
        examples: Sequence[Example] = (),
        order: Sequence[int] | None = None,  # noqa: ARG002
    ) -> ModelQuestion:
        common = {"labels": self._labels, "reply": self._reply}
        shots = [{**common, "input": shown, **self._answer(labels)} for shown, labels in examples]
        return self._asked({**common, "input": value}, shots, range(len(self._labels)), ())

    def read(self, reply: Generation, asked: ModelQuestion) -> ReplyReading:  # noqa: ARG002 - labels are in no order
        found = (json_read if self._reply == "json" else lines_read)(reply.text, self._names)
        if found.named is None:
            return ReplyReading(why=found.why, unknown=found.unknown)
        written = token_spans(found.places, reply)
        spans: dict[int, Span] = {}
        for label in sorted(found.named, key=lambda label: found.places.get(label, (0, 0))):
            for above in self._above(label):
                if label in written and (above == label or above not in found.named):
                    spans.setdefault(above, written[label])
        return ReplyReading(
            said=tuple(sorted({above for label in found.named for above in self._above(label)})),
            unknown=found.unknown,
            spans=spans,
            stated=None if found.stated is None else self.risen(found.stated),
        )

    def risen(self, stated: Mapping[int, float]) -> dict[int, float]:
        """Confidence of each label and all above it: none is below what was stated of a label under it."""
        risen: dict[int, float] = {}
        for label, confidence in stated.items():
            for above in self._above(label):
                risen[above] = max(risen.get(above, 0.0), confidence)
        return dict(sorted(risen.items()))

    def _closure(self, label: int) -> tuple[int, ...]:
        alone = np.arange(len(self._labels)) == label
        return tuple(np.flatnonzero(self._task.closed(alone)).tolist())

    def _answer(self, labels: Answer) -> dict[str, Any]:
        named = [labels] if isinstance(labels, str) else list(labels)
        if strange := [label for label in named if label not in self._labels]:
            raise UnfitExample(f"{strange[0]!r} is not one of the labels")
        return {"answer": named, "confidences": dict.fromkeys(named, 1.0)}


class FreeText:
    """`generate`: a conversation, which is passed on as it is, and any text."""

    example: ModelInput = Conversation(messages=({"role": "user", "content": "a question"},))

    def __init__(self, task: TaskConfig, *, pictures: int = 0) -> None:
        """`pictures` is how many of them a conversation may have."""
        self.spec = InputSpec(kind="chat", pictures=pictures)
        self._match = task.match

    def options(self, value: ModelInput) -> tuple[int, ...] | None:  # noqa: ARG002
        return None

    def asked(
        self,
        value: ModelInput,
        examples: Sequence[Example] = (),  # noqa: ARG002
        order: Sequence[int] | None = None,  # noqa: ARG002
    ) -> ModelQuestion:
        assert isinstance(value, Conversation)
        said = [f"{message['role']}: {text_of(message)}" for message in value.messages]
        question = text_of(value.messages[0]) if len(said) == 1 else "\n\n".join(said)
        pictures = tuple(pictures_of(value.messages))
        return ModelQuestion(messages=value.messages, question=question, order=(), texts=(), pictures=pictures)

    def read(self, reply: Generation, asked: ModelQuestion) -> ReplyReading:  # noqa: ARG002
        if reply.finish_reason == "length":
            return ReplyReading(why="the text is not finished")
        said = reading_of(reply.text, self._match)
        return ReplyReading(said=said, why="the reply is empty" if said is None else "")


def form_of(model: "ModelConfig", prompts: Prompts) -> OneLabel | ChoiceForm | ManyLabels | FreeText:
    """The form of a model's task."""
    task = model.task
    if task.kind == "choice":
        return ChoiceForm(task, prompts)
    if task.kind == "multilabel":
        return ManyLabels(task, prompts, reply=model.prompt.reply)
    if task.kind == "generate":
        return FreeText(task, pictures=model.host.most_pictures)
    return OneLabel(task, prompts)


def check_prompts(model: "ModelConfig") -> None:
    """Raise `BadPrompt` where a template of the model cannot be used, by asking about inputs without meaning."""
    prompts = Prompts(model)
    form = form_of(model, prompts)
    known: Answer = [model.task.labels[0]] if isinstance(form, ManyLabels) else model.task.labels[0]
    form.asked(form.example, [(form.example, known)] if model.prompt.few_shot else ())
    prompts.try_out()


def option_of(label: Answer, options: Sequence[str]) -> int | None:
    """Which option a label means: a letter is a letter, whatever the options say, and all else an option's own text.
    None where it is neither."""
    letters = LETTERS[: len(options)]
    if label in letters:
        return letters.index(str(label))
    return options.index(label) if label in options else None


def _lettered(question: Question, order: Sequence[int]) -> list[Option]:
    return [Option(letter=LETTERS[place], text=question.options[index]) for place, index in enumerate(order)]


def _question(value: ModelInput) -> Question:
    assert isinstance(value, Question)
    return value

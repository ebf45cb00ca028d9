"""What is taken out of inputs and replies on their way to the database. What cannot be redacted is not stored."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import re2
from numpy.typing import NDArray

from demur.serve.config.redact import QUIET, RedactConfig
from demur.serve.contract.commit import CommitOutcome, CommitResult, ToWrite, Writing
from demur.serve.contract.pictures.formats import holds_picture
from demur.serve.contract.user_code import NotFound, load_named
from demur.traffic.record import Entry, Reply

logger = logging.getLogger("demur.redaction")

Submit = Callable[[Sequence[ToWrite]], Awaitable[list[list[CommitOutcome]]]]


OF_TOKENS = ("tokens", "logprobs", "top_logprobs")
"""What a reply that a request brings may say of each token. It would tell of what was taken out of the text."""


class BadRedaction(ValueError):
    """`redact.function` cannot be used. The message says why; nothing is served without it."""


class RedactionFailed(RuntimeError):
    """What should be taken out of an input could not be, so neither it nor its record was stored, and nothing is
    answered. The log of the service has the function's own error, without the input."""


class Redaction:
    """Returns what may be stored. It is called beside the event loop, by several threads at a time."""

    def __init__(self, told: RedactConfig) -> None:
        self._patterns = [
            (re2.compile(one.pattern, QUIET), one.replace.replace("\\", "\\\\")) for one in told.patterns.values()
        ]
        self._function = None if told.function is None else _function(told.function)

    def redacted(self, value: Any) -> Any:
        """An input, or the text of a reply, without what is taken out. Raises `RedactionFailed`."""
        try:
            if self._function is not None:
                value = self._function(_as_lists(value) if isinstance(value, np.ndarray) else value)
                orjson.dumps(value)  # else it could not be stored
            return self._without_matches(value)
        except Exception as error:  # whatever it is: the input must not be stored as it came, nor stand in a log
            logger.error("an input could not be redacted: %s", type(error).__name__)
            raise RedactionFailed("the input could not be redacted, so nothing was recorded (`redact`)") from None

    def text(self, written: str) -> str:
        """A reply, or what somebody wrote in its place, without what is taken out. Raises `RedactionFailed`."""
        text = self.redacted(written)
        if not isinstance(text, str):
            raise RedactionFailed("the reply could not be redacted: `redact.function` must make a text of it")
        return text

    def _reply(self, reply: Reply) -> Reply:
        kept: Reply = {**reply, "text": self.text(reply["text"])}
        if "reasoning" in reply:
            kept["reasoning"] = self.text(reply["reasoning"])
        if kept["text"] != reply["text"]:
            kept.pop("tokens", None)  # where they lie, and how many there are, would tell of what was taken out
        return kept

    def entry(self, entry: Entry) -> Entry:
        """What is stored of a prediction."""
        record = entry.record
        if record.reply is not None:
            record = replace(record, reply=self._reply(record.reply))
        return replace(entry, input=self.redacted(entry.input), output=self._output(entry.output), record=record)

    def _output(self, output: Any) -> Any:
        """What a request brought of a model elsewhere: replies in it are texts too."""
        if not isinstance(output, dict):
            return output
        kept = dict(output)
        if "reply" in kept:
            kept["reply"] = self._given_reply(kept["reply"])
        if isinstance(samples := kept.get("samples"), list):
            kept["samples"] = [self._given_reply(one) for one in samples]
        return kept

    def _given_reply(self, reply: Any) -> Any:
        if not isinstance(reply, dict):
            return self._texts_within(reply)
        kept = {
            name: one if name in OF_TOKENS or name == "finish_reason" else self._texts_within(one)
            for name, one in reply.items()
        }
        return kept if kept == reply else {name: one for name, one in kept.items() if name not in OF_TOKENS}

    def _texts_within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._texts_within(one) for one in value]
        if isinstance(value, dict):
            return {name: self._texts_within(one) for name, one in value.items()}
        return value

    async def commit(self, items: Sequence[ToWrite], submit: Submit) -> list[list[CommitOutcome]]:
        """Commit what may be stored, which are no columns. The caller is told the reply as the model wrote it; only
        what is asked for again is told as it was stored."""
        writings = [item for item in items if isinstance(item, Writing)]
        assert len(writings) == len(items), "columns are not redacted"
        redacted = await asyncio.to_thread(lambda: [self._writing(writing) for writing in writings])
        able = [at for at, one in enumerate(redacted) if isinstance(one, Writing)]
        done = iter(await submit([one for one in redacted if isinstance(one, Writing)]) if able else [])
        return [
            [_as_said(writing, next(done)[0]) if isinstance(one, Writing) else one]
            for writing, one in zip(writings, redacted, strict=True)
        ]

    def _writing(self, writing: Writing) -> Writing | Exception:
        try:
            return replace(writing, entry=self.entry(writing.entry))
        except RedactionFailed as error:
            return error

    def _without_matches(self, value: Any) -> Any:
        """Texts wherever they stand, keys among them; pictures as they are."""
        if isinstance(value, str):
            if holds_picture(value):
                return value
            for pattern, instead in self._patterns:
                value = pattern.sub(instead, value)
            return value
        if isinstance(value, list | tuple):
            return [self._without_matches(one) for one in value] if _has_text(value) else value
        if isinstance(value, dict):
            return {self._without_matches(key): self._without_matches(one) for key, one in value.items()}
        return value


def _as_said(writing: Writing, done: CommitOutcome) -> CommitOutcome:
    if isinstance(done, Exception) or done.replayed:
        return done
    return CommitResult(record=replace(done.record, reply=writing.entry.record.reply))


def _as_lists(array: NDArray[Any]) -> Any:
    """Nested lists of the numbers that would be stored: 0.1 in single precision is 0.1, and not its double."""
    return orjson.loads(orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY))


def _has_text(values: Sequence[Any]) -> bool:
    """Rows of pixels are not looked at one by one."""
    return not all(type(one) in (int, float) for one in values)


def _function(name: str) -> Callable[[Any], Any]:
    try:
        found = load_named(name)
    except NotFound as error:
        raise BadRedaction(f"redact.function: {error}") from None
    if not callable(found):
        raise BadRedaction(f"redact.function: {name!r} is not a function")
    return found  # type: ignore[no-any-return]

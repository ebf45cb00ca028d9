"""vLLM's own parsers, which tell the reasoning of a reply from its answer where no <think> and </think> do."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from demur.library.nearest import one_of
from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.contract.engine import EngineFailed
from demur.serve.hosts.checkpoint import first_line
from demur.serve.hosts.language.reasoning import ReasoningSplit

PROBE = "yes"


def check_parser(name: str | None) -> None:
    """Raise `BadCheckpoint` unless the installed vLLM has a reasoning parser of this name, where one is named."""
    if name is not None:
        _class_of(name)


class ReasoningParser:
    """The parser of one model. vLLM's parsers remember what they have read, so each reply gets a new one."""

    def __init__(self, name: str, tokenizer: Any, *, variables: Mapping[str, Any]) -> None:
        """`variables` are those of the chat template, which some parsers look at. Raises `BadCheckpoint`."""
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        self._name, self._class, self._tokenizer = name, _class_of(name), tokenizer
        self._variables = dict(variables)
        try:
            request = ChatCompletionRequest(
                model="", messages=[{"role": "user", "content": PROBE}], chat_template_kwargs=self._variables
            )
            parser = self._made()
            self._request = parser.adjust_request(request)
            self.shows_special = not self._request.skip_special_tokens
            """Whether it reads tokens that only steer the model."""

            self.marks = frozenset(filter(None, (parser.reasoning_start_str, parser.reasoning_end_str)))
            """Texts before and after the reasoning, where it says so."""

            parser.extract_reasoning(PROBE, self._request)
        except Exception as error:  # of any of the models for which there are parsers
            raise BadCheckpoint(
                f"host.reasoning_parser: {name} does not work with this checkpoint ({first_line(error)}); name the"
                " parser of its family, or leave this out where the reasoning stands between <think> and </think>"
            ) from None

    def split(self, reply: str) -> ReasoningSplit:
        """Return where the reasoning of a whole reply ends. Space between it and the answer belongs to neither. Raises
        `EngineFailed` where the parser fails, or gives an answer that does not stand in the reply."""
        try:
            reasoning, answer = self._made().extract_reasoning(reply, self._request)
        except Exception as error:
            raise EngineFailed(f"vLLM's reasoning parser {self._name} fails on a reply: {first_line(error)}") from None
        trace = None if reasoning is None else reasoning.strip()
        answer = (answer or "").lstrip()
        if not answer:
            return ReasoningSplit(reasoning=trace, answer_at=len(reply))
        place = reply.rfind(answer)
        if place < 0:
            raise EngineFailed(
                f"vLLM's reasoning parser {self._name} gives an answer that does not stand in the reply; leave out"
                " host.reasoning_parser, or name another one"
            )
        return ReasoningSplit(reasoning=trace, answer_at=place, answer_end=place + len(answer))

    def _made(self) -> Any:
        return self._class(self._tokenizer, chat_template_kwargs=self._variables)


def _class_of(name: str) -> Any:
    if find_spec("vllm") is None:
        raise BadCheckpoint(
            "host.reasoning_parser: vLLM has the reasoning parsers, and it is not installed here; pip install"
            " 'demur[vllm]', or leave this out where the reasoning stands between <think> and </think>"
        )
    from vllm.reasoning import ReasoningParserManager

    known = ReasoningParserManager.list_registered()
    if name not in known:
        raise BadCheckpoint(f"host.reasoning_parser: {one_of(name, known)}")
    try:
        return ReasoningParserManager.get_reasoning_parser(name)
    except Exception as error:
        raise BadCheckpoint(
            f"host.reasoning_parser: vLLM cannot load {name}: {first_line(error)}; name another"
        ) from None

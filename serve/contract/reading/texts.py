"""Texts, pairs of texts, and questions with options."""

from typing import Any

from demur.serve.contract.inputs import (
    InputLimits,
    InputSpec,
    InvalidRequest,
    Question,
    TextPair,
    TooLarge,
)


def read_text(value: Any, limits: InputLimits, *, place: str = "input", what: str = "this model takes a text") -> str:
    """Return a text that is neither empty nor too long."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}: {what}, not {kind_of(value)}")
    if not value.strip():
        raise InvalidRequest(f"{place}: the text is empty")
    if len(value) > limits.text_characters:
        raise TooLarge(
            f"{place}: the text has {len(value):,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    return value


def read_text_pair(value: Any, limits: InputLimits) -> TextPair:
    """Return two texts that are judged together."""
    if isinstance(value, list) and len(value) == 2:
        value = dict(zip(("text", "text_pair"), value, strict=True))
    if not isinstance(value, dict) or set(value) != {"text", "text_pair"}:
        raise InvalidRequest('input: this model takes two texts, {"text": a text, "text_pair": a text}')
    text, pair = (read_text(value[name], limits, place=f"input.{name}") for name in ("text", "text_pair"))
    return TextPair(text=text, text_pair=pair)


def read_question(value: Any, spec: InputSpec, limits: InputLimits) -> Question:
    """Return a question with as many options as the model can choose from."""
    if not isinstance(value, dict) or set(value) != {"question", "options"} or not isinstance(value["options"], list):
        raise InvalidRequest('input: this model takes {"question": a text, "options": [texts]}')
    question = read_text(value["question"], limits, place="input.question", what="a question is a text")
    options = [
        read_text(option, limits, place=f"input.options.{at}", what="an option is a text")
        for at, option in enumerate(value["options"][: spec.options + 1])
    ]
    if not 2 <= len(options) <= spec.options:
        raise InvalidRequest(f"input.options: this model takes 2 to {spec.options} options (task.labels)")
    if len({option.strip() for option in options}) < len(options):
        raise InvalidRequest("input.options: two of them are the same")
    return Question(question=question, options=tuple(options))


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    kinds = {
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return kinds.get(type(value), type(value).__name__)

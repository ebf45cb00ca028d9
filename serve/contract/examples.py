"""Inputs to try a model with: from a labelled file where there is one, else such as the model takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.input import InputConfig
from demur.serve.contract.inputs import (
    Conversation,
    InputLimits,
    InputSpec,
    InvalidRequest,
    JsonInput,
    Question,
    TableRow,
    TextPair,
    example_of,
    spec_of,
)
from demur.serve.contract.reading.given import GivenReader
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.contract.reading.spread_rows import NUMBER, gathered
from demur.traffic.dataset import GivenRow, SpreadRow, read_labelled_file
from demur.traffic.record import Answer
from demur.traffic.table_file import BadDataFile

OTHERWISE: dict[str, Any] = {
    "generate": "a question to answer",
    "choice": {"question": "a question", "options": ["an option", "another option"]},
}
"""Inputs to try, by kind of task, where no labelled file has a better one."""

LONGEST = 2000
"""Characters of an example that somebody is to paste."""

LONGEST_SHOWN = 100_000
"""Characters of one that is sent by a click."""

LARGEST_FILE = 50 * 2**20
"""Bytes of a file of examples."""


@dataclass(frozen=True, slots=True)
class Example:
    """What a request may bring, and what is right about it."""

    body: dict[str, Any]
    """`input`, or `output` as well."""

    label: Answer


def brought(example: Any) -> dict[str, Any]:
    """What a request brings of an example, by key."""
    if not isinstance(example, GivenRow):
        return {"input": example}
    return {**({} if example.input is None else {"input": example.input}), "output": example.output}


def first_example(model: ModelConfig) -> Any:
    """Return an input to try: the first of the calibration data, if that can be read and is short enough to paste. Of a
    model that runs elsewhere it has what that said."""
    otherwise = OTHERWISE.get(model.task.kind, "your input")
    data = model.calibration.data
    if data is None or not data.is_file():
        return otherwise
    try:
        value = _put_together(read_labelled_file(data, model.file_form).inputs[0], model)
    except (BadDataFile, InvalidRequest, OSError):  # an artifact may be older than what the file has become
        return otherwise
    if isinstance(value, GivenRow):
        return value if len(str(value)) <= LONGEST else otherwise
    value = picture_url(value) or value
    return value if len(str(value)) <= LONGEST else otherwise


def shown_examples(model: ModelConfig, *, most: int) -> list[Example]:
    """Return the first rows of `examples` of a model, as requests bring them. Raises `BadDataFile` for a file that
    cannot be read, and leaves out what is too long."""
    if model.examples is None:
        return []
    _check_size(model.examples)
    rows = read_labelled_file(model.examples, model.file_form)
    found: list[Example] = []
    for value, label in zip(rows.inputs, rows.labels, strict=True):
        if len(found) == most:
            break
        try:
            body = brought(_put_together(value, model))
        except InvalidRequest as error:
            raise BadDataFile(f"{model.examples}: {error}") from None
        if len(str(body)) <= LONGEST_SHOWN:
            found.append(Example(body, label))
    return found


def plain_example(spec: InputSpec) -> Any:
    """Return an input that a model takes and that means nothing, as JSON."""
    value = example_of(spec) if spec.kind != "given" else None
    if isinstance(value, np.ndarray):
        return (value[0] if spec.channels == 1 else value).tolist()
    if isinstance(value, TableRow):
        return dict(zip(spec.columns, value.cells, strict=True))
    if isinstance(value, Question):
        return {"question": value.question, "options": list(value.options)}
    if isinstance(value, TextPair):
        return {"text": value.text, "text_pair": value.text_pair}
    if isinstance(value, Conversation):
        return str(value.messages[0]["content"])
    if isinstance(value, JsonInput):
        return value.value
    return value if isinstance(value, str) else None


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise BadDataFile(f"{path} cannot be read ({error.strerror or error})") from None
    if size > LARGEST_FILE:
        raise BadDataFile(f"{path} has {size:,} bytes; a file of examples has at most {LARGEST_FILE:,}")


def _put_together(value: Any, model: ModelConfig) -> Any:
    """An input of a file as a request brings it. Raises `InvalidRequest`."""
    if not isinstance(value, SpreadRow):
        return value
    if isinstance(model.host, GivenHost):
        limits = InputLimits(text_characters=LONGEST)
        return GivenReader(model.host, model.task, limits).gathered(value)
    told = getattr(model.host, "input", None)
    if isinstance(told, InputConfig) and (told.kind != "table" or told.columns):
        return gathered(value, spec_of(told))
    return {name: _number_or_text(cell) for name, cell in value.items()}


def _number_or_text(cell: Any) -> Any:
    """A cell as it looks, where only the model's file says what its column holds."""
    return float(cell) if isinstance(cell, str) and NUMBER.fullmatch(cell) else cell

"""`host: {kind: python}`: a class of the user's own that gives probabilities, logits or an embedding."""

import hashlib
import inspect
import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import ValidationError

from demur.serve.config.complaint import complaint
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.python import PythonHost
from demur.serve.config.input import InputConfig, check_complete
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import (
    InputSpec,
    JsonInput,
    ModelInput,
    TableRow,
    TextPair,
    example_of,
    spec_of,
)
from demur.serve.contract.model import Model
from demur.serve.contract.user_code import NotFound, in_words, load_named
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModel, BadModelOutput, ModelKind, TrialWords
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.one_thread import OneThread
from demur.serve.hosts.pixels import sized
from demur.uncertainty.output import Need, Output

logger = logging.getLogger("demur.model")

GIVES: dict[Need, str] = {"embedding": "embed", "logits": "predict_logits"}
"""Parts of an output beyond probabilities, and the method of the class that gives each."""

MOST_LINES = 8
"""Calls that are named of an error in the class: the last of them."""


class PythonModel:
    """A `SyncModel` that asks an object of the user's class."""

    def __init__(self, host: PythonHost, task: TaskConfig) -> None:
        self._object = _made(class_of(host), host)
        self._name = host.class_path
        self._read = ArrayReader(task, self._name)
        self._spec = _spec_of(host, self._object)

    @property
    def spec(self) -> InputSpec:
        return self._spec

    def example(self) -> ModelInput:
        """Return the class's own `example`, or an input without meaning."""
        own = getattr(self._object, "example", None)
        if own is None:
            return example_of(self._spec)
        value = own() if callable(own) else own
        wrap = {"table": lambda cells: TableRow(tuple(cells)), "json": JsonInput}.get(self._spec.kind)
        if self._spec.kind == "text_pair":
            return TextPair(text=value[0], text_pair=value[1])
        return cast(ModelInput, wrap(value) if wrap else value)

    def remarks(self) -> list[str]:
        """Return nothing: there is nothing to remark."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked about each input. Raises `BadModelOutput`."""
        if lacking := sorted(need for need in needs - {"probabilities"} if not self._method(GIVES.get(need, ""))):
            known = [f"a method `{GIVES[need]}`" for need in lacking if need in GIVES]
            way_out = f"give it {' and '.join(known)}, or leave" if known else "leave"
            raise BadModelOutput(
                f"a score needs the {', '.join(lacking).replace('_', ' ')}, which {self._name} does not give;"
                f" {way_out} that score out"
            )
        values = [self._plain(value) for value in inputs]
        embedding = None
        if "embedding" in needs:
            embedding = self._read.embedding(self._called("embed", values), len(values), of="embed")
        way = "predict_logits" if self._method("predict_logits") else "predict_proba"
        read = self._read.logits if way == "predict_logits" else self._read.probabilities
        return read(self._called(way, values), len(values), of=way, embedding=embedding)

    def _plain(self, value: ModelInput) -> Any:
        return sized(value, self._spec) if isinstance(value, np.ndarray) else plain_value(value)

    def _called(self, method: str, values: list[Any]) -> Any:
        found = self._method(method)
        assert found is not None  # asked for above, or when the class was looked at
        try:
            return found(values)
        except Exception as error:
            if error.__traceback__ is not None:  # a traceback does not travel to the gateway, which logs the error
                lines = traceback.format_tb(error.__traceback__.tb_next)[-MOST_LINES:]
                error.add_note(f"{method} of {self._name} failed at\n{''.join(lines)}".rstrip())
            raise

    def _method(self, name: str) -> Callable[[list[Any]], Any] | None:
        found = getattr(self._object, name, None) if name else None
        return found if callable(found) else None


def _made(kind: type, host: PythonHost) -> Any:
    try:
        return kind(**host.settings)
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next:  # raised by a line of the class
            raise BadModel(_unmade(host, error)) from error
        raise BadModel(f"host.settings: {host.class_path} cannot be made with them: {error}") from error
    except (Exception, SystemExit) as error:
        raise BadModel(_unmade(host, error)) from error


def _unmade(host: PythonHost, error: BaseException) -> str:
    logger.error("model %s: its class cannot be made", host.class_path, exc_info=error)
    return f"host.class: {host.class_path} failed while it was made: {in_words(error)}"


def class_of(host: PythonHost) -> type:
    """Return the class that is configured. Raises `BadModel`."""
    try:
        found = load_named(host.class_path)
    except NotFound as error:
        raise BadModel(f"host.class: {error}") from None
    if not isinstance(found, type):
        raise BadModel(f"host.class: {host.class_path} is not a class")
    if not (hasattr(found, "predict_proba") or hasattr(found, "predict_logits")):
        raise BadModel(
            f"host.class: {host.class_path} has no method `predict_proba`, which takes a list of inputs and returns"
            " [n, labels], nor `predict_logits`"
        )
    return found


def plain_value(value: ModelInput) -> Any:
    """Return an input as a class of the user's own gets it: a text, bytes, an array, a pair of texts, a tuple of the
    cells of a row, or any JSON."""
    if isinstance(value, TableRow):
        return value.cells
    if isinstance(value, TextPair):
        return value.text, value.text_pair
    return value.value if isinstance(value, JsonInput) else value


def _spec_of(host: PythonHost, model: object) -> InputSpec:
    """Return the input that is configured; else what the class says, which has an `input` like the one in the
    configuration, or an `image_shape`; else texts."""
    if host.input is not None:
        return spec_of(host.input)
    name = host.class_path
    if (own := getattr(model, "input", None)) is not None:
        try:
            told = InputConfig.model_validate(own)
            check_complete(told)
        except (ValidationError, ValueError) as error:
            why = complaint(error, own) if isinstance(error, ValidationError) else error
            raise BadModel(f"{name}: its `input` is not one that can be configured: {why}") from None
        return spec_of(told)
    shape = getattr(model, "image_shape", None)
    if shape is None:
        return InputSpec(kind="text")
    try:
        channels, height, width = (int(number) for number in shape)
    except (TypeError, ValueError):
        raise BadModel(f"{name}: image_shape is {shape!r}; it should be (channels, height, width)") from None
    if channels not in (1, 3) or min(height, width) < 1:
        raise BadModel(f"{name}: image_shape is {shape!r}; an image has 1 or 3 channels, and at least one pixel")
    return InputSpec(kind="image", channels=channels, height=height, width=width)


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    host = _host(model)
    return await OneThread.started(lambda: PythonModel(host, model.task), seconds=host.load_seconds)


def _check(model: ModelConfig) -> None:
    host = _host(model)
    class_of(host)
    for path in host.files:
        if not path.is_file():
            raise BadModel(f"host.files: there is no file {path}")


def _fingerprint(model: ModelConfig) -> str:
    """Hash the class's file, its settings, and the files that belong to the model."""
    host = _host(model)
    kind = class_of(host)
    digest = hashlib.sha256(json.dumps([host.class_path, host.settings], sort_keys=True, default=str).encode())
    source = inspect.getsourcefile(sys.modules[kind.__module__])
    for path in (*([Path(source)] if source else []), *host.files):
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _is_here(model: ModelConfig) -> bool:
    try:
        _check(model)
    except BadModel:
        return False
    return True


def _host(model: ModelConfig) -> PythonHost:
    assert isinstance(model.host, PythonHost)
    return model.host


PYTHON = ModelKind(
    load=_load,
    check=_check,
    fingerprint=_fingerprint,
    is_here=_is_here,
    apart=TrialWords(
        key="host.class",
        way_out="import its module by hand (`python -c 'import ...'`) and take out what ends the program or never comes"
        " back; what takes long belongs into `__init__`",
        state=lambda _: "",
    ),
)

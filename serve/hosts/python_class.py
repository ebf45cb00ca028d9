"""`host: {kind: python}`: a class of the user's own that gives probabilities, logits or an embedding."""

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts import PythonHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.model import Model
from demur.serve.contract.user_code import NotFound, load_named
from demur.serve.hosts.kind import ModelKind
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.one_thread import OneThread
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.output import Need, Output

GIVES: dict[Need, str] = {"embedding": "embed"}
"""Parts of an output beyond probabilities, and the method of the class that gives each."""


class BadModelClass(ValueError):
    """A class cannot be served as a model. The message says what it lacks."""


class BadModelOutput(RuntimeError):
    """A model gave what cannot be read as it should be. The message says what came, and what would be right."""


class PythonModel:
    """A `SyncModel` that asks an object of the user's class."""

    def __init__(self, host: PythonHost, task: TaskConfig) -> None:
        kind = class_of(host)
        try:
            self._object = kind(**host.settings)
        except TypeError as error:
            raise BadModelClass(f"host.settings: {host.class_path} cannot be made with them: {error}") from error
        self._name, self._task = host.class_path, task
        self._spec = _spec_of(self._object, self._name)

    @property
    def spec(self) -> InputSpec:
        return self._spec

    def example(self) -> ModelInput:
        """Return the class's own `example`, or an input without meaning."""
        if (own := getattr(self._object, "example", None)) is not None:
            return cast(ModelInput, own() if callable(own) else own)
        if self._spec.kind == "text":
            return "a text"
        return np.zeros((self._spec.channels, self._spec.height, self._spec.width), dtype=np.float32)

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked about each input. Raises `BadModelOutput`."""
        rows, columns = len(inputs), len(self._task.outputs)
        if lacking := sorted(need for need in needs - {"probabilities"} if not self._method(GIVES.get(need, ""))):
            known = [f"a method `{GIVES[need]}`" for need in lacking if need in GIVES]
            way_out = f"give it {' and '.join(known)}, or leave" if known else "leave"
            raise BadModelOutput(
                f"a score needs the {', '.join(lacking).replace('_', ' ')}, which {self._name} does not give;"
                f" {way_out} that score out"
            )
        embedding = None
        if "embedding" in needs:
            embedding = self._numbers("embed", inputs)
            if embedding.ndim != 2 or len(embedding) != rows:
                raise self._wrong("embed", embedding, f"[{rows}, d], a row for each input")
        if self._method("predict_logits"):
            logits = self._numbers("predict_logits", inputs)
            if logits.shape != (rows, columns):
                raise self._wrong("predict_logits", logits, f"[{rows}, {columns}], a column for each label")
            return Output.from_logits(logits, link=self._task.link, embedding=embedding, tree=self._task.tree)
        probabilities = self._numbers("predict_proba", inputs)
        if probabilities.shape != (rows, columns):
            raise self._wrong("predict_proba", probabilities, f"[{rows}, {columns}], a column for each label")
        try:
            return Output.from_probabilities(
                probabilities, link=self._task.link, embedding=embedding, tree=self._task.tree
            )
        except InvalidInput as error:
            raise BadModelOutput(f"predict_proba of {self._name}: {error}") from None

    def _numbers(self, method: str, inputs: Sequence[ModelInput]) -> Array:
        given = self._method(method)
        assert given is not None  # asked for above, or when the class was looked at
        found = given(list(inputs))
        try:
            return np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BadModelOutput(f"{method} of {self._name} gave no array of numbers: {error}") from None

    def _method(self, name: str) -> Callable[[list[ModelInput]], Any] | None:
        found = getattr(self._object, name, None) if name else None
        return found if callable(found) else None

    def _wrong(self, method: str, found: Array, right: str) -> BadModelOutput:
        return BadModelOutput(f"{method} of {self._name} gave {list(found.shape)}; it should give {right}")


def class_of(host: PythonHost) -> type:
    """Return the class that is configured. Raises `BadModelClass`."""
    try:
        found = load_named(host.class_path)
    except NotFound as error:
        raise BadModelClass(f"host.class: {error}") from None
    if not isinstance(found, type):
        raise BadModelClass(f"host.class: {host.class_path} is not a class")
    if not (hasattr(found, "predict_proba") or hasattr(found, "predict_logits")):
        raise BadModelClass(
            f"host.class: {host.class_path} has no method `predict_proba`, which takes a list of inputs and returns"
            " [n, labels], nor `predict_logits`"
        )
    return found


def _spec_of(model: object, name: str) -> InputSpec:
    """Texts, unless the class says of which shape its images are."""
    shape = getattr(model, "image_shape", None)
    if shape is None:
        return InputSpec(kind="text")
    try:
        channels, height, width = (int(number) for number in shape)
    except (TypeError, ValueError):
        raise BadModelClass(f"{name}: image_shape is {shape!r}; it should be (channels, height, width)") from None
    if channels not in (1, 3) or min(height, width) < 1:
        raise BadModelClass(f"{name}: image_shape is {shape!r}; an image has 1 or 3 channels, and at least one pixel")
    return InputSpec(kind="image", channels=channels, height=height, width=width)


async def _load(model: ModelConfig, _: Reviewed | None) -> Model:
    return await OneThread.started(lambda: PythonModel(_host(model), model.task))


def _check(model: ModelConfig) -> None:
    host = _host(model)
    class_of(host)
    for path in host.files:
        if not path.is_file():
            raise BadModelClass(f"host.files: there is no file {path}")


def _fingerprint(model: ModelConfig) -> str:
    """Of the class's file, its settings, and the files that belong to the model."""
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
    except BadModelClass:
        return False
    return True


def _host(model: ModelConfig) -> PythonHost:
    assert isinstance(model.host, PythonHost)
    return model.host


PYTHON = ModelKind(load=_load, check=_check, fingerprint=_fingerprint, is_here=_is_here)

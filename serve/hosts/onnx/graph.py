"""A graph of ONNX in a session of onnxruntime: what it takes and gives, and what it says about one batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as state

from demur.serve.hosts.kind import BadModel, BadModelOutput

ORT_ERRORS: tuple[type[Exception], ...] = (
    *(state.Fail, state.InvalidArgument, state.NoSuchFile, state.NoModel, state.EngineError),
    *(state.RuntimeException, state.InvalidProtobuf, state.NotImplemented, state.InvalidGraph, state.EPFail),
)
"""What onnxruntime raises."""

NUMBERS: dict[str, type[np.generic]] = {
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}
"""Types of tensors that can be filled, and what NumPy calls them."""

TEXTS = "tensor(string)"

FLOATS = ("tensor(float16)", "tensor(float)", "tensor(double)")

ERRORS_ALONE = 3
"""What onnxruntime itself writes to the log: everything that matters is raised, and told once."""


@dataclass(frozen=True, kw_only=True)
class GraphValue:
    """An input or an output of a graph."""

    name: str
    type: str
    shape: tuple[int | None, ...]
    """None for a size that is not fixed."""

    @property
    def is_text(self) -> bool:
        return self.type == TEXTS

    @property
    def is_float(self) -> bool:
        return self.type in FLOATS

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS

    @property
    def is_map(self) -> bool:
        """Whether it has for each row a mapping from a label to a number."""
        return self.type.startswith("seq(map(")

    @property
    def words(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.type}[{sizes}]" if self.type.startswith("tensor") else f"{self.name} {self.type}"


class Graph:
    """A session, and the facts about its graph. Raises `BadModel` where onnxruntime does not take the file."""

    def __init__(self, file: Path, *, device: str = "cpu", threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a waiting thread takes no core
        options.log_severity_level = ERRORS_ALONE
        try:
            self._session = onnxruntime.InferenceSession(file, options, providers=[_provider(device)])
        except ORT_ERRORS as error:
            raise BadModel(f"host.file: {_not_taken(file, error)}") from None
        if device != "cpu" and "CUDAExecutionProvider" not in self._session.get_providers():
            raise BadModel(
                f"host.device: onnxruntime cannot run {file.name} on {device}: its libraries of CUDA and cuDNN are"
                " missing or of another version; install them, or set `device: cpu`"
            )
        self._session.disable_fallback()
        self.inputs = [_value(one) for one in self._session.get_inputs()]
        self.outputs = [_value(one) for one in self._session.get_outputs()]
        self.rows_at_a_time = _fixed_rows(self.inputs)

    def run(self, feeds: Mapping[str, NDArray[Any]], rows: int, names: Sequence[str]) -> list[Any]:
        """Return the named outputs about a batch: arrays [rows, ...], or a list with a mapping for each row.

        A graph that is fixed to some number of rows is run several times, and the last time with the last row repeated.
        Raises `BadModelOutput`.
        """
        if self.rows_at_a_time is None:
            return self._run(feeds, names)
        parts = []
        for start in range(0, rows, self.rows_at_a_time):
            at = np.minimum(np.arange(start, start + self.rows_at_a_time), rows - 1)
            parts.append(self._run({name: array[at] for name, array in feeds.items()}, names))
        return [_joined([part[place] for part in parts], rows) for place in range(len(names))]

    def _run(self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[Any]:
        try:
            found: list[Any] = self._session.run(list(names), dict(feeds))
        except ORT_ERRORS as error:
            raise BadModelOutput(f"onnxruntime could not run the graph: {plain_words(error)}") from None
        return found


def plain_words(error: Exception) -> str:
    """Return what onnxruntime says, without its own codes, on one line."""
    said = " ".join(str(error).split())
    return said.split(" : ", 3)[-1][:400] if said.startswith("[ONNXRuntimeError]") else said[:400]


def listed(values: Sequence[GraphValue]) -> str:
    """Return what a graph takes or gives, in words."""
    return ", ".join(one.words for one in values[:10]) + (f" and {len(values) - 10} more" if len(values) > 10 else "")


def _provider(device: str) -> str | tuple[str, dict[str, Any]]:
    if device == "cpu":
        return "CPUExecutionProvider"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise BadModel(
            f"host.device: this onnxruntime has no CUDA, so nothing can run on {device}; install onnxruntime-gpu in its"
            " place, or set `device: cpu`"
        )
    return "CUDAExecutionProvider", {"device_id": int(device.removeprefix("cuda").lstrip(":") or 0)}


def _not_taken(file: Path, error: Exception) -> str:
    said = plain_words(error)
    if (
        "is not a registered function/op" in said
        or "No Op registered for" in said
        or isinstance(error, state.NotImplemented)
    ):
        return (
            f"{file} has an operator that onnxruntime does not know: {said}; export the model without it, or host it"
            " through a class of your own (`host.kind: python`)"
        )
    if "locale" in said:
        return (
            f"{file} needs a locale that this machine does not have: {said}; install it (on Debian: `apt-get install"
            " locales-all`), or convert the model with texts that are in lower case already (`lowercase=False`)"
        )
    if "IR version" in said or "opset" in said.lower():
        return f"{file} is newer than this onnxruntime: {said}; update onnxruntime, or export with a lower opset"
    return f"onnxruntime does not take {file}: {said}; export the model again"


def _value(told: Any) -> GraphValue:
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in told.shape)
    return GraphValue(name=told.name, type=told.type, shape=shape)


def _fixed_rows(inputs: Sequence[GraphValue]) -> int | None:
    """How many rows the graph takes at a time, where that is fixed."""
    fixed = {one.shape[0] for one in inputs if one.shape and one.shape[0] is not None}
    if len(fixed) > 1:
        raise BadModel(
            f"host.file: the inputs of the graph are fixed to different numbers of rows: {listed(inputs)}; export it"
            " with a first dimension that is free"
        )
    return next(iter(fixed), None)


def _joined(parts: list[Any], rows: int) -> Any:
    if isinstance(parts[0], list):
        return [row for part in parts for row in part][:rows]
    return np.concatenate(parts)[:rows]

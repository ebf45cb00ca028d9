"""What a graph takes: which kind of input that is to demur, and how a batch of inputs fills its tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from demur.library.nearest import one_of
from demur.serve.config.hosts.onnx import OnnxHost, PixelsConfig
from demur.serve.config.input import MOST_COLUMNS, ColumnConfig, InputConfig
from demur.serve.contract.inputs import InputSpec, ModelInput, Pixels, TableRow, TextPair
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.onnx.graph import NUMBERS, GraphValue, listed
from demur.serve.hosts.pixels import sized

Feeds = Mapping[str, NDArray[Any]]
"""By the name of a graph's input, [n, ...]."""

OWN_CLASS = "; host it through a class of your own (`host.kind: python`)"


@dataclass(frozen=True, kw_only=True)
class FilledBatch:
    """A batch as a graph takes it."""

    feeds: Feeds
    unfit: Mapping[int, str]
    """Rows that cannot be told to the graph, with the reason. Something else stands in their place."""


class Feeder(Protocol):
    """Fills the inputs of one graph."""

    @property
    def spec(self) -> InputSpec: ...

    def fill(self, inputs: Sequence[ModelInput]) -> FilledBatch: ...


def feeder_of(host: OnnxHost, inputs: Sequence[GraphValue]) -> Feeder:
    """Return what fills a graph, as `host.input` says, else as the graph's own inputs show. Raises `BadModel`."""
    for one in inputs:
        if not (one.is_text or one.is_number):
            raise BadModel(f"host.file: the graph takes {one.words}, which no request can fill{OWN_CLASS}")
    kind = host.input.kind if host.input else _kind_of(inputs)
    if kind in ("text", "text_pair"):
        return TextFeeder(inputs, pair=kind == "text_pair")
    if kind == "image":
        return ImageFeeder(host, inputs)
    if kind == "table":
        return TableFeeder(host.input, inputs)
    raise BadModel(f"host.input: a graph takes a table, a text, a text_pair or an image, and not {kind}{OWN_CLASS}")


def _kind_of(inputs: Sequence[GraphValue]) -> str:
    if len(inputs) == 1 and inputs[0].is_text and len(inputs[0].shape) in (1, 2) and inputs[0].shape[1:] in ((), (1,)):
        return "text"
    if len(inputs) == 1 and inputs[0].is_number and len(inputs[0].shape) == 4:
        return "image"
    if inputs and all(len(one.shape) in (1, 2) for one in inputs):
        return "table"
    raise BadModel(f"host.input: the graph takes {listed(inputs)}, which is no table, text or image{OWN_CLASS}")


@dataclass(frozen=True, kw_only=True)
class TensorColumns:
    """The columns of a table that make one input of a graph."""

    value: GraphValue
    columns: slice

    def fill(self, rows: Sequence[tuple[Any, ...]], names: Sequence[str], unfit: dict[int, str]) -> NDArray[Any]:
        """Return [n, columns], or [n]. Rows with a number that the type cannot hold are added to `unfit`."""
        cells = [row[self.columns] for row in rows]
        if self.value.is_text:
            filled = np.empty((len(rows), len(cells[0])), dtype=object)
            filled[:] = cells
        else:
            filled = self._numbers(cells, names[self.columns], unfit)
        return filled.reshape(-1) if len(self.value.shape) == 1 else filled

    def _numbers(self, cells: Sequence[Any], names: Sequence[str], unfit: dict[int, str]) -> NDArray[Any]:
        wanted = NUMBERS[self.value.type]
        told = np.array(cells, dtype=np.float64)  # None becomes NaN
        with np.errstate(over="ignore", invalid="ignore"):
            filled = told.astype(wanted)
        if np.issubdtype(wanted, np.floating):
            wrong = np.isfinite(told) & ~np.isfinite(filled)
        else:
            wrong = filled.astype(np.float64) != told  # NaN too
        for row, column in np.argwhere(wrong).tolist():
            unfit.setdefault(row, f"{names[column]}: {told[row, column]:g} does not fit into {self.value.type}")
        return np.where(wrong, np.zeros((), dtype=wanted), filled)


class TableFeeder:
    """Fills one matrix of numbers or texts, or several, or an input for each column."""

    def __init__(self, told: InputConfig | None, inputs: Sequence[GraphValue]) -> None:
        for one in inputs:
            if len(one.shape) not in (1, 2):
                raise BadModel(f"host.input: the graph takes {one.words}, which no row of a table fills{OWN_CLASS}")
        columns = dict(told.columns) if told and told.columns else {}
        widths = _widths(inputs, columns)
        if _one_for_each(inputs, widths, columns):
            inputs, columns = _by_name(inputs, columns)
            widths = [1] * len(inputs)
        elif columns and len(columns) != sum(widths):
            raise BadModel(
                f"host.input.columns: {len(columns):,} columns are named, and the graph takes {sum(widths):,}:"
                f" {listed(inputs)}"
            )
        else:
            columns = columns or _numbered(inputs, widths)
        self._spec = InputSpec(kind="table", columns=columns)
        self._names = tuple(columns)
        self._tensors = []
        start = 0
        for one, width in zip(inputs, widths, strict=True):
            self._tensors.append(TensorColumns(value=one, columns=slice(start, start + width)))
            _check_columns(one, {name: columns[name] for name in self._names[start : start + width]})
            start += width

    @property
    def spec(self) -> InputSpec:
        return self._spec

    def fill(self, inputs: Sequence[ModelInput]) -> FilledBatch:
        rows = [row.cells for row in cast(Sequence[TableRow], inputs)]
        unfit: dict[int, str] = {}
        feeds = {one.value.name: one.fill(rows, self._names, unfit) for one in self._tensors}
        return FilledBatch(feeds=feeds, unfit=unfit)


def _widths(inputs: Sequence[GraphValue], columns: Mapping[str, ColumnConfig]) -> list[int]:
    """How many columns each input takes; of a single one whose width is free, as many as are named."""
    found = [1 if len(one.shape) == 1 else one.shape[1] for one in inputs]
    if len(found) == 1 and found[0] is None and columns:
        return [len(columns)]
    for one, width in zip(inputs, found, strict=True):
        if width is None:
            raise BadModel(
                f"host.input.columns: the graph does not say how many columns {one.words} has; name them, as in"
                " `input: {kind: table, columns: {age: number, income: number}}`"
            )
    widths = [width for width in found if width is not None]
    if sum(widths) > MOST_COLUMNS:
        raise BadModel(f"host.input: the graph takes {sum(widths):,} columns; at most {MOST_COLUMNS:,} are taken")
    return widths


def _one_for_each(inputs: Sequence[GraphValue], widths: Sequence[int], columns: Mapping[str, ColumnConfig]) -> bool:
    """Whether each input of the graph is a column with its name."""
    if any(width != 1 for width in widths):
        return False
    return len(inputs) > 1 or not columns or inputs[0].name in columns


def _by_name(
    inputs: Sequence[GraphValue], columns: dict[str, ColumnConfig]
) -> tuple[list[GraphValue], dict[str, ColumnConfig]]:
    """Return the inputs in the order of the columns, and the columns."""
    named = {one.name: one for one in inputs}
    columns = columns or {name: _column(one) for name, one in named.items()}
    if strange := [name for name in columns if name not in named]:
        raise BadModel(f"host.input.columns.{strange[0]}: {one_of(strange[0], list(named))}")
    if lacking := [name for name in named if name not in columns]:
        raise BadModel(f"host.input.columns: the graph takes {', '.join(lacking[:10])} as well; add it")
    return [named[name] for name in columns], columns


def _numbered(inputs: Sequence[GraphValue], widths: Sequence[int]) -> dict[str, ColumnConfig]:
    """Columns that have no name: x0, x1 and so on; of several inputs, each with the input's name before it."""
    found = {}
    for one, width in zip(inputs, widths, strict=True):
        for at in range(width):
            found[f"x{at}" if len(inputs) == 1 else f"{one.name}_{at}"] = _column(one)
    if len(found) < sum(widths):
        raise BadModel(f"host.input.columns: the inputs of the graph have names alike: {listed(inputs)}; name columns")
    return found


def _column(value: GraphValue) -> ColumnConfig:
    """What a column is that nobody has described."""
    if value.is_text:
        return ColumnConfig(kind="category")
    if value.is_float:
        return ColumnConfig(kind="number")
    return ColumnConfig(kind="boolean" if value.type == "tensor(bool)" else "integer")


def _check_columns(value: GraphValue, columns: Mapping[str, ColumnConfig]) -> None:
    """Raise `BadModel` for a column that the input of the graph cannot hold."""
    suited = ("category", "text")
    if not value.is_text:
        numbers = ("number", "integer") if value.is_float else ("integer",)
        suited = ("boolean",) if value.type == "tensor(bool)" else (*numbers, "boolean")
    for name, column in columns.items():
        if column.kind not in suited:
            raise BadModel(
                f"host.input.columns.{name}: the graph takes {value.type} there, and the column is of the kind"
                f" {column.kind}; write {' or '.join(suited)}"
            )
        if column.missing and not value.is_float:
            raise BadModel(
                f"host.input.columns.{name}: a missing value cannot be told to a graph that takes {value.type} there;"
                " leave `missing` out"
            )


class TextFeeder:
    """Fills an input with texts, or two with the texts of a pair, in the order of the graph."""

    def __init__(self, inputs: Sequence[GraphValue], *, pair: bool) -> None:
        wanted = 2 if pair else 1
        fits = all(one.is_text and len(one.shape) in (1, 2) and one.shape[1:] in ((), (1,), (None,)) for one in inputs)
        if len(inputs) != wanted or not fits:
            what = "two inputs of texts" if pair else "one input of texts"
            tokens = "" if all(one.is_text for one in inputs) else "; a graph that takes tokens needs its tokenizer"
            raise BadModel(f"host.input: it needs {what}, and the graph takes {listed(inputs)}{tokens}{OWN_CLASS}")
        self._inputs = list(inputs)
        self._pair = pair

    @property
    def spec(self) -> InputSpec:
        return InputSpec(kind="text_pair" if self._pair else "text")

    def fill(self, inputs: Sequence[ModelInput]) -> FilledBatch:
        if self._pair:
            pairs = cast(Sequence[TextPair], inputs)
            columns = [[one.text for one in pairs], [one.text_pair for one in pairs]]
        else:
            columns = [[cast(str, one) for one in inputs]]
        feeds = {}
        for one, texts in zip(self._inputs, columns, strict=True):
            filled = np.empty(len(texts), dtype=object)
            filled[:] = texts
            feeds[one.name] = filled if len(one.shape) == 1 else filled[:, np.newaxis]
        return FilledBatch(feeds=feeds, unfit={})


class ImageFeeder:
    """Fills one input with pictures of one size."""

    def __init__(self, host: OnnxHost, inputs: Sequence[GraphValue]) -> None:
        if len(inputs) != 1 or not inputs[0].is_number or len(inputs[0].shape) != 4:
            raise BadModel(f"host.input: an image fills one input of four dimensions; the graph takes {listed(inputs)}")
        (self._value,) = inputs
        if self._value.type != "tensor(uint8)" and not self._value.is_float:
            raise BadModel(f"host.input: pixels fill floating point or uint8; the graph takes {self._value.words}")
        self._first = _channels_first(host, self._value)
        self._spec = _image_spec(host, self._value, channels_first=self._first)
        self._pixels = host.pixels
        _check_channels(host.pixels, self._spec.channels)
        if self._value.type == "tensor(uint8)" and host.pixels != PixelsConfig():
            raise BadModel("host.pixels: the graph takes pixels as uint8, in [0, 255], as they are; leave `pixels` out")

    @property
    def spec(self) -> InputSpec:
        return self._spec

    def fill(self, inputs: Sequence[ModelInput]) -> FilledBatch:
        told = self._pixels
        filled = np.stack([sized(one, self._spec) for one in cast(Sequence[Pixels], inputs)])
        if self._value.type == "tensor(uint8)":
            filled = np.rint(filled * 255)
        else:
            filled = filled * np.float32(told.range)
            shape = (1, -1, 1, 1)
            if told.mean:
                filled = filled - np.array(told.mean, np.float32).reshape(shape)
            if told.std:
                filled = filled / np.array(told.std, np.float32).reshape(shape)
        if not self._first:
            filled = np.moveaxis(filled, 1, -1)
        feed = np.ascontiguousarray(filled, dtype=NUMBERS[self._value.type])
        return FilledBatch(feeds={self._value.name: feed}, unfit={})


def _channels_first(host: OnnxHost, value: GraphValue) -> bool:
    if host.layout is not None:
        return host.layout == "nchw"
    first, last = value.shape[1] in (1, 3), value.shape[3] in (1, 3)
    if first == last:
        raise BadModel(
            f"host.layout: {value.words} does not show where its channels stand; write `layout: nchw` if they come"
            " before the height, or `layout: nhwc` if they come last"
        )
    return first


def _image_spec(host: OnnxHost, value: GraphValue, *, channels_first: bool) -> InputSpec:
    """The size of the graph's pictures, and where that is free, the configured one."""
    _, a, b, c = value.shape
    own = dict(zip(("channels", "height", "width"), (a, b, c) if channels_first else (c, a, b), strict=True))
    sizes: dict[str, int] = {}
    for name, size in own.items():
        told = getattr(host.input, name) if host.input else 0
        if size is not None and told not in (0, size):
            raise BadModel(f"host.input.{name}: it is {told}, and the graph takes {size}: {value.words}")
        if not (size or told):
            raise BadModel(
                f"host.input.{name}: the graph does not say it: {value.words}; write `input: {{kind: image,"
                " channels: 3, height: 224, width: 224}` with the sizes of your model"
            )
        sizes[name] = size or told
    if sizes["channels"] not in (1, 3):
        raise BadModel(f"host.input: an image has 1 or 3 channels, and the graph takes {value.words}{OWN_CLASS}")
    return InputSpec(kind="image", channels=sizes["channels"], height=sizes["height"], width=sizes["width"])


def _check_channels(told: PixelsConfig, channels: int) -> None:
    for name in ("mean", "std"):
        if (given := getattr(told, name)) and len(given) not in (1, channels):
            raise BadModel(
                f"host.pixels.{name}: it has {len(given)} numbers, and a picture of this model {channels} channels"
            )

"""A graph in ONNX's format: `host: {kind: onnx}`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from demur.serve.config.hosts.host import AnyHost
from demur.serve.config.input import InputConfig
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.settings import Section
from demur.uncertainty.output import Need


class PixelsConfig(Section):
    """What a graph wants in the place of pixels in [0, 1]."""

    range: Literal[1, 255] = 1
    """The value of a white pixel: 255 for a model that takes pixels in [0, 255]."""

    mean: tuple[float, ...] = Field(default=(), max_length=3)
    """For each channel, what is subtracted from a pixel, in that range."""

    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(default=(), max_length=3)
    """For each channel, what a pixel is then divided by."""


class OnnxHost(AnyHost):
    """A graph in ONNX's format, run by onnxruntime."""

    package: ClassVar[tuple[str, str]] = ("onnxruntime", "pip install 'demur[onnx]'")

    kind: Literal["onnx"]
    file: Path
    """The graph; files of weights that it names lie beside it, or in folders there."""

    device: Annotated[str, written_as(r"^(cpu|cuda(:\d+)?)$", "write cpu, cuda or cuda:1")] = "cpu"
    """Where it runs. `cuda` needs the package onnxruntime-gpu; operators that have no kernel there run on the CPU."""

    input: InputConfig | None = None
    """What one input is; by default as the graph shows."""

    layout: Literal["nchw", "nhwc"] | None = None
    """The order of an image's axes, where the graph's shape does not say whether the channels come first."""

    pixels: PixelsConfig = PixelsConfig()

    output: str | None = None
    """The name of the output that is read; by default as the graph shows."""

    gives: Literal["probabilities", "logits", "positive_probability", "positive_logit"] | None = None
    """What that output has: a column for each label; or, in a binary task, one column for the second label. By default
    as the graph shows."""

    embedding: str | None = None
    """The name of a further output [n, d], for scores that look at an embedding."""

    ways_to_give: ClassVar[Mapping[Need, str]] = {
        "embedding": "no output of the graph is named for it; write its name as host.embedding"
    }

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset({"probabilities"} if self.embedding is None else {"probabilities", "embedding"})

    @property
    def model_name(self) -> str:
        return str(self.file)

    @property
    def threads(self) -> int:
        """Threads in which it predicts."""
        return max(1, int(self.cpus))

    def _placed(self, base: Path) -> dict[str, Any]:
        return {"file": Path(os.path.abspath(base / self.file))}  # a link stays one: its weights lie beside it

"""A graph in ONNX's format: `host: {kind: onnx}`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from demur.serve.config.hosts.model_file import FileHost
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


class OnnxHost(FileHost):
    """A graph in ONNX's format, run by onnxruntime. Files of weights that the graph names lie beside it, or in folders
    there."""

    package: ClassVar[tuple[str, str]] = ("onnxruntime", "pip install 'demur[onnx]'")

    kind: Literal["onnx"]
    device: Annotated[str, written_as(r"^(cpu|cuda(:\d+)?)$", "write cpu, cuda or cuda:1")] = "cpu"
    """Where it runs. `cuda` needs the package onnxruntime-gpu; operators that have no kernel there run on the CPU."""

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
        "embedding": "no output of the graph is named for it; write its name as host.embedding",
        "logits": "host.gives says that the graph gives none",
    }

    @property
    def may_give(self) -> frozenset[Need]:
        found: set[Need] = {"probabilities"}
        if self.embedding is not None:
            found.add("embedding")
        if self.gives is None or "logit" in self.gives:
            found.add("logits")
        return frozenset(found)

"""A model on another server: `host: {kind: remote}`."""

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from demur.library.nearest import one_of
from demur.library.settings import GatheredMistakes
from demur.serve.config.hosts.host import AnyHost, BatchConfig
from demur.serve.config.input import InputConfig
from demur.serve.config.settings import Section
from demur.uncertainty.output import Need

Protocol = Literal["oip_rest", "oip_grpc", "http"]

SCHEMES: dict[str, tuple[str, ...]] = {
    "oip_rest": ("http", "https"),
    "http": ("http", "https"),
    "oip_grpc": ("grpc", "grpcs"),
}
"""Of an address, by the protocol."""

Numbers = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]
"""Datatypes of the Open Inference Protocol that hold numbers."""

SECRET = re.compile(r"authorization|cookie|token|secret|password|api-?key", re.IGNORECASE)
"""In the name of a header: what it says belongs in no file."""

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
OWN_HEADERS = frozenset({"content-type", "content-length", "accept-encoding", "transfer-encoding", "host", "te"})
"""What belongs to the connection."""


def _is_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = None
    if not usable or not url.isascii() or any(letter.isspace() for letter in url):
        raise ValueError(f"{url!r} is not an address like http://models.example.org:8080")
    if "@" in parts.netloc:
        raise ValueError("an address with a password in it would be logged; put what the server wants into headers_env")
    return url.rstrip("/")


ServerUrl = Annotated[str, AfterValidator(_is_address)]


class TensorConfig(Section):
    """How inputs become tensors of the Open Inference Protocol."""

    name: str = Field(default="input", min_length=1, max_length=200)
    """What the server calls the tensor that goes in, where it is one."""

    datatype: Numbers | None = None
    """Of all numbers; by default FP32. Where each column of a table is a tensor, by default what its kind of column
    holds: INT64, BOOL or FP64. Texts are always BYTES."""

    row_shape: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    """The shape of one row, without the dimension that counts rows; by default that of the input. Texts have none,
    or `[1]`."""

    columns: Literal["together", "apart", "json"] | None = None
    """Of a table: one tensor of numbers, a tensor for each column, or each row as a JSON text. Of a pair of texts:
    `apart`, or `json`."""

    names: dict[str, Annotated[str, Field(min_length=1, max_length=200)]] = Field(default={})
    """With `columns: apart`: what the server calls a column, or `text` and `text_pair`, where it has another name."""

    parameters: dict[str, bool | int | float | str] = Field(default={})
    """Sent with each tensor, such as `content_type`."""


class RemoteSettings(Section):
    """Where a model is served, how its server is asked, and where in its replies the numbers are."""

    protocol: Protocol
    """`oip_rest` and `oip_grpc`: the Open Inference Protocol, as KServe, Triton and MLServer speak it. `http`: JSON of
    any shape."""

    url: ServerUrl
    """Of the Open Inference Protocol, up to `/v2`. Otherwise the whole address that is sent to."""

    model: str | None = Field(default=None, min_length=1, max_length=200)
    """As the server calls it."""

    version: str = Field(default="", max_length=200)
    """The version of that model, which the server is asked for. An artifact holds for one version: change it when the
    model changes, and fit again."""

    input: InputConfig = InputConfig(kind="text")
    """What one input is."""

    tensor: TensorConfig = TensorConfig()
    """The Open Inference Protocol: how inputs become tensors."""

    parameters: dict[str, bool | int | float | str] = Field(default={})
    """The Open Inference Protocol: sent with each request, such as `content_type`."""

    binary: bool = False
    """`oip_rest`: whether numbers travel as bytes behind the JSON, where the server takes that."""

    request: str | dict[str, Any] | list[Any] | None = None
    """`http`: the body. A mapping in which `$inputs` stands for the inputs, or the text of a Jinja template."""

    table_rows: Literal["objects", "arrays"] = "objects"
    """`http`: how a row of a table looks in JSON."""

    layout: Literal["nchw", "nhwc"] = "nchw"
    """Of an image: whether its channels come before its height and width, or behind them."""

    takes_batches: bool = True
    """Whether one request may bring several inputs. If not, each input is a request, and `input` is sent in the place
    of `inputs`."""

    output: str | None = Field(default=None, min_length=1, max_length=1000)
    """The tensor with the prediction, by default the only one; `http`: where it is in the reply, in JMESPath."""

    output_labels: str | None = Field(default=None, min_length=1, max_length=1000)
    """Where the labels of these numbers are, if each reply names them in an order of its own."""

    embedding: str | None = Field(default=None, min_length=1, max_length=1000)
    """Where an embedding of each input is, if the server gives one."""

    embedding_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Numbers of an embedding."""

    gives: Literal["probabilities", "logits"] = "probabilities"
    """What `output` holds."""

    labels: tuple[str, ...] | None = None
    """The labels in the order of the server's numbers; by default that of the task."""

    headers: dict[str, str] = Field(default={}, max_length=100)
    """Sent with each request."""

    headers_env: dict[str, str] = Field(default={}, max_length=100)
    """Headers whose values are secret, and the environment variables that hold them."""

    ca: str | None = Field(default=None, min_length=1)
    """A file with the certificates that are trusted, in PEM; by default those of this machine."""

    connections: int = Field(default=16, ge=1, le=1000)
    """Requests at the same time, for each replica."""

    retries: int = Field(default=2, ge=0, le=20)
    """How often a request that failed in passing is sent again, after a growing time with jitter."""

    reply_bytes: int = Field(default=16 * 2**20, ge=1024, le=2**30)
    """Of one reply, at most."""

    @property
    def is_oip(self) -> bool:
        """Whether the server speaks the Open Inference Protocol."""
        return self.protocol != "http"

    @property
    def columns(self) -> str:
        """How a table or a pair becomes tensors."""
        return self.tensor.columns or {"table": "together", "text_pair": "apart"}.get(self.input.kind, "together")

    @property
    def parts(self) -> dict[str, str | None]:
        """Where each part of the output is."""
        named = {"output": self.output, "output_labels": self.output_labels, "embedding": self.embedding}
        return {name: place for name, place in named.items() if place is not None or name == "output"}

    @model_validator(mode="after")
    def settings_go_together(self) -> "RemoteSettings":
        gathered = GatheredMistakes()
        for mistake in self._mistakes():
            with gathered:
                raise ValueError(mistake)
        gathered.check()
        return self

    def _mistakes(self) -> Iterator[str]:
        schemes = SCHEMES[self.protocol]
        if urlsplit(self.url).scheme not in schemes:
            wanted = " or ".join(f"{scheme}://" for scheme in schemes)
            yield f"url: for {self.protocol} it begins with {wanted}, and this is {self.url}"
        yield from self._of_oip() if self.is_oip else self._of_http()
        if (self.embedding is None) != (self.embedding_size is None):
            yield "embedding_size: write how many numbers `embedding` has, or leave both out"
        if self.binary and self.protocol != "oip_rest":
            yield "binary: it is for oip_rest; gRPC always sends bytes, and http never does"
        if self.layout == "nhwc" and self.input.kind != "image":
            yield f"layout: it is that of an image, and the input is {self.input.kind}"
        if self.input.kind == "table" and not self.input.columns:
            yield "input.columns: name the columns of the table, in the order in which the server takes them"
        yield from self._of_headers()

    def _of_oip(self) -> Iterator[str]:
        path = urlsplit(self.url).path
        if "/v2" in f"{path}/" and (path.endswith("/v2") or "/v2/" in path):
            yield f"url: write the address up to `/v2`, as {self.url.split('/v2')[0]}, and the model's name in `model`"
        if self.model is None:
            yield "model: name the model, as its server calls it"
        for key, default in (("request", None), ("table_rows", "objects")):
            if getattr(self, key) != default:
                yield f"{key}: it is for `protocol: http`; tensors are described by `tensor`"
        if self.output_labels is not None and self.output is None:
            yield "output: name the tensor with the numbers, beside the one with their labels"
        if self.embedding is not None and self.output is None:
            yield "output: name the tensor with the prediction, beside the one with the embedding"
        yield from self._of_tensor()

    def _of_tensor(self) -> Iterator[str]:
        kind, tensor = self.input.kind, self.tensor
        allowed = {"table": ("together", "apart", "json"), "text_pair": ("apart", "json")}.get(kind)
        if tensor.columns is not None and (allowed is None or tensor.columns not in allowed):
            can = f"it can be {', '.join(allowed)}" if allowed else "it is for a table or a text_pair"
            yield f"tensor.columns: {can}, and the input is {kind}"
            return
        if kind == "table" and self.columns == "together":
            texts = [name for name, one in self.input.columns.items() if one.kind in ("category", "text")]
            if texts:
                yield (
                    f"tensor.columns: the column {texts[0]} holds texts, and one tensor holds numbers alone; write"
                    " `apart` or `json`"
                )
        known = {"table": list(self.input.columns), "text_pair": ["text", "text_pair"]}.get(kind, [])
        if tensor.names and self.columns != "apart":
            yield "tensor.names: they are for `columns: apart`; write `name` for a single tensor"
        elif unknown := [name for name in tensor.names if name not in known]:
            yield f"tensor.names: {one_of(unknown[0], known)}"
        sent = [tensor.names.get(name, name) for name in known] if self.columns == "apart" else []
        if twice := [name for name in sent if sent.count(name) > 1]:
            yield f"tensor.names: two columns would be the tensor {twice[0]}; a tensor has one name"
        if tensor.row_shape is not None and prod(tensor.row_shape) != (size := self._numbers_in_a_row()):
            shape = " x ".join(map(str, tensor.row_shape)) or "1"
            yield f"tensor.row_shape: it has {shape} elements, and one input has {size}"

    def _numbers_in_a_row(self) -> int:
        if self.input.kind == "image":
            return self.input.channels * self.input.height * self.input.width
        return len(self.input.columns) if self.input.kind == "table" and self.columns == "together" else 1

    def _of_http(self) -> Iterator[str]:
        batch = "$inputs" if self.takes_batches else "$input"
        if self.request is None:
            yield f"request: write the body that the server takes, such as `request: {{instances: {batch}}}`"
        if self.output is None:
            yield "output: write where the numbers are in the reply, such as `output: predictions`, or `@` for all"
        for key, default in (("tensor", TensorConfig()), ("parameters", {})):
            if getattr(self, key) != default:
                yield f"{key}: it is for the Open Inference Protocol; write `request` for `protocol: http`"

    def _of_headers(self) -> Iterator[str]:
        for key, given in (("headers", self.headers), ("headers_env", self.headers_env)):
            for name, value in given.items():
                if not HEADER.fullmatch(name) or name.lower() in OWN_HEADERS:
                    yield f"{key}: {name!r} is not a header that can be set"
                elif not (value and value.isascii() and value.isprintable()):
                    yield f"{key}.{name}: a header holds printable ASCII letters"
                elif key == "headers" and SECRET.search(name):
                    yield (
                        f"headers.{name}: a secret in a file would be read by too many; write"
                        f" `headers_env: {{{name}: NAME_OF_A_VARIABLE}}`, a variable that holds the whole value"
                    )
        if twice := {name.lower() for name in self.headers} & {name.lower() for name in self.headers_env}:
            yield f"headers: {min(twice)} is in `headers_env` as well; write it once"


def check_labels(labels: tuple[str, ...] | None, outputs: tuple[str, ...]) -> None:
    """Raise `ValueError` unless the server's labels, where they are told, are those of the task in some order."""
    if labels is None:
        return
    if unknown := [label for label in labels if label not in outputs]:
        raise ValueError(f"host.labels: {one_of(unknown[0], outputs)}")
    if missing := [label for label in outputs if label not in labels]:
        raise ValueError(f"host.labels: {missing[0]!r} is missing; the server's numbers are for all labels of the task")
    if len(labels) != len(outputs):
        raise ValueError("host.labels: a label is named twice")


class RemoteHost(RemoteSettings, AnyHost):
    """A classifier that another server serves."""

    is_endpoint: ClassVar[bool] = True
    uses_gpu: ClassVar[bool] = False
    names_labels: ClassVar[bool] = False
    kind: Literal["remote"]
    batch: BatchConfig = BatchConfig(in_flight=8)

    @property
    def model_name(self) -> str:
        name = " ".join(filter(None, (self.model, self.version)))
        return f"{name} at {self.url}" if name else self.url

    ways_to_give: ClassVar[Mapping[Need, str]] = {
        "embedding": "the server gives none; name where it is in its replies in `host.embedding`",
        "mc_probabilities": "a server is asked once about each input",
        "logits": "the server gives probabilities; where it gives logits, write `host.gives: logits`",
    }

    @property
    def may_give(self) -> frozenset[Need]:
        found: set[Need] = {"probabilities"}
        if self.embedding is not None:
            found.add("embedding")
        if self.gives == "logits":
            found.add("logits")
        return frozenset(found)

    @property
    def label_order(self) -> tuple[str, ...] | None:
        return self.labels

    def _placed(self, base: Path) -> dict[str, Any]:
        return {} if self.ca is None else {"ca": str((base / self.ca).resolve())}

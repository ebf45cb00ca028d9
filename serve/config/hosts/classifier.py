"""A classifier of the transformers library: `host: {kind: classifier}`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from demur.library.settings import GatheredMistakes
from demur.serve.config.checkpoint_labels import is_path
from demur.serve.config.hosts.host import AnyHost, Device, placed_folder
from demur.serve.config.settings import Section
from demur.uncertainty.output import Need

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

    ways_to_give: ClassVar[Mapping[Need, str]] = {
        "embedding": "with host.zero_shot a text has none",
        "logits": "with host.zero_shot a text has none of its own",
    }

    @property
    def may_give(self) -> frozenset[Need]:
        found: frozenset[Need] = frozenset({"probabilities", "logits", "embedding", "mc_probabilities"})
        return found if self.zero_shot is None else found - {"embedding", "logits"}

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

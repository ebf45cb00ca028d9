"""A class of the user's own: `host: {kind: python}`."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from demur.serve.config.hosts.host import AnyHost
from demur.serve.config.input import InputConfig, check_complete
from demur.serve.config.pydantic_words import PythonName
from demur.uncertainty.output import Need


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
        return frozenset({"probabilities", "logits", "embedding"})

    @property
    def model_name(self) -> str:
        return self.class_path

    def _placed(self, base: Path) -> dict[str, Any]:
        return {"files": tuple((base / path).resolve() for path in self.files)}

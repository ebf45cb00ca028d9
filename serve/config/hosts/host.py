"""What every host has, whatever runs in it: one batch after another, and the places that it takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from demur.serve.config.hosts.tournament import TournamentConfig
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.scaling import Scaled
from demur.serve.config.settings import Section
from demur.uncertainty.output import Need

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
    def most_pictures(self) -> int:
        """How many pictures a conversation may have that is passed on to the model."""
        return 0

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

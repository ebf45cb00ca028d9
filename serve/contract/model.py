"""What a model of any kind is to a host: an input is read for it, a batch goes in, and one output comes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import Need, Output
from demur.uncertainty.scores import Score

MoreSamples = Callable[[Output], Mask]
"""Asked about what is there of a batch: which rows [n] want samples, or further ones."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceScore:
    """A fitted score that the model's own device makes. What the score reads does not leave the device for it."""

    name: str
    """Names the artifact and the score, because two artifacts may judge one output."""

    part: Need
    """The part of the output that the score reads: `embedding` or `mc_probabilities`."""

    compute: Callable[[Any], Any]
    """From a tensor of that part [n, ...] on the device to the scores [n] there."""

    needs: ClassVar[frozenset[Need]] = frozenset()

    def of(self, output: Output) -> Array:
        """Return [n], higher when less sure. Raises `InvalidInput` for an output that was asked for without it."""
        return output.device_score(self.name)


@runtime_checkable
class ScoringModel(Protocol):
    """A model that may make scores on its device."""

    def on_device(self, name: str, score: Score) -> DeviceScore | None:
        """Return a fitted score as the model makes it on its device, under this name; None where it stays in NumPy."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One batch, and what is to be found out about it."""

    inputs: Sequence[ModelInput]
    """[n], n >= 1, each as the model's `spec` says."""

    needs: frozenset[Need]
    """Parts of the output that scores and policies read."""

    more: MoreSamples | None = None
    """For models that draw samples: without it all of them are drawn."""

    without: frozenset[str] = frozenset()
    """For endpoints: parameters that are not sent, because the artifact was fitted so."""

    scores: Sequence[DeviceScore] = ()
    """What a `ScoringModel` is to put into `device_scores` of its output."""


class Model(Protocol):
    """A model that may be asked about several batches at a time, in one event loop."""

    @property
    def spec(self) -> InputSpec:
        """What kind of input it takes."""
        ...

    def example(self) -> ModelInput:
        """Return an input without meaning that the model takes: it warms the model up."""
        ...

    async def run(self, request: ModelRequest) -> Output:
        """Return what was asked about each input, and nothing else. Whatever it raises, the whole batch is held."""
        ...

    async def check_health(self) -> None:
        """Raise if the model is dead and its replica must be replaced."""
        ...

    def remarks(self) -> list[str]:
        """Return what an operator should know about the model now; nothing when all is well."""
        ...

    async def close(self) -> None:
        """Let go of what the model keeps open."""
        ...


class SyncModel(Protocol):
    """A model that takes one batch at a time and keeps its thread busy meanwhile. A host runs it in a thread."""

    @property
    def spec(self) -> InputSpec:
        """What kind of input it takes."""
        ...

    def example(self) -> ModelInput:
        """Return an input without meaning that the model takes."""
        ...

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked about each input [n], and nothing else."""
        ...

    def remarks(self) -> list[str]:
        """Return what an operator should know about the model; nothing when all is well."""
        ...

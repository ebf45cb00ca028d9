"""The way from the gateway to a model host, and what a host says of itself."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.engine import Asking, Piece
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.messages import Message
from demur.uncertainty.generation import Generation


class UnknownModel(LookupError):
    """No model of this name is served."""


class ModelNotReady(RuntimeError):
    """The model is still starting. Try again a little later."""


class ModelFailed(ModelNotReady):
    """The model cannot be served unless somebody changes something. The message says what."""


@dataclass(frozen=True, kw_only=True)
class HostState:
    """What a host says about itself."""

    spec: InputSpec
    artifact: str | None
    """The one in force; None while there is none."""

    shadow: str | None = None
    canary: str | None = None
    share: float = 0.0
    """Share of the traffic about which the canary decides."""

    differs: tuple[str, ...] = ()
    """What is configured otherwise than the artifact in force was fitted, in words."""

    refused: bool = False
    """Whether an artifact was put in force that cannot be used, for a reason that stays."""

    trouble: str


@dataclass(frozen=True, slots=True)
class Step:
    """Where in a cascade a model is asked: by the artifact of the model that was asked first."""

    model: str
    artifact: str


class DrawsWanted(RuntimeError):
    """A canary decides about a share of the traffic, and no draws came that settle which. Ask again with them."""


class HostClient(Protocol):
    """The way to a model host."""

    async def state(self) -> HostState: ...

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], draws: Sequence[int] | None
    ) -> list[ArtifactShare]:
        """Return what each artifact that had a part in it decided; `draws` settle which rows are a canary's, and may be
        left out while there is none.

        Raises `ArtifactNotFound` or `Overloaded`, and `DrawsWanted` where there is a canary and no draws came; any
        other error means that the model failed.
        """
        ...

    async def decide_next(self, inputs: Sequence[ModelInput], groups: Sequence[str | None], step: Step) -> DecidedRows:
        """Decide what an earlier model of a cascade escalated. Raises as `decide` does."""
        ...

    def stream(self, value: ModelInput, group: str | None, draw: int) -> AsyncGenerator[str | ArtifactShare, None]:
        """Language models: yield the reply to one input as it is written, the first piece empty, and last what was
        decided about it. Closing the generator stops the model. Raises as `decide` does."""
        ...

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        """Language models: what the engine says, passed through. Raises `EngineFailed` or `Overloaded`."""
        ...

    def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece, None]:
        """Language models: one reply of the engine, piece by piece as it is written. Raises as `complete` does."""
        ...

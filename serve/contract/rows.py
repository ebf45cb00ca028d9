"""One prediction on its way through the gateway: the shape that it has after each stage.

| stage | shape |
|---|---|
| asked | `wire.PredictRequest`, as the caller sent it |
| read | `PendingRow`: its input is in the form that the model takes |
| decide | `ArtifactShare`: columns, as a model host sends them; `ModelRow` is one row of these |
| finish | `BatchWriting`: records as columns, with the cases of those before a person; `Writing`: one row |
| commit | `CommitResult`: what is on disk, a row of columns until somebody asks for its record |

`RowOutcome` is what the gateway hands back for a row of a batch: the decision, and what is on disk of it.
"""

from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from demur.policies.decision import Action
from demur.serve.contract.commit import CommitOutcome
from demur.serve.contract.decided import ArtifactShare
from demur.serve.contract.hosts import Step
from demur.serve.contract.inputs import ModelInput
from demur.serve.contract.wire import PredictRequest
from demur.traffic.record import KeyUse
from demur.uncertainty.generation import Outage


class Visit(Protocol):
    """The HTTP request that a row belongs to, as logs and traces name it."""

    request_id: str
    trace_id: str
    span: Any


@dataclass(slots=True)
class PendingRow:
    """A request for one prediction that is read, and waits for a model."""

    id: UUID
    """Of the record that will be written."""

    request: PredictRequest
    input: ModelInput
    at: float
    """When it set out for the model that it waits for."""

    use: KeyUse | None = None
    visit: Visit | None = None
    step: Step | None = None
    """None where no other model was asked before."""

    passes_to: str | None = None
    """The model that is asked where the one that was asked for is away, if this caller may ask it."""

    instead: str = ""
    """Why this model is asked in the place of another; empty where it was asked for."""


@dataclass(slots=True)
class ModelRow:
    """What the model said about one row; no share at all if the model failed."""

    share: ArtifactShare | None
    index: int
    """Where the row is in the share."""

    why_none: str
    """Why the row is held although nobody decided so; empty where somebody decided."""

    queued_milliseconds: float
    before: "tuple[ModelRow, ...]" = ()
    """In a cascade, what the models said that were asked before, in turn."""

    outage: Outage | None = None
    """Why nobody could be asked, where the caller is to be told so; the row is then no prediction."""

    @property
    def steps(self) -> "tuple[ModelRow, ...]":
        """What each model said that was asked, in turn, this one last."""
        return (*self.before, self) if self.before else (self,)

    @property
    def escalates(self) -> bool:
        """Whether another model is to be asked."""
        return bool(self.share and not self.why_none and self.share.decided.actions[self.index] == Action.ESCALATE)


@dataclass(slots=True)
class RowOutcome:
    """What came of a row at one model."""

    row: ModelRow
    done: CommitOutcome | None = None
    """None where nothing is written yet: another model is to be asked, or the request itself writes."""

"""The artifacts by which a host decides what an earlier model of a cascade could not."""

from collections import OrderedDict

from demur.calibration_store.artifact import Artifact, ArtifactRefused, ModelIdentity
from demur.calibration_store.store import ArtifactStore
from demur.serve.contract.hosts import Step

KEPT = 4
"""How many artifacts of each first model are kept in memory: the one in force, a canary, and those that a swap leaves
behind. However many models escalate to this one, none drives out those of another."""


class LaterSteps:
    """Artifacts of other models that have a step for this one. Whoever escalates names the artifact that did, so one
    artifact decides about a row at every model of the cascade, whatever is promoted meanwhile."""

    def __init__(self, model: str, store: ArtifactStore, identity: ModelIdentity) -> None:
        self._model = model
        self._store = store
        self._identity = identity
        self._known: OrderedDict[Step, Artifact] = OrderedDict()

    def artifact(self, step: Step) -> Artifact:
        """Return it, checked; raises what loading raises, `ArtifactRefused` where it is not for this very model."""
        if step not in self._known:
            artifact = self._store.load(step.model, step.artifact)
            if self._model not in artifact.further:
                raise ArtifactRefused(f"artifact {artifact.name} has no step for the model {self._model!r}")
            artifact.check_fits(self._identity, self._model)
            self._known[step] = artifact
            for old in [known for known in self._known if known.model == step.model][:-KEPT]:
                del self._known[old]
        self._known.move_to_end(step)
        return self._known[step]

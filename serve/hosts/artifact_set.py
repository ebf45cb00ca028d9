"""The artifacts that decide about one model's output at one moment, and the watch that keeps them up to date."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from demur.calibration_store.artifact import Artifact, ArtifactRefused, ModelIdentity
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.serve.config.file import ModelConfig
from demur.serve.hosts.asked_as_fitted import check_same_way
from demur.serve.hosts.checkpoint import NoEmbedding
from demur.serve.hosts.identity import identity_if_here
from demur.traffic.draw import limit
from demur.uncertainty.checks import Mask
from demur.uncertainty.output import Need

log = logging.getLogger("demur.host")


@dataclass(frozen=True, kw_only=True)
class ArtifactSet:
    """Who decides. Never changed: another standing is another lineup."""

    in_force: Artifact
    shadow: Artifact | None = None
    """Decides about everything as well, and nobody acts on it."""

    canary: Artifact | None = None
    """Decides in the place of the one in force about `share` of the rows."""

    share: float = 0.0

    @property
    def artifacts(self) -> list[Artifact]:
        return [artifact for artifact in (self.in_force, self.canary, self.shadow) if artifact]

    @property
    def needs(self) -> frozenset[Need]:
        """What the model must hand over, so that it has to run only once."""
        return frozenset[Need]().union(*(artifact.selector.needs for artifact in self.artifacts))

    @property
    def summary(self) -> tuple[str | float | None, ...]:
        """Two lineups with the same summary decide alike."""
        shadow = self.shadow.name if self.shadow else None
        return self.in_force.name, shadow, self.canary.name if self.canary else None, self.share

    def in_canary(self, draws: Sequence[int] | None, n: int) -> Mask:
        """[n], True for the rows about which the canary decides."""
        if self.canary is None or draws is None:
            return np.zeros(n, dtype=bool)
        below = limit(self.share)
        return np.array([drawn < below for drawn in draws], dtype=bool)


class ArtifactWatch:
    """Looks at what the store says about one model. Not safe to use from two threads at a time."""

    def __init__(
        self,
        model: str,
        store: ArtifactStore,
        identity: ModelIdentity,
        others: Mapping[str, ModelConfig] | None,
    ) -> None:
        self._model = model
        self._store = store
        self._identity = identity
        self._others = others
        self._present: ArtifactSet | None = None
        self._troubles: list[str] = []
        self.refused = False
        """Whether something is to be in force and cannot, for a reason that stays until somebody changes something."""

    @property
    def trouble(self) -> str:
        """Why nothing decides, or why something is not as the store wants it; empty when all is well."""
        return "; ".join(self._troubles)

    def look(self, trial: Callable[[Artifact], Artifact]) -> ArtifactSet | None:
        """Return who is to decide from now on; None as long as there was never anybody.

        An artifact that is new is loaded, must fit the model, and must pass the `trial`, which returns it as the host
        uses it. What was promoted and fails leaves the old one in force; a shadow or a canary that fails is left out.
        A store that cannot be read changes nothing. Each of these is logged once, and is the trouble until it is over.
        """
        troubles: list[str] = []
        found, self.refused = self._present, False
        try:
            found = self._found(trial, troubles)
        except (ArtifactsUnreachable, OSError) as error:
            troubles.append(str(error))
        for trouble in troubles:
            if trouble not in self._troubles:
                log.error("model %s: %s", self._model, trouble)
        self._troubles = troubles
        if found and (self._present is None or found.summary != self._present.summary):
            _tell(self._model, found)
            self._present = found
        return self._present

    def _found(self, trial: Callable[[Artifact], Artifact], troubles: list[str]) -> ArtifactSet | None:
        standing = self._store.standing(self._model)
        known = {artifact.name: artifact for artifact in self._present.artifacts} if self._present else {}

        def taken(name: str, refusal: str, beside: Artifact | None = None) -> Artifact | None:
            try:
                artifact = known.get(name) or self._store.load(self._model, name)
                if beside is not None:
                    check_same_way(artifact, beside, self._model)
                if name in known:
                    return artifact
                check_fits(artifact, self._identity, self._others)
                artifact = trial(artifact)
            except Exception as error:  # whatever is wrong with it, it is not to be used
                self.refused = self.refused or not isinstance(error, ArtifactsUnreachable | OSError)
                troubles.append(f"{refusal}{_words(error)}")
                return None
            return artifact

        if standing.in_force is None:
            troubles.append(
                f"no artifact is in force for model {self._model!r};"
                f" run `demur fit {self._model} --data FILE --promote`"
            )
            return self._present
        in_force = taken(standing.in_force, "") or (self._present.in_force if self._present else None)
        if in_force is None:
            return None
        shadow = canary = None
        if standing.shadow and standing.shadow != in_force.name:  # beside itself there is nothing to see
            shadow = taken(standing.shadow, "the shadow is refused: ", in_force)
        if standing.canary and standing.canary.artifact != in_force.name:
            canary = taken(standing.canary.artifact, "the canary is refused, and gets no traffic: ", in_force)
        share = standing.canary.share if standing.canary and canary else 0.0
        return ArtifactSet(in_force=in_force, shadow=shadow, canary=canary, share=share)


def check_fits(artifact: Artifact, identity: ModelIdentity, others: Mapping[str, ModelConfig] | None) -> None:
    """Raise `ArtifactRefused` unless an artifact fits the model, and every model that it asks afterwards."""
    artifact.check_fits(identity)
    if others is None:
        return
    for step in artifact.further:
        if step not in others:
            raise ArtifactRefused(
                f"artifact {artifact.name} asks the model {step!r} next, which is not configured; add it, or fit a"
                " new artifact with `demur fit`"
            )
        if following := identity_if_here(others[step]):  # elsewhere it is checked by the host that has it
            artifact.check_fits(following, step)


def _words(error: Exception) -> str:
    ours = isinstance(error, ArtifactNotFound | ArtifactRefused | ArtifactsUnreachable | NoEmbedding)
    return str(error) if ours else f"{type(error).__name__}: {error}"


def _tell(model: str, lineup: ArtifactSet) -> None:
    also = ""
    if lineup.canary:
        also += f", {lineup.canary.name} decides {lineup.share:.2%} of the traffic"
    if lineup.shadow:
        also += f", {lineup.shadow.name} is in the shadow"
    log.info("model %s: artifact %s is in force%s", model, lineup.in_force.name, also)

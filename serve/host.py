"""A model and the selector that judges it, for one batch at a time. Knows no Ray and no HTTP."""

import logging
import time
from collections.abc import Sequence

from calibration_store.artifact import Artifact, ArtifactRefused, ModelIdentity
from calibration_store.store import ArtifactNotFound, ArtifactStore
from serve.checkpoint import fingerprint
from serve.config import ModelConfig
from serve.decided import Decided, as_columns
from serve.inputs import InputSpec, ModelInput
from serve.models import Classifier, NoEmbedding

log = logging.getLogger("demur.host")


class ModelHost:
    """Owns one model. Not safe to run from two threads at a time."""

    def __init__(self, name: str, config: ModelConfig, store: ArtifactStore) -> None:
        self.name = name
        self.labels = config.task.labels
        self._mc_passes = config.host.mc_passes
        self._store = store
        self._task = config.task
        self._classifier = Classifier(
            config.host.checkpoint, device=config.host.device, link=config.task.link, tree=config.task.tree
        )
        self._identity = ModelIdentity(
            checkpoint=config.host.checkpoint,
            fingerprint=fingerprint(self._classifier.folder),
            labels=self.labels,
            parents_sha256=config.task.parents_sha256,
        )
        self._artifact: Artifact | None = None
        self._why_none = ""
        self._last_seen: str | None = None
        self.refresh()

    @property
    def spec(self) -> InputSpec:
        return self._classifier.spec

    @property
    def artifact_name(self) -> str | None:
        return self._artifact.name if self._artifact else None

    @property
    def trouble(self) -> str:
        """Why there is no artifact, or why the one that was promoted last is not used; empty when all is well."""
        return self._why_none

    def refresh(self) -> None:
        """Take up the artifact in force, if it is another one."""
        if artifact := self.look():
            self.adopt(artifact)

    def look(self) -> Artifact | None:
        """Return the artifact in force if it is another one and fits. A bad one is refused, and the old one stays.

        Reads the store and does not touch the model, so any thread may look.
        """
        try:
            name = self._store.name_in_force(self.name)
            if name is not None and name == self._last_seen:
                return None
            artifact = self._store.in_force(self.name)
            artifact.check_fits(self._identity)
        except (ArtifactNotFound, ArtifactRefused) as error:
            self._refuse(error)
            return None
        return artifact

    def adopt(self, artifact: Artifact) -> None:
        """Decide by this artifact from the next batch on."""
        try:
            # the first pass through a model is slow, and shows whether it can give what the scores need
            self._classifier.run([self._classifier.example()], artifact.selector.needs, mc_passes=self._mc_passes)
        except NoEmbedding as error:
            self._refuse(error)
            return
        self._artifact, self._last_seen, self._why_none = artifact, artifact.name, ""
        log.info("model %s: artifact %s is in force", self.name, artifact.name)

    def _refuse(self, error: Exception) -> None:
        if str(error) != self._why_none:
            log.error("%s", error)
        self._why_none = str(error)
        self._last_seen = None

    def decide(self, inputs: Sequence[ModelInput]) -> Decided:
        """Run the model and judge its output; everything comes from the one artifact that is named in the result."""
        artifact = self._artifact
        if artifact is None:
            raise ArtifactNotFound(self._why_none)
        started = time.perf_counter()
        output = self._classifier.run(inputs, artifact.selector.needs, mc_passes=self._mc_passes)
        judgement = artifact.selector.decide(output)
        spent = (time.perf_counter() - started) * 1000
        return as_columns(
            artifact.name,
            self.labels,
            output,
            judgement,
            exclusive=self._task.exclusive,
            model_milliseconds=spent,
        )

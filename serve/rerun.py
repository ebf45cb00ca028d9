"""A configured model, run again on inputs of the past, and the artifacts that are to judge its output."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from calibration_store.artifact import ModelIdentity
from calibration_store.store import ArtifactStore
from serve.checkpoint import check_labels, fingerprint
from serve.config import Config
from serve.inputs import InputLimits, InvalidRequest, ModelInput, read_input
from serve.models import Classifier
from uncertainty.output import Output

ROWS_AT_A_TIME = 64

Progress = Callable[[int, int], None]
"""Told how many rows are done, of how many."""


class Rerun:
    """The model, with artifacts that were fitted for exactly it. All of them judge one and the same output."""

    def __init__(self, config: Config, name: str, artifacts: Sequence[str]) -> None:
        model = config.model(name)
        store = ArtifactStore(config.artifacts)
        self.artifacts = [store.load(name, artifact) for artifact in artifacts]
        self.task = model.task
        self.recipe = model.recipe
        check_labels(model.host.checkpoint, model.task.kind, model.task.outputs)
        self.classifier = Classifier(
            model.host.checkpoint, device=model.host.device, link=model.task.link, tree=model.task.tree
        )
        identity = ModelIdentity(
            checkpoint=model.host.checkpoint,
            fingerprint=fingerprint(self.classifier.folder),
            labels=model.task.labels,
            parents_sha256=model.task.parents_sha256,
        )
        for artifact in self.artifacts:
            artifact.check_fits(identity)
        self.limits = InputLimits(
            text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels
        )
        self._needs = frozenset[Any]().union(*(artifact.selector.needs for artifact in self.artifacts))
        self._mc_passes = model.host.mc_passes
        torch.manual_seed(model.calibration.seed)  # dropout passes draw from it

    def read(self, value: Any) -> ModelInput | None:
        """The input as the model takes it; None for one that it does not take any more."""
        try:
            return read_input(value, self.classifier.spec, self.limits)
        except InvalidRequest:
            return None

    def run(self, inputs: Sequence[ModelInput]) -> Output:
        """What the model says about at least one input, with all that the artifacts need to judge it."""
        return self.classifier.run(inputs, self._needs, mc_passes=self._mc_passes)

"""`demur fit`: run a model over labelled data, fit its selector, and store the artifact."""

import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import torch

from audit.held_out import calibration_report, held_out_report
from calibration_store.artifact import ModelIdentity, pack
from calibration_store.fitting import Fit, fit_selectors
from calibration_store.store import ArtifactStore
from serve.checkpoint import check_labels, fingerprint
from serve.config import Config, ModelConfig
from serve.inputs import InputLimits, InvalidRequest, ModelInput, read_input
from serve.models import Classifier
from traffic.dataset import BadDataFile, LabelledFile, read_labelled_file
from uncertainty.checks import Mask
from uncertainty.output import LabelledOutput, Output

LIBRARIES = ("demur", "numpy", "scipy", "scikit-learn", "torch", "transformers")
ROWS_AT_A_TIME = 64
CONFIGURED = {"scores", "confidence", "policy", "prediction_set", "label_confidence", "task", "escalate_to"}

Progress = Callable[[int, int], None]
"""Told how many rows are done, of how many."""


@dataclass(frozen=True, kw_only=True)
class FittedArtifact:
    name: str
    fit: Fit
    data: LabelledFile


def fit_model(
    config: Config, name: str, data: Path, *, clock: Callable[[], datetime], progress: Progress
) -> FittedArtifact:
    """Fit a model's selector on a labelled file and store it. Nothing is promoted here."""
    cascade = config.cascade(name)
    model = cascade[name]
    rows = read_labelled_file(data)
    truth = truth_of(rows, model)
    limits = InputLimits(text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels)
    labelled, identities = {}, {}
    done, total = 0, len(cascade) * len(rows)

    def advance(n: int) -> None:
        nonlocal done
        done += n
        progress(done, total)

    for step, its_config in cascade.items():
        labelled[step], identities[step] = _labelled(its_config, rows, truth, limits, progress=advance)
    fit = fit_selectors(
        {step: its_config.recipe for step, its_config in cascade.items()},
        labelled,
        report=held_out_report,
        cross_report=calibration_report,
        report_share=model.calibration.report_share,
        rng=np.random.default_rng(model.calibration.seed),
    )
    counts = dict(zip(model.task.labels, truth.sum(axis=0).tolist(), strict=True))
    files = pack(
        fit.selector,
        model=name,
        identity=identities[name],
        further={step: (fit.selectors[step], identities[step]) for step in cascade if step != name},
        facts={
            "created_at": clock().isoformat(),
            "configured": model.model_dump(mode="json", include=CONFIGURED),
            "data": {"file": data.name, "sha256": rows.sha256, "n": len(rows), "label_counts": counts},
            "n_fitted": fit.n_fitted,
            "n_reported": fit.n_reported,
            "report": fit.report,
            "crossfit": fit.crossfit,
            "versions": {
                "python": platform.python_version(),
                **{library: importlib.metadata.version(library) for library in LIBRARIES},
            },
        },
    )
    ArtifactStore(config.artifacts).save(name, files)
    return FittedArtifact(name=files.name, fit=fit, data=rows)


def _labelled(
    model: ModelConfig, rows: LabelledFile, truth: Mask, limits: InputLimits, *, progress: Callable[[int], None]
) -> tuple[LabelledOutput, ModelIdentity]:
    """Run a model over the inputs; return its output beside the truth, and what it is."""
    check_labels(model.host.checkpoint, model.task.kind, model.task.labels)
    classifier = Classifier(model.host.checkpoint, device=model.host.device, link=model.task.link)
    inputs = model_inputs(rows, classifier, limits)
    torch.manual_seed(model.calibration.seed)  # dropout passes draw from it
    batches = []
    for start in range(0, len(inputs), ROWS_AT_A_TIME):
        chunk = inputs[start : start + ROWS_AT_A_TIME]
        batches.append(classifier.run(chunk, model.recipe.needs, mc_passes=model.host.mc_passes))
        progress(len(chunk))
    labelled = LabelledOutput(
        output=Output.concatenate(batches),
        truth=truth,
        exclusive=model.task.exclusive,
        groups=np.array(rows.groups, dtype=object),
    )
    return labelled, ModelIdentity(
        checkpoint=model.host.checkpoint, fingerprint=fingerprint(classifier.folder), labels=model.task.labels
    )


def truth_of(rows: LabelledFile, model: ModelConfig) -> Mask:
    """[n, C], True for what each row is labelled with."""
    index = {label: position for position, label in enumerate(model.task.labels)}
    for number, label in enumerate(rows.labels, start=1):
        if isinstance(label, str) != model.task.exclusive:
            wanted = "one label, as a text" if model.task.exclusive else "a list of labels, which may be empty"
            raise BadDataFile(f"{rows.path}, row {number}: a {model.task.kind} task takes {wanted}, not {label!r}")
    sets = [[label] if isinstance(label, str) else label for label in rows.labels]
    unknown = sorted({label for labels in sets for label in labels} - set(index))
    if unknown:
        raise BadDataFile(
            f"{rows.path}: labels that the model does not have: {', '.join(unknown[:10])};"
            f" it has: {', '.join(model.task.labels[:50])}"
        )
    truth = np.zeros((len(rows), len(index)), dtype=bool)
    for row, labels in enumerate(sets):
        truth[row, [index[label] for label in labels]] = True
    return truth


def model_inputs(rows: LabelledFile, classifier: Classifier, limits: InputLimits) -> list[ModelInput]:
    inputs = []
    for number, value in enumerate(rows.inputs, start=1):
        try:
            inputs.append(read_input(value, classifier.spec, limits))
        except InvalidRequest as error:
            raise BadDataFile(f"{rows.path}, row {number}: {error}") from None
    return inputs

"""`demur fit`: run a model over labelled data, fit its selector, and store the artifact."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.held_out import calibration_report, held_out_report, rank_report
from calibration_store.artifact import ModelIdentity, pack
from calibration_store.fitting import Fit, fit_selectors
from calibration_store.rows_apart import TooFewRows, rows_apart
from calibration_store.shortfall import PromiseOutOfReach, RanksAtChance, Shortfall, refuse, too_few
from calibration_store.store import ArtifactStore
from policies.rules import acts_on_sets
from policies.selector_recipe import SelectorRecipe
from serve.checkpoint import check_labels, fingerprint
from serve.config import Config, ModelConfig
from serve.inputs import InputLimits, InvalidRequest, ModelInput, read_input
from serve.labelled_traffic import read_labelled_traffic
from serve.manifest import Sources, facts_of, versions
from serve.models import Classifier
from traffic.database import Database
from traffic.dataset import BadDataFile, LabelledFile, read_labelled_file
from traffic.record import Answer
from uncertainty.checks import Mask
from uncertainty.output import LabelledOutput, Output

ROWS_AT_A_TIME = 64
CONFIGURED = {"scores", "confidence", "policy", "prediction_set", "label_confidence", "task", "escalate_to"}

Progress = Callable[[int, int], None]
"""Told how many rows are done, of how many."""


@dataclass(frozen=True, kw_only=True)
class FittedArtifact:
    name: str
    fit: Fit
    remarks: list[str]
    """On the rows, and on what the fit makes of them."""


def fit_model(
    config: Config,
    name: str,
    data: Path,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    anyway: bool = False,
) -> FittedArtifact:
    """Fit a model's selector on a labelled file and store it. Nothing is promoted here.

    Raises `PromiseOutOfReach` or `RanksAtChance`, and stores nothing, where the rows cannot carry what is to be
    promised; `anyway` stores it all the same, with a selector that then holds everything, or ranks by chance.
    """
    cascade = config.cascade(name)
    rows = read_labelled_file(data)
    truth = truth_of(rows, cascade[name])
    classifiers = {step: _classifier(its_config) for step, its_config in cascade.items()}
    facts = {"file": data.name, "since": None, "until": None}
    sources = Sources(rows=rows, truth=truth, weights=None, facts=facts, remarks=[])
    return _fit(config, name, classifiers, sources, clock=clock, progress=progress, anyway=anyway)


def fit_on_traffic(
    config: Config,
    name: str,
    database: Database,
    *,
    since: datetime | None,
    until: datetime | None,
    every_outcome_known: bool = False,
    clock: Callable[[], datetime],
    progress: Progress,
    anyway: bool = False,
) -> FittedArtifact:
    """The same on the records of the model in [since, until) that have an outcome and an input."""
    cascade = config.cascade(name)
    task, limits = cascade[name].task, input_limits(config)
    classifiers = {step: _classifier(its_config) for step, its_config in cascade.items()}
    specs = [classifier.spec for classifier in classifiers.values()]

    def takes(value: Any) -> bool:
        with suppress(InvalidRequest):
            return all(read_input(value, spec, limits) is not None for spec in specs)
        return False

    def knows(outcome: Answer) -> bool:
        labels = [outcome] if isinstance(outcome, str) else outcome
        return isinstance(outcome, str) == task.exclusive and set(task.labels) >= set(labels)

    found = read_labelled_traffic(
        database,
        name,
        since=since,
        until=until,
        takes=takes,
        knows=knows,
        every_outcome_known=every_outcome_known,
        progress=progress,
    )
    sources = Sources(
        rows=found.rows,
        truth=truth_of(found.rows, cascade[name]),
        weights=found.weights,
        facts=found.facts,
        remarks=found.remarks,
    )
    return _fit(config, name, classifiers, sources, clock=clock, progress=progress, anyway=anyway)


def _fit(
    config: Config,
    name: str,
    classifiers: Mapping[str, Classifier],
    sources: Sources,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    anyway: bool,
) -> FittedArtifact:
    cascade = config.cascade(name)
    model = cascade[name]
    recipes = {step: its_config.recipe for step, its_config in cascade.items()}
    if not anyway:
        _check_enough(sources, model, recipes)  # before a model is run for minutes
    labelled, identities = {}, {}
    done, total = 0, len(cascade) * len(sources.rows)

    def advance(n: int) -> None:
        nonlocal done
        done += n
        progress(done, total)

    for step, its_config in cascade.items():
        labelled[step], identities[step] = _labelled(
            its_config, classifiers[step], sources, input_limits(config), progress=advance
        )
    fit = fit_selectors(
        recipes,
        labelled,
        report=held_out_report,
        cross_report=calibration_report,
        rank_report=rank_report,
        report_share=model.calibration.report_share,
        rng=np.random.default_rng(model.calibration.seed),
    )
    against, beside = _weighed(fit.shortfalls, model)
    if not anyway:
        _refuse(against)
    files = pack(
        fit.selector,
        model=name,
        identity=identities[name],
        further={step: (fit.selectors[step], identities[step]) for step in cascade if step != name},
        facts={
            "created_at": clock().isoformat(),
            "configured": model.model_dump(mode="json", include=CONFIGURED),
            **facts_of(fit, model.task, sources),
            "stored_anyway": [one.why for one in against],
            "versions": versions(),
        },
    )
    ArtifactStore(config.artifacts).save(name, files)
    remarks = [*sources.remarks, *fit.remarks, *(one.why for one in (*against, *beside))]
    return FittedArtifact(name=files.name, fit=fit, remarks=remarks)


def _check_enough(sources: Sources, model: ModelConfig, recipes: Mapping[str, SelectorRecipe]) -> None:
    share, seed = model.calibration.report_share, model.calibration.seed
    classes = sources.truth.argmax(axis=1) if model.task.exclusive else np.zeros(len(sources.rows), dtype=np.intp)
    rng = np.random.default_rng(seed)  # that of the fit: the same rows will be left after thinning
    with suppress(TooFewRows):  # the fit will say so, once the inputs were read
        apart = rows_apart(classes, list(recipes.values()), report_share=share, rng=rng, weights=sources.weights)
        short, _ = too_few(recipes, apart, sources.truth, sources.rows.groups, report_share=share)
        _refuse(_weighed(short, model)[0])


def _weighed(shortfalls: Sequence[Shortfall], model: ModelConfig) -> tuple[list[Shortfall], list[Shortfall]]:
    """What speaks against the artifact, and what is only told: the sets are shown with every answer, but nobody asked
    for their promise who neither configured them nor decides by them."""
    wanted = bool(model.prediction_set) or acts_on_sets(model.recipe.policy)
    against = [one for one in shortfalls if one.of != "sets" or wanted]
    return against, [one for one in shortfalls if one not in against]


def _refuse(shortfalls: Sequence[Shortfall]) -> None:
    try:
        refuse(shortfalls)
    except (PromiseOutOfReach, RanksAtChance) as error:
        raise type(error)(f"{error}. Nothing was stored; --anyway does so all the same") from None


def input_limits(config: Config) -> InputLimits:
    return InputLimits(text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels)


def _classifier(model: ModelConfig) -> Classifier:
    check_labels(model.host.checkpoint, model.task.kind, model.task.labels)
    return Classifier(model.host.checkpoint, device=model.host.device, link=model.task.link)


def _labelled(
    model: ModelConfig,
    classifier: Classifier,
    sources: Sources,
    limits: InputLimits,
    *,
    progress: Callable[[int], None],
) -> tuple[LabelledOutput, ModelIdentity]:
    """Run a model over the inputs; return its output beside the truth, and what it is."""
    inputs = model_inputs(sources.rows, classifier, limits)
    torch.manual_seed(model.calibration.seed)  # dropout passes draw from it
    batches = []
    for start in range(0, len(inputs), ROWS_AT_A_TIME):
        chunk = inputs[start : start + ROWS_AT_A_TIME]
        batches.append(classifier.run(chunk, model.recipe.needs, mc_passes=model.host.mc_passes))
        progress(len(chunk))
    labelled = LabelledOutput(
        output=Output.concatenate(batches),
        truth=sources.truth,
        exclusive=model.task.exclusive,
        groups=np.array(sources.rows.groups, dtype=object),
        weights=sources.weights,
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

"""A model run over labelled data, its selector fitted, and the artifact stored."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.held_out import calibration_report, held_out_report, rank_report
from demur.audit.label_lines import NamedLabels
from demur.calibration_store.artifact import ModelIdentity, pack
from demur.calibration_store.clusters import cluster_remark, input_digests, merge_duplicates
from demur.calibration_store.fitting import Fit, fit_selectors
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.refusals import RefusedFit, RefusedFits
from demur.calibration_store.shortfall import (
    PromiseOutOfReach,
    RanksAtChance,
    Shortfall,
    known_before,
    refuse,
    weighed,
)
from demur.calibration_store.store import ArtifactStore
from demur.library.facts import facts_of, versions
from demur.policies.moved_inputs import CurrentTraffic
from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.file import Config, ModelConfig
from demur.serve.config.fitted_settings import fitted_settings
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest, ModelInput
from demur.serve.fitting.failing_rows import ModelFails, run_each
from demur.serve.fitting.kept_outputs import KeptOutputs, kept_outputs
from demur.serve.fitting.labelled_rows import (
    about_candidates,
    is_label_of,
    rows_read,
    said_again,
    truth_about,
    truth_of,
)
from demur.serve.fitting.labelled_traffic import read_labelled_traffic
from demur.serve.fitting.missing_parts import missing_parts
from demur.serve.fitting.moved_traffic import TrafficRange, check_weighable, facts_of_traffic, needs_of_fit
from demur.serve.fitting.rerun import ROWS_AT_A_TIME, LoadedModel, Progress, opened_models
from demur.serve.fitting.tried_rows import tells_apart
from demur.serve.hosts.asked_as_fitted import left_out_in
from demur.traffic.database import Database
from demur.traffic.dataset import GivenRow, LabelledFile, SpreadRow, read_inputs, read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.record import Answer
from demur.uncertainty.checks import Array, Mask, UnknownScore
from demur.uncertainty.output import LabelledOutput, Output

MOST_NAMED = 5
"""Labels that a remark names."""

MOST_COUNTED = 1_000
"""Labels of a sparse task that a manifest tells the number of rows of."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sources:
    """Labelled rows, wherever they come from."""

    rows: LabelledFile
    truth: Mask
    weights: Array | None
    """[n], how many records each stands for; None: they are a plain sample."""

    facts: dict[str, Any]
    remarks: list[str]
    clusters: NDArray[np.intp] | None = None
    """[n], numbers of what rows belong to; None: each stands alone."""

    among: str = ""
    """Which inputs the rows are drawn from, in words of a promise; empty: all that come."""


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
    form: FileForm | None = None,
    clock: Callable[[], datetime],
    progress: Progress,
    anyway: bool = False,
    keep: bool = False,
    fresh: bool = False,
    for_traffic: Path | TrafficRange | None = None,
) -> FittedArtifact:
    """Fit a model's selector on a labelled file and store it. Nothing is promoted here.

    `for_traffic` is a file of inputs, with or without labels, that are like the traffic of now, or a part of the log:
    then the labelled rows that carry a promise are weighted so that they stand for it (METHODS 10.12).

    With `keep`, what the models say is kept in the data folder, and what is kept there is not asked again unless all is
    to be `fresh`.

    Raises `PromiseOutOfReach` or `RanksAtChance`, and stores nothing, where the rows cannot carry what is to be
    promised; `anyway` stores it all the same, with a selector that then holds everything, or ranks by chance. Without
    a `form` the file is read as the model's `calibration` says.
    """
    cascade = config.cascade(name)
    rows = read_labelled_file(data, form or config.model(name).file_form)
    truth = truth_of(rows, cascade[name].task)
    facts = {"file": data.name, "since": None, "until": None}
    sources = Sources(rows=rows, truth=truth, weights=None, facts=facts, remarks=[])
    with refusal_noted(config, name, data.name, clock), opened_models(config, cascade) as models:
        kept = kept_outputs(config, models, fresh=fresh) if keep else {}
        there: LabelledFile | None = None
        if isinstance(for_traffic, TrafficRange):
            there = for_traffic.read(name, takes=partial(_takes, models), seed=config.model(name).calibration.seed)
        elif for_traffic is not None:
            there = read_inputs(for_traffic, form or config.model(name).file_form)
        return _fit(
            config, name, models, sources, clock=clock, progress=progress, anyway=anyway, kept=kept, there=there
        )


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
    """Fit an artifact on the records of the model in [since, until) that have an outcome and an input."""
    cascade = config.cascade(name)
    task = cascade[name].task
    with refusal_noted(config, name, _range_in_words(since, until), clock), opened_models(config, cascade) as models:

        def knows(outcome: Answer, value: Any) -> bool:
            return is_label_of(outcome, value, task)

        found = read_labelled_traffic(
            database,
            name,
            precedence=config.precedence(name),
            since=since,
            until=until,
            takes=partial(_takes, models),
            knows=knows,
            every_outcome_known=every_outcome_known,
            progress=progress,
        )
        sources = Sources(
            rows=found.rows,
            truth=truth_of(found.rows, cascade[name].task),
            weights=found.weights,
            facts=found.facts,
            remarks=found.remarks,
            among=found.among,
        )
        return _fit(config, name, models, sources, clock=clock, progress=progress, anyway=anyway)


@contextmanager
def refusal_noted(config: Config, name: str, data: str, clock: Callable[[], datetime]) -> Iterator[None]:
    """Keep why a fit in this context was refused, for the page of models and for `demur artifacts list`."""
    try:
        yield
    except (PromiseOutOfReach, RanksAtChance, UnknownScore) as error:
        with suppress(ArtifactsUnreachable):  # the refusal itself is what counts
            refused = RefusedFit(at=clock().isoformat(), why=str(error), data=data)
            RefusedFits(config.artifacts).note(name, refused)
        raise


def _range_in_words(since: datetime | None, until: datetime | None) -> str:
    told = [f"{word} {at:%Y-%m-%d %H:%M}" for word, at in (("since", since), ("until", until)) if at is not None]
    return " ".join(["the log", *told])


def _takes(models: Mapping[str, LoadedModel], value: Any) -> bool:
    """Whether all of the models take an input of the log."""
    with suppress(InvalidRequest):
        return all(model.read(value) is not None for model in models.values())
    return False


def _fit(
    config: Config,
    name: str,
    models: Mapping[str, LoadedModel],
    sources: Sources,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    anyway: bool,
    kept: Mapping[str, KeptOutputs] | None = None,
    there: LabelledFile | None = None,
) -> FittedArtifact:
    cascade = config.cascade(name)
    model = cascade[name]
    if there is not None:
        check_weighable(name, cascade)
    together = model.calibration.equal_inputs == "together"
    sources = with_clusters(sources, together=together, is_given=model.host.is_given)
    recipes = {step: its_config.recipe for step, its_config in cascade.items()}
    if not anyway:
        _check_enough(sources, model, recipes)  # before a model is run for minutes
    done, total = 0, len(cascade) * len(sources.rows) + (0 if there is None else len(there))

    def advance(n: int) -> None:
        nonlocal done
        done += n
        progress(done, total)

    ran = {}
    current: CurrentTraffic | None = None
    try:
        for step, its_config in cascade.items():
            kept_here = kept.get(step) if kept else None
            ran[step] = _labelled(its_config, models[step], sources, kept_here, progress=advance)
        if there is not None:
            own = kept.get(name) if kept and there.said is None else None  # what is deleted from the log is gone
            its_output, _ = _outputs(model, models[name], there, own, progress=advance)
            current = CurrentTraffic(output=its_output, weigh_by=model.calibration.weigh_by)
    finally:
        said = [remark for one in (kept or {}).values() for remark in one.close()]
    sources = replace(sources, remarks=[*sources.remarks, *said])
    runs = np.logical_and.reduce([on_rows for _, on_rows in ran.values()])
    labelled, sources = _judged_again({step: one for step, (one, _) in ran.items()}, sources, runs, task=model.task)
    identities = {
        step: replace(models[step].identity, left_out=left_out_in(one.output)) for step, one in labelled.items()
    }
    sources = replace(sources, remarks=[*sources.remarks, *_of_rows(labelled[name], model.task, identities)])
    try:
        fit = fit_selectors(
            recipes,
            labelled,
            report=partial(held_out_report, labels=_labels_apart(model.task, sources.truth)),
            cross_report=calibration_report,
            rank_report=rank_report,
            report_share=model.calibration.report_share,
            rng=np.random.default_rng(model.calibration.seed),
            current=current,
            among=sources.among,
        )
    except UnknownScore as error:
        lacked = [
            sentence
            for step, its_config in cascade.items()
            for sentence in missing_parts(step, its_config, recipes[step], labelled[step].output)
        ]
        raise UnknownScore(". ".join([str(error), *lacked])) from None
    found = weighed(fit.shortfalls, model.recipe, sets_wanted=bool(model.prediction_set))
    if not anyway:
        _refuse(found.against)
    further = {step: fitted_settings(its_config) for step, its_config in cascade.items() if step != name}
    files = pack(
        fit.selector,
        model=name,
        identity=identities[name],
        further={step: (fit.selectors[step], identities[step]) for step in cascade if step != name},
        facts={
            "created_at": clock().isoformat(),
            "configured": fitted_settings(model),
            **({"configured_further": further} if further else {}),
            **facts_of(
                fit,
                kind=model.task.kind,
                labels=model.task.labels,
                truth=sources.truth,
                data={**sources.facts, "sha256": sources.rows.sha256},
                weights=sources.weights,
                remarks=sources.remarks,
                labels_sha256=model.task.table.sha256,
                counts=commonest_labels(sources.rows) if model.task.sparse else None,
            ),
            **({} if there is None else {"for_traffic": facts_of_traffic(there, fit)}),
            "stored_anyway": [one.why for one in found.against],
            "versions": versions(),
        },
    )
    ArtifactStore(config.artifacts).save(name, files)
    remarks = [*sources.remarks, *fit.remarks, *(one.why for one in (*found.against, *found.beside))]
    return FittedArtifact(name=files.name, fit=fit, remarks=remarks)


def with_clusters(sources: Sources, *, together: bool, is_given: bool = False) -> Sources:
    """Find the rows that belong together: by their cluster, or by an equal input where these go `together`.

    `is_given`: rows bring what the model said. Equal outputs are not equal inputs, and there may be no input.
    """
    rows = sources.rows
    named = rows.clusters or [None] * len(rows)
    given = [_input_of(value, is_given=is_given) for value in rows.inputs]
    digests: list[str | None] = [
        None if value is None else digest for value, digest in zip(given, input_digests(given), strict=True)
    ]
    clusters = np.array(merge_duplicates(named, digests if together else [None] * len(rows)), dtype=np.intp)
    n = int(clusters.max()) + 1
    if n == len(rows):
        return sources
    repeated = sum(one is not None for one in digests) - len({one for one in digests if one is not None})
    remark = cluster_remark(len(rows), n, repeated, together=together)
    facts = {**sources.facts, "clusters": n}
    return replace(sources, clusters=clusters, facts=facts, remarks=[*sources.remarks, remark])


def _of_rows(rows: LabelledOutput, task: TaskConfig, identities: Mapping[str, ModelIdentity]) -> list[str]:
    """What to know about the labelled rows, and what the models say about them."""
    return [*_of_labels(rows.truth, task), *_of_one_label(rows, task), *_of_parameters(identities)]


def _of_labels(truth: Mask, task: TaskConfig) -> list[str]:
    """Labels that no row has."""
    if task.sparse or task.kind in ("generate", "choice"):
        return []
    index = task.table.index
    lacking = [label for label in task.labels if not truth[:, index[label]].any()]
    if not lacking:
        return []
    more = f" and {len(lacking) - MOST_NAMED:,} more" if len(lacking) > MOST_NAMED else ""
    return [
        f"No row is labelled {', '.join(map(repr, lacking[:MOST_NAMED]))}{more}, so nothing is known of how right the"
        " model is where that is true."
    ]


def _of_one_label(rows: LabelledOutput, task: TaskConfig) -> list[str]:
    """A model that is right no more often than one label for all rows, and does not tell labels apart either: it may be
    wired otherwise than it was trained."""
    if not task.exclusive or task.sparse or task.kind in ("generate", "choice") or rows.weights is not None:
        return []
    usable = rows.output.usable()
    right = int((rows.output.probabilities.argmax(axis=1) == rows.truth.argmax(axis=1))[usable].sum())
    counts = rows.truth[usable].sum(axis=0)
    if right > counts.max() or tells_apart(rows.output.probabilities[usable], rows.truth[usable]):
        return []
    return [
        f"The model is right about {right:,} of {int(usable.sum()):,} rows, and {task.labels[int(counts.argmax())]!r}"
        f" for all of them would be about {int(counts.max()):,}: see whether columns and labels are in the order of"
        " training."
    ]


def _labels_apart(task: TaskConfig, truth: Mask) -> NamedLabels | None:
    """Labels that a report speaks of one by one; a text that is written has none, and a sparse task too many."""
    return None if task.sparse or task.kind == "generate" else NamedLabels.of(task.labels, truth)


def _of_parameters(identities: Mapping[str, ModelIdentity]) -> list[str]:
    """What an endpoint refused, and the fit did without."""
    return [
        f"The endpoint of {step} refuses {', '.join(sorted(identity.left_out))}: it was asked without, and what is"
        " fitted holds for such replies alone."
        for step, identity in identities.items()
        if identity.left_out
    ]


def _judged_again(
    labelled: dict[str, LabelledOutput], sources: Sources, runs: Mask, task: TaskConfig
) -> tuple[dict[str, LabelledOutput], Sources]:
    """The rows without those on which a model fails, where `runs` [n] is False, and those about which people judged
    another text than the models write now."""
    same = np.logical_and.reduce([said_again(one.output, sources.rows.said, task) for one in labelled.values()])
    truth, kept = next(iter(labelled.values())).truth, runs & same
    if kept.all():
        return labelled, replace(sources, truth=truth)
    whys = {
        "the model fails on them, so that the service holds them too": ~runs,
        "the model does not write again what was judged there": runs & ~same,
    }
    remarks = [f"{int(left.sum()):,} rows are left out: {why}." for why, left in whys.items() if left.any()]
    return {name: one.rows(kept) for name, one in labelled.items()}, replace(
        sources, truth=truth[kept], remarks=[*sources.remarks, *remarks]
    )


def _check_enough(sources: Sources, model: ModelConfig, recipes: Mapping[str, SelectorRecipe]) -> None:
    short = known_before(
        recipes,
        sources.truth,
        sources.rows.groups,
        weights=sources.weights,
        clusters=sources.clusters,
        report_share=model.calibration.report_share,
        rng=np.random.default_rng(model.calibration.seed),
    )
    _refuse(weighed(short, model.recipe, sets_wanted=bool(model.prediction_set)).against)


def commonest_labels(rows: LabelledFile) -> dict[str, int]:
    """Return how many rows each of the commonest labels holds for."""
    told = (label for labels in rows.labels for label in ([labels] if isinstance(labels, str) else labels))
    return dict(Counter(told).most_common(MOST_COUNTED))


def _refuse(shortfalls: Sequence[Shortfall]) -> None:
    refuse(shortfalls, more=". Nothing was stored; --anyway does so all the same")


def _labelled(
    model: ModelConfig,
    loaded: LoadedModel,
    sources: Sources,
    kept: KeptOutputs | None,
    *,
    progress: Callable[[int], None],
) -> tuple[LabelledOutput, Mask]:
    """Run a model over the inputs, but for those about which its output is kept; return it beside the truth, and on
    which of the rows [n] it does not fail.

    Raises `ModelFails` where it fails on a row of a file, which whoever wrote it can mend.
    """
    output, failing = _outputs(model, loaded, sources.rows, kept, progress=progress)
    if model.task.sparse:
        output, truth = about_candidates(output, sources.rows.labels, model.task)
    else:
        truth = truth_about(output, sources.rows, sources.truth, model.task)
    labelled = LabelledOutput(
        output=output,
        truth=truth,
        exclusive=model.task.exclusive,
        groups=np.array(sources.rows.groups, dtype=object),
        weights=sources.weights,
        clusters=sources.clusters,
    )
    return labelled, ~np.isin(np.arange(len(sources.rows)), list(failing))


def _outputs(
    model: ModelConfig,
    loaded: LoadedModel,
    rows: LabelledFile,
    kept: KeptOutputs | None,
    *,
    progress: Callable[[int], None],
) -> tuple[Output, dict[int, str]]:
    """What a model says about the inputs, and on which of the logged rows it fails, and why."""
    batches: list[Output] = []
    failing: dict[int, str] = {}
    for chunk in rows_read(rows, loaded.read, at_a_time=ROWS_AT_A_TIME):
        before = sum(map(len, batches))
        run = partial(_run_chunk, model, loaded, rows, chunk, before, failing)
        batches.append(kept.of(rows.inputs[before : before + len(chunk)], run) if kept else run())
        progress(len(chunk))
    return Output.concatenate(batches), failing


def _run_chunk(
    model: ModelConfig,
    loaded: LoadedModel,
    rows: LabelledFile,
    chunk: Sequence[ModelInput],
    before: int,
    failing: dict[int, str],
) -> Output:
    """Run a model on some of the rows, those after the first `before`, and note the `failing` ones of the log."""
    try:
        output, whys = run_each(lambda inputs: loaded.run(inputs, needs_of_fit(model)), chunk)
    except ModelFails as error:
        raise ModelFails(f"{rows.path}, row {before + 1}: {error}") from error
    failing |= {before + at: why for at, why in whys.items()}
    if failing and rows.said is None:
        at, why = next(iter(failing.items()))
        raise ModelFails(f"{rows.path}, row {at + 1}: the model fails on it: {why}")
    return output


def _input_of(value: Any, *, is_given: bool) -> Any:
    """What a row says of its input; None where it says nothing."""
    if isinstance(value, GivenRow):
        return value.input
    if is_given:
        return value.get("input") if isinstance(value, SpreadRow) else None
    return value

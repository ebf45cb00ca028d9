"""A selector fitted on outputs whose truth is known, with the rows that were kept to report on."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.held_out import rank_report
from demur.calibration_store.fitting import Fit, fit_selectors, groups
from demur.calibration_store.rows_apart import rows_apart
from demur.calibration_store.shortfall import Shortfall, known_before, refuse, weighed
from demur.library.recipe import SelectorSettings
from demur.policies.judgement import Judgement
from demur.policies.selector import Selector
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import LabelledOutput

MODEL = "model"
"""The only model of a fit in Python. Cascades belong to the service."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutRows:
    """Rows that played no part in the fit, and what the fitted selector says about them."""

    judgement: Judgement
    rows: LabelledOutput
    quality: Array
    """[n], how right each prediction was, from 0 to 1."""

    positions: NDArray[np.intp]
    """[n], where they stand among the rows that were given."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedSelector:
    """What one fit made. Its numbers are worked out when somebody asks for the report."""

    fit: Fit
    """Without `report` and `crossfit`."""

    held_out: HeldOutRows
    crossfitted: tuple[Array, Array] | None
    """Confidence and degree of being right of the calibrator's rows, each by a calibrator that was fitted without its
    fold. None where too few of them are wrong."""

    against: Sequence[Shortfall]
    """What speaks against the selector, which was fitted `anyway`."""

    remarks: Sequence[str]
    truth: Mask
    """[n, C], of all rows that were given."""

    weights: Array | None
    sha256: str
    """Of the outputs and the truth of these rows."""

    @property
    def selector(self) -> Selector:
        return self.fit.selector


def check_enough(
    settings: SelectorSettings,
    recipe: SelectorRecipe,
    truth: Mask,
    group_names: Sequence[str | None] | None,
    *,
    weights: Array | None,
    clusters: NDArray[np.intp] | None,
    report_share: float,
    seed: int,
) -> None:
    """Raise `PromiseOutOfReach`, before the model is run, where so few rows cannot carry what is to be promised."""
    short = known_before(
        {MODEL: recipe},
        truth,
        group_names,
        weights=weights,
        clusters=clusters,
        report_share=report_share,
        rng=np.random.default_rng(seed),
    )
    _refuse(weighed(short, recipe, sets_wanted=bool(settings.prediction_set)).against)


def fit_selector(
    settings: SelectorSettings,
    recipe: SelectorRecipe,
    rows: LabelledOutput,
    *,
    report_share: float,
    seed: int,
    anyway: bool,
    remarks: Sequence[str] = (),
    among: str = "",
) -> FittedSelector:
    """Fit on one part of the rows and judge the other, as `demur fit` does.

    Raise `TooFewRows`, `PromiseOutOfReach` or `RanksAtChance` where the rows cannot carry what is to be promised. With
    `anyway` the last two are only kept as `against`. `remarks` are those on the rows, and `among` names
    the inputs that they are drawn from, where rows with some labels were left out.
    """
    judged: list[tuple[Judgement, LabelledOutput, Array]] = []
    crossed: list[tuple[Array, Array]] = []

    def keep(judgement: Judgement, held_out: LabelledOutput, quality: Array) -> Mapping[str, Any]:
        judged.append((judgement, held_out, quality))
        return {}

    def keep_crossed(confidence: Array, quality: Array) -> Mapping[str, Any]:
        crossed.append((confidence, quality))
        return {}

    fit = fit_selectors(
        {MODEL: recipe},
        {MODEL: rows},
        report=keep,
        cross_report=keep_crossed,
        rank_report=rank_report,
        report_share=report_share,
        rng=np.random.default_rng(seed),
        among=among,
    )
    found = weighed(fit.shortfalls, recipe, sets_wanted=bool(settings.prediction_set))
    if not anyway:
        _refuse(found.against)
    ((judgement, held_out, quality),) = judged
    apart = rows_apart(  # the first thing that the fit draws: from the same seed, the same rows
        len(rows),
        [recipe],
        report_share=report_share,
        rng=np.random.default_rng(seed),
        weights=rows.weights,
        clusters=rows.clusters,
    )
    return FittedSelector(
        fit=fit,
        held_out=HeldOutRows(judgement=judgement, rows=held_out, quality=quality, positions=apart.reported),
        crossfitted=crossed[0] if crossed else None,
        against=found.against,
        remarks=[*remarks, *fit.remarks, *(one.why for one in (*found.against, *found.beside))],
        truth=rows.truth,
        weights=rows.weights,
        sha256=_digest(rows),
    )


def _refuse(shortfalls: Sequence[Shortfall]) -> None:
    refuse(shortfalls, more=". Nothing was fitted; `anyway=True` fits all the same")


def _digest(rows: LabelledOutput) -> str:
    """SHA-256 of the numbers that were fitted on and reported on, in their order."""
    digest = hashlib.sha256()
    beside = {"truth": rows.truth, "weights": rows.weights, "clusters": rows.clusters}
    for name, part in {**rows.output.parts(), **beside}.items():
        if isinstance(part, np.ndarray) and part.dtype != object:
            digest.update(f"{name}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
    digest.update(repr(groups(rows)).encode())
    return digest.hexdigest()

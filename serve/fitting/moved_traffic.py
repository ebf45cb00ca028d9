"""A fit for traffic whose inputs have moved: what it takes, and what the manifest tells of it (METHODS 10.12)."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from demur.calibration_store.fitting import Fit
from demur.policies.moved_sets import takes_weights
from demur.policies.selective_risk import SelectiveRisk
from demur.serve.config.file import ModelConfig
from demur.traffic.database import Database
from demur.traffic.dataset import LabelledFile, LoggedRow, logged_pages
from demur.traffic.outcomes import LATEST
from demur.uncertainty.output import Need

PAGE = 1_000
MOST_LOGGED = 5_000
"""Most records that stand for the traffic, a random sample of all: the model has to be run on each."""


class NothingLogged(ValueError):
    """The log has no input of the traffic that rows are to stand for. Widen the range, or give a file."""


class NotWeighable(ValueError):
    """Nothing that the model promises can be said of other traffic than that of the labelled rows. Label rows of the
    new traffic, or choose a rule that takes weights."""


@dataclass(frozen=True, kw_only=True)
class TrafficRange:
    """The records of the log that were decided in [since, until)."""

    database: Database
    since: datetime | None
    until: datetime | None = None

    def read(self, name: str, *, takes: Callable[[Any], bool], seed: int) -> LabelledFile:
        """Return the inputs of a model's records, whatever was decided; of many a random sample.

        Inputs that were forgotten, or that the model does not take, are left out.
        """
        rng = np.random.default_rng(seed)
        kept: list[LoggedRow] = []
        usable = 0
        pages = logged_pages(self.database, name, precedence=LATEST, since=self.since, until=self.until, size=PAGE)
        for record in chain.from_iterable(pages):
            if not record.has_input or not takes(record.input):
                continue
            usable += 1
            if len(kept) < MOST_LOGGED:
                kept.append(record)
            elif (place := int(rng.integers(usable))) < MOST_LOGGED:
                kept[place] = record
        if not kept:
            raise NothingLogged(
                f"no record of {name!r} in this range has an input that is still kept and that the model takes; widen"
                " the range, or give inputs with --for-traffic FILE"
            )
        return LabelledFile(
            path=Path("traffic"),
            sha256=hashlib.sha256("\n".join(str(record.id) for record in kept).encode()).hexdigest(),
            inputs=[record.input for record in kept],
            labels=[""] * len(kept),
            groups=[record.group for record in kept],
            said=[None] * len(kept),  # an input of the log on which the model fails is no mistake in a file
        )


def check_weighable(name: str, cascade: Mapping[str, ModelConfig]) -> None:
    """Raise `NotWeighable` unless the model has a rule whose promise can be carried over to other inputs."""
    model = cascade[name]
    rule = model.recipe.rule
    if len(cascade) > 1:
        raise NotWeighable(f"--for-traffic weighs the rows of one model, and {name} has others to ask after it")
    bets = isinstance(rule, SelectiveRisk) and rule.bets
    if not bets and (rule.certifies or not takes_weights(model.recipe.sets)):
        raise NotWeighable(
            f"--for-traffic takes a promise that rows with weights can carry, and {name} makes none; write `policy:"
            " {kind: selective_risk, max_risk: ..., method: ltt_fixed_sequence, bound: betting}`, or prediction sets of"
            " the kind `split` without a `delta`, behind a policy without a promise"
        )
    if model.control is not None and model.control.kind == "adaptive_sets":
        raise NotWeighable(
            f"control: adaptive_sets follows the traffic by moving the sets of {name}, and --for-traffic fits them for"
            " the traffic of now; leave one of them out"
        )
    if model.calibration.weigh_by == "embedding" and "embedding" not in model.host.may_give:
        raise NotWeighable(
            "calibration.weigh_by: a model of this `host.kind` gives no embedding; write `weigh_by: confidence` for"
            f" {name}"
        )


def needs_of_fit(model: ModelConfig) -> frozenset[Need]:
    """What a model is to hand over for a fit: also what rows are weighed by."""
    more: frozenset[Need] = frozenset({"embedding"} if model.calibration.weigh_by == "embedding" else set())
    return model.recipe.needs | more


def facts_of_traffic(there: LabelledFile, fit: Fit) -> dict[str, Any]:
    """Return what a manifest tells of the traffic that the rows were weighted for."""
    moved = fit.moved
    assert moved is not None
    return {
        "file": there.path.name,
        "sha256": there.sha256,
        "n": len(there),
        "weighed_by": moved.by,
        "n_certifying": len(moved.weights),
        "n_effective": moved.n_effective,
        "largest_weight": moved.max_weight,
        "share_clipped": moved.share_clipped,
        "share_unlike": moved.share_unlike,
        "imbalance": moved.wrong,
        "coverage": fit.coverage_there,
    }

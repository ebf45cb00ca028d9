"""What the traffic of an artifact was like when it began, and how it is now beside that."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Self

import numpy as np
from scipy.special import chdtrc

from demur.audit.metrics.label_shift import label_shift
from demur.audit.metrics.score_drift import ks, psi
from demur.traffic.record import Answer
from demur.uncertainty.checks import Array

FEWEST_OF_A_CLASS = 10
MOST_CLASSES = 50
"""Without so many labelled rows of each class, or with more classes, nothing is said of the classes behind what is
predicted."""

FEWEST = 30
"""With fewer records on either side nothing is compared."""

LABELS_SHOWN = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class UnlabelledRecord:
    """A record, as far as monitors without labels look at it."""

    confidence: float
    """NaN where it is unknown."""

    held: bool
    """Whether it was not answered, by the artifact and not by an alarm."""

    prediction: Answer | None
    scores: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class ReferenceSample:
    """Records as columns of length `n`."""

    confidence: tuple[float, ...] = ()
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    predicted: Mapping[str, int] = field(default_factory=dict)
    """How often each label was predicted. Where labels do not exclude each other a record counts for several."""

    several: bool = False
    """Whether labels do not exclude each other."""

    n_held: int = 0

    @property
    def n(self) -> int:
        return len(self.confidence)

    def added(self, rows: Sequence[UnlabelledRecord]) -> Self:
        """Return this sample and further records."""
        names = dict.fromkeys([*self.scores, *(name for row in rows for name in row.scores)])
        unknown = (nan,) * self.n
        predicted = Counter(self.predicted)
        for row in rows:
            labels = row.prediction if isinstance(row.prediction, list) else [row.prediction]
            predicted.update(label for label in labels if label is not None)
        return type(self)(
            confidence=(*self.confidence, *(row.confidence for row in rows)),
            scores={
                name: (*self.scores.get(name, unknown), *(_number(row.scores.get(name)) for row in rows))
                for name in names
            },
            predicted=dict(predicted),
            several=self.several or any(isinstance(row.prediction, list) for row in rows),
            n_held=self.n_held + sum(row.held for row in rows),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "confidence": _listed(self.confidence),
            "scores": {name: _listed(values) for name, values in self.scores.items()},
            "predicted": dict(self.predicted),
            "several": self.several,
            "n_held": self.n_held,
        }


def sample_from_json(document: Mapping[str, Any]) -> ReferenceSample:
    """The sample that `as_json` wrote down."""
    return ReferenceSample(
        confidence=tuple(map(_number, document["confidence"])),
        scores={name: tuple(map(_number, values)) for name, values in document["scores"].items()},
        predicted=document["predicted"],
        several=document["several"],
        n_held=document["n_held"],
    )


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One quantity now beside what it was. None where too little is known of it."""

    name: str
    psi: float | None
    psi_p_value: float | None
    """How probable so large a PSI is without any change, looked at once."""

    ks: float | None
    ks_p_value: float | None
    unknown_before: float
    unknown_now: float
    """Shares of the records of which it is unknown."""


@dataclass(frozen=True, kw_only=True)
class LabelShare:
    label: str
    before: float
    now: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfusionCount:
    """How often one label was predicted where people then found another, or the same."""

    predicted: str
    true: str
    weight: float
    """How many records these stand for."""

    n: int


@dataclass(frozen=True, kw_only=True)
class DriftComparison:
    """The latest `n` records beside the reference."""

    n: int
    n_reference: int
    drifts: tuple[Drift, ...]
    """The confidence first, then each score."""

    labels: tuple[LabelShare, ...]
    """Shares of the records that were predicted to have a label: those that changed most, first."""

    classes: tuple[LabelShare, ...]
    """How often each class truly occurs, as far as that follows from what is predicted (`audit.label_shift`): now, and
    among the labelled rows. In order of the alphabet; empty where too little is known."""

    labels_psi: float | None
    labels_p_value: float | None
    held_before: float
    held_now: float

    def as_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "n_reference": self.n_reference,
            "drifts": [{name: getattr(one, name) for name in DRIFT} for one in self.drifts],
            "labels": [[one.label, one.before, one.now] for one in self.labels],
            "classes": [[one.label, one.before, one.now] for one in self.classes],
            "labels_psi": self.labels_psi,
            "labels_p_value": self.labels_p_value,
            "held_before": self.held_before,
            "held_now": self.held_now,
        }


DRIFT = ("name", "psi", "psi_p_value", "ks", "ks_p_value", "unknown_before", "unknown_now")


def comparison_from_json(document: Mapping[str, Any]) -> DriftComparison:
    """The comparison that `as_json` wrote down."""
    kept = dict(document)
    kept.pop("expected", None)  # see `expected.py`
    drifts = kept.pop("drifts")
    labels, classes = (
        tuple(LabelShare(label=label, before=before, now=now) for label, before, now in kept.pop(name))
        for name in ("labels", "classes")
    )
    return DriftComparison(drifts=tuple(Drift(**one) for one in drifts), labels=labels, classes=classes, **kept)


def compared(
    reference: ReferenceSample, now: ReferenceSample, confusion: Sequence[ConfusionCount] = ()
) -> DriftComparison | None:
    """Return how the records of `now` differ from the reference; None where either has too few. `confusion` is what
    people found about drawn records."""
    if min(reference.n, now.n) < FEWEST:
        return None
    labels = tuple(
        LabelShare(label=label, before=reference.predicted.get(label, 0) / reference.n, now=n / now.n)
        for label, n in {**dict.fromkeys(reference.predicted, 0), **now.predicted}.items()
    )
    index, p_value = (None, None) if reference.several or now.several else _labels_drift(reference, now)
    columns = {"confidence": (reference.confidence, now.confidence)}
    columns |= {name: (old, now.scores[name]) for name, old in reference.scores.items() if name in now.scores}
    return DriftComparison(
        n=now.n,
        n_reference=reference.n,
        drifts=tuple(_drift(name, np.array(old), np.array(new)) for name, (old, new) in columns.items()),
        labels=tuple(sorted(labels, key=lambda one: (-abs(one.now - one.before), one.label))[:LABELS_SHOWN]),
        classes=_classes(now, confusion) if not now.several else (),
        labels_psi=index,
        labels_p_value=p_value,
        held_before=reference.n_held / reference.n,
        held_now=now.n_held / now.n,
    )


def _drift(name: str, old: Array, new: Array) -> Drift:
    before, after = old[np.isfinite(old)], new[np.isfinite(new)]
    unknown = {"unknown_before": 1 - len(before) / len(old), "unknown_now": 1 - len(after) / len(new)}
    if min(len(before), len(after)) < FEWEST:
        return Drift(name=name, psi=None, psi_p_value=None, ks=None, ks_p_value=None, **unknown)
    index, gap = psi(before, after), ks(before, after)
    return Drift(
        name=name,
        psi=index.psi,
        psi_p_value=index.p_value,
        ks=gap.statistic,
        ks_p_value=gap.p_value,
        **unknown,
    )


def _labels_drift(reference: ReferenceSample, now: ReferenceSample) -> tuple[float | None, float | None]:
    """Compute the drift index of predicted labels as for a score, with a bin for each label."""
    names = sorted({*reference.predicted, *now.predicted})
    counts = [np.array([sample.predicted.get(name, 0) for name in names], float) for sample in (reference, now)]
    if len(names) < 2 or min(counted.sum() for counted in counts) < FEWEST:
        return None, None
    r, q = ((counted + 0.5) / (counted.sum() + len(names) / 2) for counted in counts)
    index = float(((r - q) * np.log(r / q)).sum())
    scale = sum(1 / float(counted.sum()) for counted in counts)
    return index, float(chdtrc(len(names) - 1, index / scale))


def _classes(now: ReferenceSample, confusion: Sequence[ConfusionCount]) -> tuple[LabelShare, ...]:
    names = sorted({*now.predicted, *(one.true for one in confusion), *(one.predicted for one in confusion)})
    found = Counter[str]()
    for one in confusion:
        found[one.true] += one.n
    if not 2 <= len(names) <= MOST_CLASSES or any(found[name] < FEWEST_OF_A_CLASS for name in names):
        return ()
    joint = np.zeros((len(names), len(names)))
    for one in confusion:
        joint[names.index(one.predicted), names.index(one.true)] = one.weight
    shift = label_shift(joint, np.array([now.predicted.get(name, 0) for name in names], dtype=np.float64))
    if np.isnan(shift.prior).any():
        return ()
    return tuple(
        LabelShare(label=name, before=before, now=after)
        for name, before, after in zip(names, shift.reference_prior.tolist(), shift.prior.tolist(), strict=True)
    )


def _number(value: float | None) -> float:
    return nan if value is None else value


def _listed(values: Sequence[float]) -> list[float | None]:
    return [None if isnan(value) else value for value in values]

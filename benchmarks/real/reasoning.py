"""Whether the length and the hesitation of a reasoning trace tell that its answer is wrong (GAP 5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import medical_answers
from benchmarks.real.predictions import Index, numbered
from benchmarks.real.splits import SEED, TIMES, Split
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.uncertainty.checks import Array
from demur.uncertainty.feature_scores import FeatureLogistic, FeatureRidge, FeatureSum
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.trace import trace_features

FITTED = 0.4
LENGTH = "length alone"
RECIPES: Mapping[str, FeatureSum | FeatureLogistic | FeatureRidge] = {
    "linear sum": FeatureSum(),
    "logistic": FeatureLogistic(),
    "ridge": FeatureRidge(),
}
REASONERS = ("o1-mini", "o3-mini", "DeepSeek-R1", "QwQ-32B-Preview")
TENTHS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Reasoned:
    """`n` answers of one model, each after a trace."""

    model: str
    features: Array
    """[n, 3]: tokens, questions, waits; or [n, 1], tokens."""

    right: Array
    """[n], 0 or 1"""

    sources: Index
    """[n], number of the examination that the question is from."""

    source_names: tuple[str, ...]
    left_out: int = 0
    """Traces that named no option: they abstain by themselves."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    model: str
    score: str
    n: int
    left_out: int
    accuracy: float
    metrics: Mapping[str, Spread]
    by_source: Mapping[str, Spread]
    """AUROC among the questions of one examination."""


def stratified(strata: Index, *, times: int = TIMES, share: float = FITTED, seed: int = SEED) -> list[Split]:
    """`times` draws of `share` of the rows of each stratum to fit on; the others are tested."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(times):
        drawn = [
            rng.permutation(rows)[: round(share * len(rows))]
            for rows in (np.flatnonzero(strata == name) for name in np.unique(strata))
        ]
        fit = np.sort(np.concatenate(drawn))
        found.append(Split(fit=fit, test=np.setdiff1d(np.arange(len(strata)), fit)))
    return found


def measure(reasoned: Reasoned, *, times: int = TIMES) -> list[Measured]:
    """The length alone and, where questions and waits were counted, the three scores that are fitted on all."""
    parts = stratified(reasoned.sources, times=times)
    return [
        _measured(reasoned, name, parts)
        for name in ([LENGTH, *RECIPES] if reasoned.features.shape[1] > 1 else [LENGTH])
    ]


def _measured(reasoned: Reasoned, name: str, parts: Sequence[Split]) -> Measured:
    values, inside = [], []
    for part in parts:
        fit, test = (_scores(name, reasoned, part.fit, rows) for rows in (part.fit, part.test))
        here, sources = reasoned.right[part.test], reasoned.sources[part.test]
        after = fit_isotonic(-fit, reasoned.right[part.fit]).confidence(-test)
        own = {
            source: error_roc_auc(here[sources == number], test[sources == number])
            for number, source in enumerate(reasoned.source_names)
        }
        inside.append(own)
        values.append(
            {
                "AUROC": error_roc_auc(here, test),
                "AUROC within": float(np.average(list(own.values()), weights=np.bincount(sources))),
                "PRR": prr(here, test),
                "ECE after": ece(after, here),
            }
        )
    return Measured(
        model=reasoned.model,
        score=name,
        n=len(reasoned.right),
        left_out=reasoned.left_out,
        accuracy=float(reasoned.right.mean()),
        metrics=over_splits(values),
        by_source=over_splits(inside),
    )


def _scores(name: str, reasoned: Reasoned, fit: Index, rows: Index) -> Array:
    if name == LENGTH:
        return np.asarray(reasoned.features[rows, 0])
    fitted = RECIPES[name].fit(reasoned.features[fit], reasoned.right[fit])
    return fitted.uncertainty(reasoned.features[rows])


def texts(data: Path) -> list[Reasoned]:
    """GPT-3.5 and GPT-4, whose reasoning is stored. Words are counted, since the tokens are not stored."""
    known = medical_answers.questions(data)
    found = []
    for (model, setting), traces in medical_answers.traces(data).items():
        chosen = [trace for trace in traces if trace.chosen]
        found.append(
            _reasoned(
                f"{model}, {setting}",
                np.stack([trace_features(trace.thought).row() for trace in chosen]),
                np.array([trace.right for trace in chosen], dtype=np.float64),
                [known[trace.qid].source for trace in chosen],
                len(traces) - len(chosen),
            )
        )
    return found


def counts(data: Path) -> list[Reasoned]:
    """The models that reason before they answer, of whose reasoning the number of tokens is stored."""
    known = medical_answers.questions(data)
    found = []
    for model in REASONERS:
        given = medical_answers.answers(data)[model, "zero_shot"]
        sources = [known[qid].source for qid in given.qids]
        found.append(_reasoned(model, given.completion_tokens[:, None], given.right, sources, 0))
    return found


def _reasoned(model: str, features: Array, right: Array, sources: Sequence[str], left_out: int) -> Reasoned:
    return Reasoned(
        model=model,
        features=features,
        right=right,
        sources=numbered(sources),
        source_names=tuple(sorted(set(sources))),
        left_out=left_out,
    )


def wrong_by_length(reasoned: Reasoned, tenths: int = TENTHS) -> tuple[Array, Array]:
    """Median length and share of wrong answers of each tenth of the traces, from the shortest on."""
    order = np.argsort(reasoned.features[:, 0], kind="stable")
    groups = np.array_split(order, tenths)
    return (
        np.array([np.median(reasoned.features[rows, 0]) for rows in groups]),
        np.array([1 - reasoned.right[rows].mean() for rows in groups]),
    )

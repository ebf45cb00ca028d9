"""Rows kept as they are, for what has no weighted form or is too dear for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import Ledger
from demur.audit.report import hashing
from demur.audit.report.plan import PLAIN, SAMPLE, TAU, THIN, AuditPlan, LabelWeights, labels_of
from demur.uncertainty.checks import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class LedgerSample:
    """The first rows of a ledger by `order`, which has nothing to do with what is in them."""

    quality: Array
    confidence: Array
    top_probability: Array
    predicted: NDArray[np.int64]
    """Places in the plan's labels; -1 for none."""

    true: NDArray[np.int64]
    scores: Mapping[str, Array]
    order: NDArray[np.uint64]


def plain_sample(ledger: Ledger, by: AuditPlan, weighed: LabelWeights) -> LedgerSample:
    """Labelled rows, thinned so that every record of the traffic had the same chance to be among them."""
    rows = _plain_rows(ledger, by, weighed)
    return _sample(ledger, by, rows, hashing.mixed(weighed.hashes, PLAIN))


def sample_for_tau(ledger: Ledger, by: AuditPlan, weighed: LabelWeights) -> LedgerSample:
    """Rows of all, labelled or not, so many that comparing each two of them is not too dear."""
    order = hashing.mixed(weighed.hashes, TAU)
    return _sample(ledger, by, hashing.shares(order) < by.tau_share, order)


def joined(parts: Sequence[LedgerSample]) -> LedgerSample:
    order = np.concatenate([p.order for p in parts])
    chosen = np.argsort(order, kind="stable")[:SAMPLE]
    names = dict.fromkeys(name for p in parts for name in p.scores)

    def column(name: str) -> Any:
        return np.concatenate([getattr(p, name) for p in parts])[chosen]

    return LedgerSample(
        **{f.name: column(f.name) for f in fields(LedgerSample) if f.name not in ("scores", "order")},
        scores={
            name: np.concatenate([p.scores.get(name, np.full(len(p.order), np.nan)) for p in parts])[chosen]
            for name in names
        },
        order=order[chosen],
    )


def _plain_rows(ledger: Ledger, by: AuditPlan, weighed: LabelWeights) -> NDArray[np.bool_]:
    if by.all_known:
        return ledger.known
    keep = np.divide(by.plain_share, weighed.chance, out=np.zeros(len(ledger)), where=weighed.chance > 0)
    thin = hashing.shares(hashing.mixed(weighed.hashes, THIN)) < keep
    return (weighed.weights > 0) & thin


def _sample(ledger: Ledger, by: AuditPlan, rows: NDArray[np.bool_], order: NDArray[np.uint64]) -> LedgerSample:
    index = np.flatnonzero(rows)
    index = index[np.argsort(order[index], kind="stable")][:SAMPLE]
    none = np.full(len(index), -1, dtype=np.int64)
    return LedgerSample(
        quality=ledger.quality[index],
        confidence=ledger.confidence[index],
        top_probability=ledger.top_probability[index],
        predicted=none if ledger.predicted is None else labels_of(ledger.predicted, by)[index],
        true=none if ledger.true is None else labels_of(ledger.true, by)[index],
        scores={name: u[index] for name, u in ledger.scores.items()},
        order=order[index],
    )

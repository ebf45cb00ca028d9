"""What an artifact tells about itself beside what was fitted: task, promises, data, report, versions."""

import hashlib
import importlib.metadata
import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from demur.audit.held_out import COUNTED, rank_replicates
from demur.audit.metrics.resampling import REPLICATES
from demur.calibration_store.fitting import Fit
from demur.serve.config.task import TaskConfig
from demur.traffic.dataset import LabelledFile
from demur.uncertainty.checks import Array, Mask

LIBRARIES = ("demur", "numpy", "scipy", "scikit-learn", "torch", "transformers", "safetensors")


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


def facts_of(fit: Fit, task: TaskConfig, sources: Sources) -> dict[str, Any]:
    """The part of a manifest that follows from the fit and its rows, as JSON."""
    rows, weights = sources.rows, sources.weights
    return {
        "task": {"kind": task.kind, "labels": len(task.labels)},
        "label_set_sha256": task.table.sha256 or label_set_digest(task.labels),
        "promises": [
            {"model": model, "statement": promise.statement, **asdict(promise)} for model, promise in fit.promises
        ],
        "data": {
            **sources.facts,
            "sha256": rows.sha256,
            "n": len(rows),
            "label_weights": None
            if weights is None
            else {"min": float(weights.min()), "max": float(weights.max()), "n_after_thinning": fit.n_plain},
            "label_counts": _label_counts(task, sources),
        },
        "n_fitted": fit.n_fitted,
        "n_reported": fit.n_reported,
        "report": fit.report,
        "intervals": {
            "level": 0.95,
            "exact": list(COUNTED),
            "replicates": REPLICATES,
            "replicates_of_ranks": replicates_of_ranks(fit),
        },
        "crossfit": fit.crossfit,
        "ranking": fit.ranking,
        "remarks": [*sources.remarks, *fit.remarks],
    }


def _label_counts(task: TaskConfig, sources: Sources) -> dict[str, int]:
    """How many rows each label holds for; of a sparse task, the commonest ones."""
    if not task.sparse:
        return dict(zip(task.labels, sources.truth.sum(axis=0).tolist(), strict=True))
    told = (label for labels in sources.rows.labels for label in ([labels] if isinstance(labels, str) else labels))
    return dict(Counter(told).most_common(MOST_COUNTED))


def replicates_of_ranks(fit: Fit) -> int:
    """How many samples of rows the intervals of ranking metrics rest on."""
    return rank_replicates(fit.n_reported, sum(name.startswith("prr.") for name in fit.report))


def label_set_digest(labels: Sequence[str]) -> str:
    """SHA-256 of the labels in their order."""
    return hashlib.sha256(json.dumps(list(labels), ensure_ascii=False).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of everything that makes the numbers."""
    return {
        "python": platform.python_version(),
        **{library: importlib.metadata.version(library) for library in LIBRARIES},
    }

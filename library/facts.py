"""What an artifact tells about itself beside what was fitted: task, promises, data, report, versions."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from demur.audit.held_out import COUNTED, rank_replicates
from demur.audit.metrics.resampling import REPLICATES
from demur.calibration_store.fitting import Fit
from demur.uncertainty.checks import Array, Mask

LIBRARIES = ("demur", "numpy", "scipy", "scikit-learn", "torch", "transformers", "safetensors")


def facts_of(
    fit: Fit,
    *,
    kind: str,
    labels: Sequence[str],
    truth: Mask,
    data: Mapping[str, Any],
    weights: Array | None = None,
    remarks: Sequence[str] = (),
    labels_sha256: str = "",
    counts: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the part of a manifest that follows from the fit and its rows, as JSON.

    `truth` [n, C] and `weights` [n] are those of the labelled rows. `data` says where the rows come from, with their
    `sha256`, and `remarks` what is worth knowing about them. Where there are very many labels, `labels_sha256` and
    `counts`, how many rows each label holds for, come from who knows them.
    """
    return {
        "task": {"kind": kind, "labels": len(labels)},
        "label_set_sha256": labels_sha256 or label_set_digest(labels),
        "promises": [
            {"model": model, "statement": promise.statement, **asdict(promise)} for model, promise in fit.promises
        ],
        "data": {
            **data,
            "n": len(truth),
            "label_weights": None
            if weights is None
            else {"min": float(weights.min()), "max": float(weights.max()), "n_after_thinning": fit.n_plain},
            "label_counts": dict(zip(labels, truth.sum(axis=0).tolist(), strict=True)) if counts is None else counts,
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
        "remarks": [*remarks, *fit.remarks],
    }


def replicates_of_ranks(fit: Fit) -> int:
    """How many samples of rows the intervals of ranking metrics rest on."""
    return rank_replicates(fit.n_reported, sum(name.startswith("prr.") for name in fit.report))


def label_set_digest(labels: Sequence[str]) -> str:
    """SHA-256 of the labels in their order."""
    return hashlib.sha256(json.dumps(list(labels), ensure_ascii=False).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of what makes the numbers, as far as it is installed."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library)
    return found

"""Whose truth is known: an audit of labelled rows says little about rows that nobody labelled."""

from dataclasses import dataclass

import numpy as np

from traffic.dataset import Traffic
from traffic.record import Answer
from uncertainty.checks import Array, Mask


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """Counts over a part of the traffic. Accuracies are over its labelled rows, None without any."""

    name: str
    records: int
    answered: int
    held: int
    labelled_answered: int
    labelled_held: int
    accuracy: float | None
    accuracy_answered: float | None


def strata(traffic: Traffic) -> list[Stratum]:
    """All of the traffic first, then each group, largest first."""
    parts = [("all", np.ones(len(traffic), dtype=bool))]
    groups = sorted({group for group in traffic.groups if group}, key=lambda g: (-traffic.groups.count(g), g))
    parts += [(group, np.array([name == group for name in traffic.groups], dtype=bool)) for group in groups]
    if groups and None in traffic.groups:
        parts.append(("(no group)", np.array([name is None for name in traffic.groups], dtype=bool)))
    return [_stratum(name, traffic, rows) for name, rows in parts]


def labelled(traffic: Traffic) -> Mask:
    return np.array([outcome is not None for outcome in traffic.outcomes], dtype=bool)


def answered(traffic: Traffic) -> Mask:
    return np.array([action == "answer" for action in traffic.actions], dtype=bool)


def quality(traffic: Traffic) -> Array:
    """[n], how right each prediction was: 1 or 0, of label sets their Jaccard similarity; 0 without an outcome."""
    pairs = zip(traffic.predictions, traffic.outcomes, strict=True)
    return np.array([0.0 if truth is None else likeness(guess, truth) for guess, truth in pairs])


def missing_labels(traffic: Traffic) -> str:
    """One sentence on how many records lack a label, and which."""
    n, known, sure = len(traffic), labelled(traffic), answered(traffic)
    if known.all():
        return f"All {n:,} records have a label."
    parts = [
        f"{int((~known & rows).sum()):,} of {int(rows.sum()):,} {name}"
        for name, rows in (("answered", sure), ("held", ~sure))
        if rows.any()
    ]
    return (
        f"{int((~known).sum()):,} of {n:,} records have no label ({' and '.join(parts)} records)."
        " Every figure below is about the labelled rows alone; it carries over to the others only if those were"
        " labelled irrespective of how the prediction turned out."
    )


def _stratum(name: str, traffic: Traffic, rows: Mask) -> Stratum:
    known, sure, right = labelled(traffic) & rows, answered(traffic) & rows, quality(traffic)
    return Stratum(
        name=name,
        records=int(rows.sum()),
        answered=int(sure.sum()),
        held=int((rows & ~sure).sum()),
        labelled_answered=int((known & sure).sum()),
        labelled_held=int((known & ~sure).sum()),
        accuracy=_share(right[known]),
        accuracy_answered=_share(right[known & sure]),
    )


def likeness(guess: Answer | None, truth: Answer) -> float:
    """How right a guess was: 1 or 0, of label sets their Jaccard similarity."""
    if isinstance(guess, list) and isinstance(truth, list):
        either = set(guess) | set(truth)
        return len(set(guess) & set(truth)) / len(either) if either else 1.0
    return float(guess == truth)


def _share(values: Array) -> float | None:
    return float(np.mean(values)) if len(values) else None

"""Calibration of the k highest-scoring labels of each row, without the matrix of all labels (METHODS 5.2, XMLC).

Every metric here is its namesake of `calibration` on the n k pooled pairs of score and hit, divided by n k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics import calibration
from demur.uncertainty.checks import Array, InvalidInput, Mask, indicators, unit_interval, whole_number
from demur.uncertainty.top_k import top_labels

K_TOLD = (1, 3, 5)


def ks_of(width: int) -> list[int]:
    """For which k figures are told where `width` labels of each row are on record: 1, 3, 5, and all of them."""
    return sorted({k for k in K_TOLD if k <= width} | ({width} if width > 0 else set()))


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelRows:
    """The `w` most probable labels of `n` labelled rows, calibrated, where labels do not exclude each other."""

    calibrated: Array
    """[n, w], NaN behind the last label of a row that names fewer."""

    hits: Mask
    """[n, w], False where no label is named."""

    right: Array
    """[n], how many labels hold, named or not."""

    answered: Mask

    def rows(self, chosen: Mask) -> "LabelRows":
        """Those of the rows [n] that are chosen."""
        return LabelRows(
            calibrated=self.calibrated[chosen],
            hits=self.hits[chosen],
            right=self.right[chosen],
            answered=self.answered[chosen],
        )


@dataclass(frozen=True, kw_only=True)
class FiguresAtK:
    """Figures of the k most probable labels of some rows. NaN where nothing can be said."""

    k: int
    precision: float
    """Share of the k labels that hold; one that is not named counts as wrong."""

    recall: float
    """Mean share of the labels that hold that are among them, over rows in which any does."""

    ece: float
    """Expected calibration error of their calibrated probabilities, over 10 equal intervals."""

    label_risk: float
    """Share of them that do not hold, in answered rows."""


def figures_of(parts: Sequence[LabelRows]) -> list[FiguresAtK]:
    """Return the figures of all parts together; none where there is no part."""
    if not parts:
        return []
    columns = ("calibrated", "hits", "right", "answered")
    return figures_at_k(
        LabelRows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns})
    )


def figures_at_k(rows: LabelRows) -> list[FiguresAtK]:
    """Return figures for each k of `ks_of`; none where no label is on record."""
    some = rows.right > 0
    found = []
    for k in ks_of(rows.hits.shape[1]):
        c, hits = rows.calibrated[:, :k], rows.hits[:, :k]
        named, of_row = ~np.isnan(c), hits.sum(axis=1)
        found.append(
            FiguresAtK(
                k=k,
                precision=float(hits.mean()) if len(hits) else np.nan,
                recall=float((of_row[some] / rows.right[some]).mean()) if some.any() else np.nan,
                ece=calibration.ece(c[named], hits[named], n_bins=10) if named.any() else np.nan,
                label_risk=1 - float(hits[rows.answered].mean()) if rows.answered.any() else np.nan,
            )
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class TopK:
    """The `k` highest-scoring labels of `n` rows, and whether each of them is right."""

    scores: Array
    """[n, k], each in [0, 1]."""

    hits: Mask
    """[n, k]."""

    labels: NDArray[np.intp] | None = None
    """[n, k], index of the label, where it is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", unit_interval("scores", self.scores, ndim=2))
        object.__setattr__(self, "hits", indicators("hits", self.hits))
        _same_shape("hits", self.hits, self.scores)
        if self.labels is not None:
            _same_shape("labels", np.asarray(self.labels), self.scores)

    @classmethod
    def of_matrix(cls, probs: Any, targets: Any, k: int) -> "TopK":
        """From `probs` [n, L] and 0/1 `targets` [n, L]; of tied labels the one with the lowest index goes first."""
        p, present = unit_interval("probs", probs, ndim=2), indicators("targets", targets)
        _same_shape("targets", present, p)
        labels = top_labels(p, whole_number("k", k, most=p.shape[1], least=1))
        return cls(
            scores=np.take_along_axis(p, labels, axis=1),
            hits=np.take_along_axis(present, labels, axis=1),
            labels=labels,
        )

    @classmethod
    def of_candidates(cls, scores: Any, labels: Any, true_rows: Any, true_labels: Any, k: int) -> "TopK":
        """From each row's m >= k best labels, with their scores, and the pairs (row, label) that are true.

        `scores`, `labels` [n, m]; `true_rows`, `true_labels` [t], in any order. Nothing of the size n x L is made, so
        L may be in the millions.
        """
        p, index = unit_interval("scores", scores, ndim=2), _whole_numbers("labels", labels, ndim=2)
        _same_shape("labels", index, p)
        rows, names = _whole_numbers("true_rows", true_rows), _whole_numbers("true_labels", true_labels)
        if len(rows) != len(names):
            raise InvalidInput(f"lengths differ: true_rows {len(rows)}, true_labels {len(names)}")
        if len(rows) and rows.max() >= len(p):
            raise InvalidInput(f"true_rows holds {rows.max()}, but there are {len(p)} rows")
        ascending = np.sort(index, axis=1)
        if (ascending[:, 1:] == ascending[:, :-1]).any():
            raise InvalidInput("labels names a label twice in one row")
        by_label = np.argsort(index, axis=1)
        ranked = np.take_along_axis(p, by_label, axis=1)
        first = np.take_along_axis(by_label, top_labels(ranked, whole_number("k", k, most=p.shape[1], least=1)), axis=1)
        chosen = np.take_along_axis(index, first, axis=1)
        width = 1 + max(
            int(index.max()), int(names.max()) if len(names) else 0
        )  # so that row * width + label is one pair
        pairs = chosen + np.arange(len(p))[:, None] * width
        return cls(
            scores=np.take_along_axis(p, first, axis=1),
            hits=np.isin(pairs, rows * width + names),
            labels=chosen,
        )

    def ece(self, *, n_bins: int = 10) -> float:
        return calibration.ece(*self._pooled(), n_bins=n_bins)

    def ace(self, *, n_bins: int = 10) -> float:
        return calibration.ace(*self._pooled(), n_bins=n_bins)

    def brier(self) -> float:
        return calibration.brier(*self._pooled())

    def nll(self) -> float:
        return calibration.nll(*self._pooled())

    def precision(self) -> float:
        return float(self.hits.mean())

    def _pooled(self) -> tuple[Array, Mask]:
        return self.scores.ravel(), self.hits.ravel()


def ece_at_k(probs: Any, targets: Any, k: int, *, n_bins: int = 10) -> float:
    """Expected calibration error of the k highest-scoring labels of `probs` [n, L] against 0/1 `targets` [n, L]."""
    return TopK.of_matrix(probs, targets, k).ece(n_bins=n_bins)


def ace_at_k(probs: Any, targets: Any, k: int, *, n_bins: int = 10) -> float:
    """Adaptive calibration error of the k highest-scoring labels."""
    return TopK.of_matrix(probs, targets, k).ace(n_bins=n_bins)


def brier_at_k(probs: Any, targets: Any, k: int) -> float:
    """Brier score of the k highest-scoring labels."""
    return TopK.of_matrix(probs, targets, k).brier()


def nll_at_k(probs: Any, targets: Any, k: int) -> float:
    """Negative log-likelihood of the k highest-scoring labels."""
    return TopK.of_matrix(probs, targets, k).nll()


def precision_at_k(probs: Any, targets: Any, k: int) -> float:
    """Share of the k highest-scoring labels that are right."""
    return TopK.of_matrix(probs, targets, k).precision()


def _whole_numbers(name: str, values: Any, *, ndim: int = 1) -> NDArray[np.intp]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} is not a rectangular array: {error}") from None
    if array.ndim != ndim or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise InvalidInput(f"{name} does not hold whole numbers from 0 on, on {ndim} axes")
    return array.astype(np.intp)


def _same_shape(name: str, array: Any, scores: Array) -> None:
    if array.shape != scores.shape:
        raise InvalidInput(f"{name} has shape {array.shape}, not {scores.shape}")

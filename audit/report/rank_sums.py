"""How well a score ranks, from sums over rows of equal score.

All that ROC-AUC, the precision-recall area and the risk-coverage areas need of the rows of one tie group is how many
they are, and the sums of their weights, losses and errors (METHODS 5.1, 9.2). Sums of parts of the traffic add up, and
those of 2,000 resamples fit in one array: every function takes leading axes [...].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from demur.audit.metrics.selective import coverages, place_weights
from demur.uncertainty.checks import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class RankSums:
    """By bin of a score, ascending: [..., b] each. In an exact metric a bin is a group of rows that tie."""

    n: Array
    """Rows, labelled or not."""

    weight: Array
    loss: Array
    """Of weight times loss, which is in [0, 1]."""

    wrong: Array
    """Of the weight of rows that are not wholly right."""

    losses: Array
    """[l], every loss that occurs, ascending."""

    of_loss: Array
    """[..., l], the weight of the rows with each loss."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RankAreas:
    """[...] each: areas under risk-coverage curves."""

    model: Array
    oracle: Array
    random: Array

    @property
    def ratio(self) -> Array:
        """How much of the way from chance to perfect; NaN where there is no way."""
        with np.errstate(invalid="ignore", divide="ignore"):
            way = self.random - self.oracle
            return np.where(way > 1e-15, (self.random - self.model) / np.where(way > 1e-15, way, 1.0), np.nan)


def error_roc_auc(sums: RankSums) -> Array:
    """[...], the chance that an error ranks above a right answer, ties counting a half."""
    right = sums.weight - sums.wrong
    below = np.cumsum(right, axis=-1) - right / 2
    return _over((sums.wrong * below).sum(axis=-1), sums.wrong.sum(axis=-1) * right.sum(axis=-1))


def error_au_prc(sums: RankSums) -> Array:
    """[...], average precision with the errors as positives."""
    hits = np.cumsum(sums.wrong[..., ::-1], axis=-1)[..., ::-1]
    rows = np.cumsum(sums.weight[..., ::-1], axis=-1)[..., ::-1]
    precision = np.divide(hits, rows, out=np.ones_like(hits), where=rows > 0)
    return _over((sums.wrong * precision).sum(axis=-1), sums.wrong.sum(axis=-1))


def areas_of(sums: RankSums, *, max_rejection: float = 1.0) -> RankAreas:
    """The areas of one set of sums [b], exactly: place by place. NaN without a label or without a coverage."""
    n = round(float(sums.n.sum()))
    kept = coverages(max_rejection, n) if n else 0
    total = sums.weight.sum()
    if kept == 0 or total <= 0:
        undefined = np.array(np.nan)
        return RankAreas(model=undefined, oracle=undefined, random=undefined)
    used = sums.n > 0
    counts = sums.n[used].round().astype(np.intp)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = np.add.reduceat(place_weights(n, kept), starts) / counts / kept
    return RankAreas(
        model=_over((places * sums.loss[used]).sum(), (places * sums.weight[used]).sum()),
        oracle=_oracle(sums, np.array(float(n)), np.array(float(kept))),
        random=_over(sums.loss.sum(), total),
    )


def resampled_areas(sums: RankSums, *, max_rejection: float = 1.0) -> RankAreas:
    """Compute the areas of many sets of sums [..., b] at once, by harmonic numbers."""
    n = sums.n.sum(axis=-1)
    kept = np.floor(max_rejection * n * (1 + 1e-12))
    first = np.maximum(n - kept, 0)[..., np.newaxis]  # below this place every coverage counts alike
    upto = np.cumsum(sums.n, axis=-1)
    before = upto - sums.n
    total = _harmonic(n)[..., np.newaxis] * sums.n - (_summed(upto, first) - _summed(before, first))
    with np.errstate(invalid="ignore", divide="ignore"):
        places = np.where(sums.n > 0, total / sums.n, 0.0)
    return RankAreas(
        model=_over((places * sums.loss).sum(axis=-1), (places * sums.weight).sum(axis=-1)),
        oracle=_oracle(sums, n, kept),
        random=_over(sums.loss.sum(axis=-1), sums.weight.sum(axis=-1)),
    )


def ace(n: Array, gap: Array, weight: Array, *, n_bins: int = 10) -> Array:
    """[...], adaptive calibration error from sums by bin of confidence [..., b]: rows, and w (outcome - confidence).

    A place that falls inside a group of ties takes its part of the group's gap. `weight` [...] is of all rows. NaN
    where there is no bin, that is, no confidence.
    """
    if n.shape[-1] == 0:
        return np.full(n.shape[:-1], np.nan)
    total = n.sum(axis=-1)
    cumulative = np.concatenate([np.zeros((*gap.shape[:-1], 1)), np.cumsum(gap, axis=-1)], axis=-1)
    upto = np.concatenate([np.zeros((*n.shape[:-1], 1)), np.cumsum(n, axis=-1)], axis=-1)
    edges = []
    for m in range(n_bins + 1):
        place = np.floor(m * total / n_bins + 1e-9)
        at = np.clip((upto <= place[..., np.newaxis]).sum(axis=-1) - 1, 0, n.shape[-1] - 1)
        inside = _at(n, at)
        part = np.divide(place - _at(upto, at), inside, out=np.zeros_like(place), where=inside > 0)
        edges.append(_at(cumulative, at) + np.clip(part, 0, 1) * _at(gap, at))
    return _over(np.abs(np.diff(np.stack(edges, axis=-1), axis=-1)).sum(axis=-1), weight)


def risk_at_coverages(sums: RankSums) -> tuple[Array, Array]:
    """[..., b] each: the share of rows, and the weighted risk of those with a label, up to the end of each bin."""
    coverage = np.cumsum(sums.n, axis=-1) / sums.n.sum(axis=-1)[..., np.newaxis]
    return coverage, _over(np.cumsum(sums.loss, axis=-1), np.cumsum(sums.weight, axis=-1))


def _oracle(sums: RankSums, n: Array, kept: Array) -> Array:
    """The area of labelled rows by ascending loss, each as wide as the rows that it stands for."""
    total = sums.of_loss.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(total > 0, n / total, np.nan)
    begins = np.concatenate(
        [np.zeros((*sums.of_loss.shape[:-1], 1)), np.cumsum(sums.of_loss, axis=-1)[..., :-1]], axis=-1
    )
    begins = begins * scale[..., np.newaxis]  # the place where each loss begins
    steps = np.diff(sums.losses, prepend=0.0)
    rows, least = n[..., np.newaxis], (n - kept)[..., np.newaxis]
    from_place = np.maximum(np.floor(begins + 1e-9), least)
    area = (rows - from_place) - begins * (_harmonic(rows) - _harmonic(from_place))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((np.maximum(area, 0) * steps).sum(axis=-1) / kept)


def _harmonic(k: Array) -> Array:
    return np.asarray(digamma(k + 1.0) + np.euler_gamma)


def _summed(r: Array, first: Array) -> Array:
    """Sum over places i = 1..r of H(max(i - 1, first))."""
    inner = np.minimum(r, first + 1) * _harmonic(first)
    beyond = _running(np.maximum(r - 1, first)) - _running(first)
    return np.asarray(inner + beyond)


def _running(q: Array) -> Array:
    """H_0 + .. + H_q."""
    return np.asarray((q + 1) * (_harmonic(q + 1) - 1))


def _at(values: Array, index: NDArray[np.intp]) -> Array:
    return np.asarray(np.take_along_axis(values, index[..., np.newaxis], axis=-1)[..., 0])


def _over(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(b > 0, a / np.where(b > 0, b, 1.0), np.nan))

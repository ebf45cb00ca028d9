"""Distance of an embedding to the nearest class of the fitted data (Lee et al. 2018)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite, fraction, memberships, same_length
from demur.uncertainty.distances import row_distances
from demur.uncertainty.output import LabelledOutput, Need, Output

WORST_CONDITION = 1e12

LEDOIT_WOLF = "ledoit_wolf"


@dataclass(frozen=True, kw_only=True)
class MahalanobisDistance:
    """min over classes of (h - mean)^T covariance^-1 (h - mean): squared, in [0, inf)."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    means: Array
    """[C, d], one row for each class that was seen."""

    whitening: Array
    """[d, d]: W with W W^T = covariance^-1, so that the distance is Euclidean after h -> h W."""

    shrinkage: float | None = None
    """The weight of the scaled identity in the covariance. None: the artifact is of before it was told."""

    def of(self, output: Output) -> Array:
        return self.distance(output.needed("embedding"))

    def distance(self, features: Any) -> Array:
        """Squared distance of each row of `features` [n, d]."""
        rows = finite("features", features, ndim=2)
        if rows.shape[1] != len(self.whitening):
            raise InvalidInput(f"features have {rows.shape[1]} dimensions; {len(self.whitening)} were fitted")
        middle = self.means.mean(axis=0)  # an offset common to all features must not cost digits
        here, there = (rows - middle) @ self.whitening, (self.means - middle) @ self.whitening
        return np.asarray(row_distances(here, there, metric="sqeuclidean").min(axis=1))


@dataclass(frozen=True, kw_only=True)
class RelativeDistance:
    """Distance to the nearest class less the distance to all data taken as one class (Ren et al. 2021).

    May be negative: what is common to all inputs, strange or not, cancels. Identically 0 if one class was fitted.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    nearest: MahalanobisDistance
    background: MahalanobisDistance

    def of(self, output: Output) -> Array:
        return self.distance(output.needed("embedding"))

    def distance(self, features: Any) -> Array:
        """[n] for `features` [n, d]."""
        if len(self.nearest.means) == 1:
            return np.zeros(len(self.nearest.distance(features)))
        return self.nearest.distance(features) - self.background.distance(features)


@dataclass(frozen=True, kw_only=True)
class Mahalanobis:
    """The score as it is configured: fitted class means and one shared covariance."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    shrinkage: float | str = LEDOIT_WOLF
    """Weight in [0, 1] of the scaled identity in the covariance, or `ledoit_wolf`, which estimates it. Embeddings after
    a layer norm, or with more dimensions than rows, have a singular covariance and need some."""

    def __post_init__(self) -> None:
        checked_shrinkage(self.shrinkage)

    def fit(self, rows: LabelledOutput, quality: Array) -> MahalanobisDistance:  # noqa: ARG002 - classes say it all
        return fit_mahalanobis(rows.output.needed("embedding"), rows.classes, shrinkage=self.shrinkage)


@dataclass(frozen=True, kw_only=True)
class RelativeMahalanobis(Mahalanobis):
    """The distance to the nearest class, less the distance to all of the data."""

    def fit(self, rows: LabelledOutput, quality: Array) -> RelativeDistance:  # type: ignore[override]  # noqa: ARG002
        return fit_relative_mahalanobis(rows.output.needed("embedding"), rows.classes, shrinkage=self.shrinkage)


def fit_mahalanobis(features: Any, labels: Any, *, shrinkage: float | str = 0.0) -> MahalanobisDistance:
    """Return class means and the shared covariance (denominator N) of `features` [N, d].

    With `shrinkage` l the covariance is (1 - l) S + l (trace S / d) I; `ledoit_wolf` estimates l (Ledoit & Wolf 2004).
    A covariance that is singular, or close to it, raises: a pseudo-inverse would hide the directions in which an input
    can be strangest.
    """
    rows = finite("features", features, ndim=2)
    checked_shrinkage(shrinkage)
    member = memberships("labels", labels)
    same_length(features=rows, labels=member)

    # from the first row of each class, so that a feature that is constant in it deviates by exactly 0
    firsts = rows[np.unique(member, return_index=True)[1]]
    deviations = rows - firsts[member]
    shifts = np.zeros_like(firsts)
    np.add.at(shifts, member, deviations)
    shifts /= np.bincount(member)[:, None]
    centred = deviations - shifts[member]

    scale = np.abs(centred).max() or 1.0  # so that no square overflows or vanishes
    centred /= scale
    dimensions = rows.shape[1]
    weight = ledoit_wolf(centred) if isinstance(shrinkage, str) else float(shrinkage)
    covariance = (1 - weight) * (centred.T @ centred / len(rows))
    covariance[np.diag_indices(dimensions)] += weight * np.square(centred).sum() / len(rows) / dimensions

    eigenvalues, directions = np.linalg.eigh(covariance)
    if eigenvalues[0] <= 0 or eigenvalues[-1] > WORST_CONDITION * eigenvalues[0]:
        raise InvalidInput(
            f"the covariance of {len(rows)} embeddings in {dimensions} dimensions is singular or nearly so; "
            "set a shrinkage for mahalanobis, 0.05 say, or fit on more rows"
        )
    whitening = directions / np.sqrt(eigenvalues) / scale
    return MahalanobisDistance(means=firsts + shifts, whitening=whitening, shrinkage=weight)


def ledoit_wolf(centred: Array) -> float:
    """Return the weight of the scaled identity that is estimated to bring the covariance of `centred` [N, d] nearest to
    the true one (Ledoit & Wolf 2004); 0 where all covariances are multiples of the identity."""
    n, d = centred.shape
    covariance = centred.T @ centred / n
    squared = float(np.square(covariance).sum())
    spread = squared - np.trace(covariance) ** 2 / d  # squared distance to the scaled identity
    noise = (np.square(np.square(centred).sum(axis=1)).sum() / n - squared) / n
    return float(np.clip(noise / spread, 0, 1)) if spread > 0 else 0.0


def checked_shrinkage(shrinkage: Any) -> None:
    """Raise unless `shrinkage` is a share or `ledoit_wolf`."""
    if isinstance(shrinkage, str) and shrinkage != LEDOIT_WOLF:
        raise InvalidInput(f"shrinkage is {shrinkage!r}, not a number from 0 to 1 or {LEDOIT_WOLF}")
    if not isinstance(shrinkage, str):
        fraction("shrinkage", shrinkage)


def fit_relative_mahalanobis(features: Any, labels: Any, *, shrinkage: float | str = 0.0) -> RelativeDistance:
    """Fit both distances on `features` [N, d], shrinking either covariance by the same share, or each by its own where
    it is estimated."""
    nearest = fit_mahalanobis(features, labels, shrinkage=shrinkage)
    return RelativeDistance(
        nearest=nearest,
        background=fit_mahalanobis(features, np.zeros(len(features), dtype=int), shrinkage=shrinkage),
    )

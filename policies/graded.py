"""Labelled rows as a rule sees them when it is fitted: how sure each model was, and how right."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, InvalidInput, same_length


@dataclass(frozen=True, kw_only=True)
class GradedRows:
    """`n` rows and S models that are asked in turn until one is sure enough: a single one, unless there is a cascade.

    One limit holds for all models that see a row: each answers from it on, and what counts is the answer of the
    first that does.
    """

    confidence: Array
    """[n, S], calibrated. NaN where a model must not answer whatever the limit is: a gate is shut, or nothing known."""

    quality: Array
    """[n, S], how right each prediction was, 0 to 1."""

    score: str = ""
    """The score behind the confidence of a single model; it tells rows of one confidence apart."""

    scores: Array | None = None
    """[n], its values, higher when less sure. None in a cascade, where each model has its own score."""

    by_score: bool = False
    """Whether a rule that ranks rows goes by the score. Then the calibrator may have seen the labels of these rows."""

    in_degrees: bool = False
    """Whether predictions are right to a degree, and not right or wrong."""

    weights: Array | None = None
    """[n], how much each row stands for in traffic whose inputs have moved; None: rows are drawn like the traffic."""

    max_weight: float = 1.0
    """The largest that a weight could be, whatever the rows are."""

    unlike: float = 0.0
    """The share of the traffic that the weights do not make up for."""

    wrong_weights: str = ""
    """Why the weighted rows are unlike the traffic, in words; empty where nothing shows it."""

    def __post_init__(self) -> None:
        same_length(confidence=self.confidence, quality=self.quality)
        if self.confidence.ndim != 2 or self.confidence.shape != self.quality.shape:
            raise InvalidInput(f"confidence is {self.confidence.shape}, quality {self.quality.shape}; both are [n, S]")
        if self.scores is not None:
            same_length(confidence=self.confidence, scores=self.scores)
            if self.models > 1:
                raise InvalidInput("rows of a cascade have no common score")

    @classmethod
    def of_one(
        cls,
        confidence: Array,
        quality: Array,
        *,
        score: str = "",
        scores: Array | None = None,
        by_score: bool = False,
        in_degrees: bool = False,
    ) -> "GradedRows":
        """The rows [n] of a single model."""
        return cls(
            confidence=np.asarray(confidence)[:, None],
            quality=np.asarray(quality)[:, None],
            score=score,
            scores=scores,
            by_score=by_score,
            in_degrees=in_degrees,
        )

    @classmethod
    def in_turn(cls, models: "list[GradedRows]") -> "GradedRows":
        """Return rows as a cascade of these models sees them."""
        if len(models) == 1:
            return models[0]
        return cls(
            confidence=np.concatenate([one.confidence for one in models], axis=1),
            quality=np.concatenate([one.quality for one in models], axis=1),
            in_degrees=any(one.in_degrees for one in models),
        )

    def __len__(self) -> int:
        return len(self.confidence)

    def ranked(self) -> "GradedRows":
        """Return the rows with what a rule ranks them by in the place of confidence: the negated score, if it goes by
        that. Rows without a confidence stay without one."""
        if not self.by_score or self.scores is None:
            return self
        known = np.isfinite(self.surest) & np.isfinite(self.scores)
        return GradedRows.of_one(np.where(known, -self.scores, np.nan), self.quality[:, 0])

    def rows(self, positions: NDArray[np.intp]) -> "GradedRows":
        """Return these rows, in this order."""
        return replace(
            self,
            confidence=self.confidence[positions],
            quality=self.quality[positions],
            scores=None if self.scores is None else self.scores[positions],
            weights=None if self.weights is None else self.weights[positions],
        )

    @property
    def models(self) -> int:
        return int(self.confidence.shape[1])

    @property
    def surest(self) -> Array:
        """[n], the highest confidence of any model: a row is answered at every limit up to it. -inf: at none."""
        return self._reached()[:, -1]

    def at(self, limits: Array) -> tuple[NDArray[np.intp], Array]:
        """For each of `limits` [J]: how many rows are answered, and how much of their quality is missing, summed up."""
        reached = self._reached()
        before = np.concatenate([np.full((len(self), 1), -np.inf), reached[:, :-1]], axis=1)
        loss = 1 - self.quality
        n_answered = len(self) - np.searchsorted(np.sort(reached[:, -1]), limits, side="left")
        # at a limit t, the model answers whose running maximum is the first to come up to t
        lost = np.zeros(len(limits))
        for model in range(self.models):
            lost += _sum_from(reached[:, model], loss[:, model], limits)
            if model:
                lost -= _sum_from(before[:, model], loss[:, model], limits)
        return n_answered.astype(np.intp), lost

    def losses_at(self, limit: float) -> Array:
        """What the answers at a limit lack of being right, one number for each answered row, in the order of rows."""
        reached = self._reached()
        answered = reached[:, -1] >= limit
        first = (reached[answered] >= limit).argmax(axis=1)
        return np.asarray(1 - self.quality[answered, first])

    def weights_at(self, limit: float) -> Array | None:
        """The weights of the rows that are answered at a limit, in the order of rows; None where rows have none."""
        return None if self.weights is None else self.weights[self.surest >= limit]

    def _reached(self) -> Array:
        """[n, S], the highest confidence so far."""
        known = np.where(np.isnan(self.confidence), -np.inf, self.confidence)
        return np.asarray(np.maximum.accumulate(known, axis=1))


def _sum_from(values: Array, weights: Array, limits: Array) -> Array:
    """[J], the sum of the weights of all values at or above each limit."""
    order = np.argsort(values)
    sums = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    return np.asarray(sums[np.searchsorted(values[order], limits, side="left")])

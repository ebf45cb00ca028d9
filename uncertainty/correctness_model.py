"""The probability that an answer is right, from the whole output of the model (METHODS 10.1).

One score cannot see that a model is wrong mostly when it gives a certain label. A logistic regression on the sorted
log-probabilities, the given label and the log-probabilities of all labels can. It needs no new pass through the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    class_indices,
    finite,
    memberships,
    outcomes,
    probability_rows,
    real_number,
    relative_weights,
    same_length,
    whole_number,
)
from demur.uncertainty.class_calibration import checked_floor

BLOCKS = ("sorted", "label", "vector")
"""Columns that belong together, in the order in which they are tried."""

NLL_FLOOR = 1e-15


@dataclass(frozen=True, kw_only=True)
class CorrectnessRecipe:
    """What a model of correctness may look at."""

    blocks: Sequence[str] = BLOCKS
    """`sorted`: the largest log-probabilities; `label`: which label is given; `vector`: all log-probabilities."""

    C: float = 1.0
    """Above 0; the penalty is ||coef||^2 / (2C)."""

    top: int = 10
    """Columns of `sorted`, at most."""

    max_vector: int = 50
    """Above so many labels there is no `vector`."""

    min_label_rows: int = 20
    """A label that was given in fewer rows has no column of its own."""

    min_events: int = 10
    """With fewer right or wrong answers only the score is used."""

    floor: float = 1e-6
    """The smallest probability that enters a logarithm."""

    def __post_init__(self) -> None:
        asked = self.blocks
        if isinstance(asked, str | bytes) or not isinstance(asked, Sequence):
            raise InvalidInput(f"blocks is {asked!r}, not a list")
        if any(not isinstance(name, str) or name not in BLOCKS for name in asked) or len(set(asked)) < len(asked):
            raise InvalidInput(f"blocks holds something other than {', '.join(BLOCKS)}, or one of them twice")
        real_number("C", self.C, above=0)
        whole_number("top", self.top, least=1)
        for name in ("max_vector", "min_label_rows", "min_events"):
            whole_number(name, vars(self)[name])
        checked_floor(self.floor)

    def fit(self, probs: Any, correct: Any, predicted: Any = None, weights: Any = None) -> "CorrectnessModel":
        """Fit to 0/1 `correct` [n] by `probs` [n, K], K >= 2, of answers that gave the label `predicted` [n].

        By default that is the most probable label.

        A row counts by its weight; weight 0 means that it has no label, and `correct` may be None there. A block is
        taken if there are two events of the rarer kind for each column. Without a block the score alone remains.
        """
        p = _probabilities("fit_probs", probs)
        given = _given("fit_predicted", predicted, p)
        y, w = _labelled(correct, weights, len(p))
        known = w > 0
        p, given, y, w = p[known], given[known], y[known], w[known] / w[known].mean()
        right = int(y.sum())
        rarer = min(right, len(y) - right)
        logs = np.log(np.maximum(p, self.floor))
        counts = np.bincount(given, minlength=p.shape[1])
        labels = np.flatnonzero((counts >= self.min_label_rows) & (counts > 0))
        widths = {
            "sorted": min(p.shape[1], self.top),
            "label": len(labels),
            "vector": p.shape[1] if p.shape[1] <= self.max_vector else 0,
        }
        taken: list[str] = []
        n_columns = 0
        for block in BLOCKS if rarer >= self.min_events else ():
            if block in self.blocks and widths[block] and 2 * (n_columns + widths[block]) <= rarer:
                taken.append(block)
                n_columns += widths[block]
        if not taken:
            return self._score_alone(p, given, y, w)
        labels = labels if "label" in taken else labels[:0]
        columns, scaled = _columns(logs, given, taken, labels, self.top)
        mean, spread = _moments(columns, scaled)
        coef, intercept = penalised_logistic((columns - mean) / spread, y, w, self.C)
        return CorrectnessModel(
            kind="model",
            blocks=taken,
            labels=labels,
            n_classes=p.shape[1],
            top=self.top,
            floor=self.floor,
            mean=mean,
            spread=spread,
            coef=coef,
            intercept=intercept,
        )

    def _score_alone(self, p: Array, given: NDArray[np.intp], y: Array, w: Array) -> "CorrectnessModel":
        columns = _log_odds(p, given, self.floor)
        mean, spread = _moments(columns, np.ones(1, dtype=bool))
        coef, intercept = penalised_logistic((columns - mean) / spread, platt_targets(y), w, self.C)
        return CorrectnessModel(
            kind="score",
            blocks=[],
            labels=np.empty(0, dtype=np.intp),
            n_classes=p.shape[1],
            top=self.top,
            floor=self.floor,
            mean=mean,
            spread=spread,
            coef=coef,
            intercept=intercept,
        )


@dataclass(frozen=True, kw_only=True)
class CorrectnessModel:
    """A fitted model of correctness; what was fitted and why is in `kind` and `blocks`."""

    kind: str
    """`model`, or `score`: then only the log-odds of the given label's probability count."""

    blocks: list[str]
    labels: NDArray[np.intp]
    """Labels with a column of their own."""

    n_classes: int
    top: int
    floor: float
    mean: Array
    spread: Array
    coef: Array
    intercept: float

    def confidence(self, probs: Any, predicted: Any = None) -> Array:
        """Return the probability [n] of being right for `probs` [n, K] of answers that gave `predicted` [n]."""
        p = _probabilities("probs", probs)
        if p.shape[1] != self.n_classes:
            raise InvalidInput(f"probs has {p.shape[1]} columns; {self.n_classes} were fitted")
        given = _given("predicted", predicted, p)
        if self.kind == "score":
            columns = _log_odds(p, given, self.floor)
        else:
            columns, _ = _columns(np.log(np.maximum(p, self.floor)), given, self.blocks, self.labels, self.top)
        return np.asarray(expit((columns - self.mean) / self.spread @ self.coef + self.intercept))


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossfitCorrectness:
    """The model against the score alone, each row judged by fits that have not seen its fold."""

    confidence: Array
    nll: float
    """The mean negative log-likelihood of what happened."""

    score_confidence: Array
    score_nll: float
    use: str
    """`model` if its loss is smaller, else `score`."""


def correctness_crossfit(
    probs: Any,
    correct: Any,
    folds: Any,
    recipe: CorrectnessRecipe,
    predicted: Any = None,
    weights: Any = None,
    score: CorrectnessRecipe | None = None,
) -> CrossfitCorrectness:
    """Return what the model and the score alone say of each row, fitted on the other `folds` [n].

    There are two folds or more; rows of one cluster share a fold. A row counts by its weight, of `weights` [n] above 0.
    The score alone is fitted by `score`, a recipe without blocks; None: one with the penalty and the floor of `recipe`.

    A rule without a promise may be fitted on such confidences. A rule with a promise needs rows that neither the model
    nor this choice has seen.
    """
    p, y = _probabilities("probs", probs), outcomes("correct", correct)
    member = memberships("folds", folds)
    w = relative_weights(weights, probs=p, correct=y, folds=member)
    given = _given("predicted", predicted, p)
    if member.max() < 1:
        raise InvalidInput("folds holds one fold; at least 2 are needed")
    whole, alone = np.empty(len(p)), np.empty(len(p))
    score = score or CorrectnessRecipe(blocks=(), C=recipe.C, floor=recipe.floor)
    for fold in range(int(member.max()) + 1):
        here = member == fold
        for found, one in ((whole, recipe), (alone, score)):
            found[here] = one.fit(p[~here], y[~here], given[~here], w[~here]).confidence(p[here], given[here])
    nll, score_nll = (_loss(found, y, w) for found in (whole, alone))
    return CrossfitCorrectness(
        confidence=whole,
        nll=nll,
        score_confidence=alone,
        score_nll=score_nll,
        use="model" if nll < score_nll - 1e-9 else "score",
    )


def platt_targets(y: Array) -> Array:
    """Return Platt's targets for 0/1 outcomes: a handful of errors gives no certainty."""
    right = y.sum()
    return np.asarray(np.where(y == 1, (right + 1) / (right + 2), 1 / (len(y) - right + 2)))


def penalised_logistic(columns: Any, targets: Array, weights: Array, C: float) -> tuple[Array, float]:
    """Return slopes [d] and the free intercept that minimise sum w logloss + ||coef||^2 / (2C); `targets` [n] are in
    [0, 1], and may be one class. `columns` [n, d] may be sparse."""
    from sklearn.linear_model import LogisticRegression  # here, because a gateway that never fits need not load it

    n = len(targets)
    share = np.append(weights * targets, weights * (1 - targets))  # a share of 1 and a share of 0 of each row
    used = share > 0
    rows = np.tile(np.arange(n), 2)[used]
    classes = np.append(np.ones(n), np.zeros(n))[used]
    if classes.min() == classes.max():
        raise InvalidInput("the targets are all 0 or all 1; both are needed")
    # the default solver stops at six digits or fewer
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(columns[rows], classes, sample_weight=share[used])
    return model.coef_[0], float(model.intercept_[0])


def _probabilities(name: str, probs: Any) -> Array:
    p = probability_rows(name, probs)
    if p.shape[1] < 2:
        raise InvalidInput(f"{name} has 1 column; at least 2 labels are needed")
    return p


def _given(name: str, predicted: Any, p: Array) -> NDArray[np.intp]:
    """The label given: by default the most probable one, of ties the first."""
    if predicted is None:
        return np.asarray(p.argmax(axis=1))
    given = class_indices(name, predicted, classes=p.shape[1])
    same_length(probs=p, **{name: given})
    return given


def _labelled(correct: Any, weights: Any, n: int) -> tuple[Array, Array]:
    if weights is None:
        y = outcomes("fit_correct", correct)
        same_length(fit_correct=y, fit_probs=range(n))
        return y, np.ones(n)
    w = finite("weights", weights)
    if isinstance(correct, str | bytes) or not isinstance(correct, Sequence | np.ndarray):
        raise InvalidInput("fit_correct is not a list")
    same_length(fit_correct=correct, weights=w, fit_probs=range(n))
    if w.min() < 0 or w.max() == 0:
        raise InvalidInput("weights are 0 or more, and not all 0")
    y = np.zeros(n)
    rows = np.flatnonzero(w > 0)
    y[rows] = outcomes("fit_correct", [correct[row] for row in rows.tolist()])
    return y, w / w.max()


def _log_odds(p: Array, given: NDArray[np.intp], floor: float) -> Array:
    own = np.clip(p[np.arange(len(p)), given], floor, 1 - floor)
    return np.asarray(logit(own)[:, np.newaxis])


def _columns(
    logs: Array, given: NDArray[np.intp], blocks: Sequence[str], labels: NDArray[np.intp], top: int
) -> tuple[Array, Mask]:
    """The columns [n, d] of the blocks, and which of them are standardised [d]."""
    parts = {
        "sorted": -np.sort(-logs, axis=1)[:, :top],
        "label": (given[:, np.newaxis] == labels).astype(np.float64),
        "vector": logs,
    }
    chosen = [parts[name] for name in blocks]
    scaled = [np.full(part.shape[1], name != "label") for name, part in zip(blocks, chosen, strict=True)]
    return np.hstack(chosen), np.concatenate(scaled)


def _moments(columns: Array, scaled: Mask) -> tuple[Array, Array]:
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread <= 1e-12 * np.maximum(1, np.abs(mean)), 1.0, spread)
    return np.where(scaled, mean, 0.0), np.where(scaled, spread, 1.0)


def _loss(confidence: Array, y: Array, weights: Array) -> float:
    happened = np.where(y == 1, confidence, 1 - confidence)
    return float(np.average(-np.log(np.maximum(NLL_FLOOR, happened)), weights=weights))

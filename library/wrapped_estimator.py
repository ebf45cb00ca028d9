"""What an estimator, a function or an array of probabilities says about rows, as the output that a selector judges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from demur.uncertainty.checks import Array
from demur.uncertainty.output import OF_REPLIES, Link, Need, Output
from demur.uncertainty.scores import REPLY_SCORES, SCORES, ScoreRecipe

NO_PROBABILITIES = "has neither predict_proba nor decision_function, and cannot be called"


@dataclass(frozen=True)
class WrappedEstimator:
    """A fitted estimator with `predict_proba` or `decision_function`; a function from rows to probabilities; or None,
    where the rows are probabilities already. It is the `ModelAbilities` of a selector's settings."""

    estimator: Any

    @property
    def sampled(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return "the array" if self.estimator is None else type(self.estimator).__name__

    @property
    def trains(self) -> bool:
        """Whether it can be trained, and is not frozen."""
        return hasattr(self.estimator, "fit") and not isinstance(self.estimator, FrozenEstimator)

    def check(self) -> None:
        """Raise `TypeError` for what gives no probabilities."""
        given = self.estimator
        if isinstance(given, type):
            raise TypeError(f"estimator: {given.__name__} is a class; give an object of it, like {given.__name__}()")
        if self._method is None:
            numbers = isinstance(given, BaseEstimator) and is_regressor(given)
            hint = "; it is a regressor, and demur needs a classifier" if numbers else ""
            raise TypeError(f"estimator: {self.name} {NO_PROBABILITIES}{hint}")

    def check_fitted(self) -> None:
        """Raise `NotFittedError` for an estimator of scikit-learn's kind that was not trained."""
        if isinstance(self.estimator, BaseEstimator):
            check_is_fitted(self.estimator)

    @property
    def classes(self) -> Any:
        """Its `classes_`; None where it tells none."""
        return getattr(self.estimator, "classes_", None)

    def own_scores(self) -> Mapping[str, ScoreRecipe]:
        """Return nothing: an array of probabilities brings no scores of its own."""
        return {}

    def offered_scores(self) -> list[str]:
        return [name for name in SCORES if name not in REPLY_SCORES]

    def check_name(self, kind: str, place: str) -> None:
        if kind in REPLY_SCORES:
            raise ValueError(
                f"{place}: {kind} reads the replies of a language model, and {self.name} gives probabilities; these go"
                f" with it: {', '.join(self.offered_scores())}"
            )

    def suited(self, kind: str, score: ScoreRecipe, place: str) -> ScoreRecipe:
        self._check_gives(score.needs, f"{place}: {kind}")
        return score

    def sets(self, settings: Mapping[str, Any], acts_on_sets: bool) -> dict[str, Any] | None:  # noqa: ARG002
        if settings.get("kind") == "sampled":
            self._check_gives(frozenset({"mc_probabilities"}), "prediction_set: sampled")
            if settings.get("source", "passes") != "passes":
                raise ValueError("prediction_set: there are passes here and no samples; leave `source` out")
        return dict(settings)

    def _check_gives(self, needs: frozenset[Need], what: str) -> None:
        if needs & OF_REPLIES:
            raise ValueError(f"{what} reads the replies of a language model; leave it out")
        if "embedding" in needs and self._embed is None:
            raise ValueError(
                f"{what} looks at an embedding, and {self.name} gives none; give it a method `embed`, or a pipeline"
                " whose earlier steps make features"
            )
        if "logits" in needs and self._method != "decision_function":
            raise ValueError(f"{what} looks at logits, and {self.name} gives probabilities; leave it out")
        if "mc_probabilities" in needs and self._method in ("predict_proba", "decision_function"):
            raise ValueError(
                f"{what} looks at repeated passes, and {self.name} makes one; give a function that returns [n, passes,"
                " classes], or leave it out"
            )

    def output(self, X: Any, needs: frozenset[Need], *, n_labels: int, link: Link) -> Output:
        """Return what is said about at least one row. Raise `ValueError` for an answer of another shape."""
        found = self._answer(X)
        if isinstance(found, list) and link == "sigmoid":
            found = of_each_label(found, self.classes)
        rows = self._numbers(found, "probabilities")
        n = n_rows(X)
        if len(rows) != n:
            raise ValueError(f"{self.name} gave {len(rows)} rows of probabilities for {n} rows")
        if link == "softmax" and n_labels == 2 and (rows.ndim == 1 or rows.shape[1:] == (1,)):
            positive = rows.reshape(n, 1)
            negative = np.zeros_like(positive) if self._method == "decision_function" else 1 - positive
            rows = np.hstack([negative, positive])
        passes = rows if rows.ndim == 3 else None
        if rows.shape != ((n, n_labels) if passes is None else (n, rows.shape[1], n_labels)):
            raise ValueError(
                f"{self.name} gave {list(rows.shape)} for these rows; it should give [n, {n_labels}], a column for each"
                " class"
            )
        embedding = self._embedding(X, n) if "embedding" in needs else None
        if self._method == "decision_function":
            return Output.from_logits(rows, link=link, embedding=embedding)
        return Output.from_probabilities(
            rows if passes is None else passes.mean(axis=1),
            link=link,
            embedding=embedding,
            mc_probabilities=passes if "mc_probabilities" in needs else None,
        )

    def _answer(self, X: Any) -> Any:
        method = self._method
        if method is None:
            raise TypeError(f"estimator: {self.name} {NO_PROBABILITIES}")
        if method == "array":
            return X
        return self.estimator(X) if method == "call" else getattr(self.estimator, method)(X)

    @property
    def _method(self) -> str | None:
        if self.estimator is None:
            return "array"
        for name in ("predict_proba", "decision_function"):
            if hasattr(self.estimator, name):
                return name
        return "call" if callable(self.estimator) else None

    @property
    def _embed(self) -> Callable[[Any], Any] | None:
        given: Any = self.estimator
        while isinstance(given, FrozenEstimator):
            given = given.estimator
        if (own := getattr(given, "embed", None)) is not None:
            return own  # type: ignore[no-any-return]
        steps = getattr(given, "steps", None)
        if isinstance(steps, list):
            return given[:-1].transform if len(steps) > 1 else None
        return getattr(given, "transform", None)

    def _embedding(self, X: Any, n: int) -> Array:
        assert self._embed is not None  # asked for above
        found = self._embed(X)
        if hasattr(found, "toarray"):
            raise ValueError(
                f"the embedding of {self.name} is sparse; make it short and dense, with TruncatedSVD for example"
            )
        rows = self._numbers(found, "an embedding")
        if rows.ndim != 2 or len(rows) != n:
            raise ValueError(f"the embedding of {self.name} is {list(rows.shape)}; it should be [{n}, d]")
        return rows

    def _numbers(self, found: Any, what: str) -> Array:
        try:
            rows = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name} gave no array of numbers as {what}: {error}") from None
        if rows.ndim == 0:
            raise ValueError(f"{self.name} gave a single value as {what}, and not a row for each input")
        return rows


def n_rows(X: Any) -> int:
    """How many rows something holds: an array, a sparse matrix, a data frame or a list."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    return len(X if hasattr(X, "__len__") else np.asarray(X))


def of_each_label(found: list[Any], classes: Any) -> Array:
    """[n, C], from one array [n, 2] for each label, as forests and nearest neighbours give them. A label that was
    always or never there in training has one column."""
    columns = []
    for at, one in enumerate(found):
        rows = np.asarray(one, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] > 2:
            raise ValueError(f"predict_proba gave {list(rows.shape)} for label {at}; it should give [n, 2]")
        if rows.shape[1] == 2:
            columns.append(rows[:, 1])
        else:
            always = bool(np.asarray(classes[at]).ravel()[0]) if isinstance(classes, list) else True
            columns.append(rows[:, 0] if always else 1 - rows[:, 0])
    return np.column_stack(columns)

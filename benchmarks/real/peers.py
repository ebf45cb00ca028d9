"""Other libraries that make the same promises, on the same splits: MAPIE and crepes, of the extra `bench`."""

import warnings
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.real.answer_promises import DELTA, Rule
from benchmarks.real.predictions import Index
from benchmarks.real.set_kinds import ALPHAS, SetCase
from benchmarks.real.set_promises import Peer
from benchmarks.real.splits import Split
from demur.policies.selective_risk import LIMITS
from demur.uncertainty.checks import Array, Mask

INSTALL = "make setup-bench"

ONE_BY_ONE = 5
"""Splits for crepes, which looks at each pair of a row and a label by itself in Python: two seconds a split of the
intents."""


def are_installed() -> bool:
    return all(find_spec(name) is not None for name in ("mapie", "crepes"))


class Said(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model for MAPIE that says the probabilities it is given."""

    def __init__(self, n_labels: int) -> None:
        self.n_labels = n_labels
        self.classes_ = np.arange(n_labels)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> "Said":  # noqa: ARG002 - nothing to learn
        return self

    def predict_proba(self, X: Array) -> Array:
        return X

    def predict(self, X: Array) -> Array:
        return np.asarray(X.argmax(axis=1))


def mapie_sets(score: str, last: bool | str, case: SetCase, part: Split) -> Array:
    """[m, C, A]; `last` says what becomes of the label with which the sum passes the quantile."""
    from mapie.classification import SplitConformalClassifier

    split = SplitConformalClassifier(
        Said(case.probabilities.shape[1]),
        confidence_level=[1 - alpha for alpha in ALPHAS],
        conformity_score=score,
        prefit=True,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that refusals are among the labels and never right
        split.conformalize(case.probabilities[part.fit], case.classes[part.fit])
        _, sets = split.predict_set(case.probabilities[part.test], conformity_score_params={"include_last_label": last})
    return np.asarray(sets)


def crepes_sets(case: SetCase, part: Split) -> Array:
    from crepes import ConformalClassifier

    fitted = ConformalClassifier().fit(1 - case.probabilities[part.fit, case.classes[part.fit]])
    return _admitted(fitted.predict_p(1 - case.probabilities[part.test], smoothing=False))


def crepes_class_conditional(case: SetCase, part: Split) -> Array:
    """As `WrapClassifier` does with class_cond=True: for each label the rows of that label are the category."""
    from crepes import ConformalClassifier

    truth, scores = case.classes[part.fit], 1 - case.probabilities[part.test]
    fitted = ConformalClassifier().fit(1 - case.probabilities[part.fit, truth], bins=truth)
    columns = [
        fitted.predict_p(scores[:, label], bins=np.full(len(scores), label), smoothing=False)
        for label in range(scores.shape[1])
    ]
    return _admitted(np.stack(columns, axis=1))


def crepes_group_conditional(case: SetCase, part: Split) -> Array:
    from crepes import ConformalClassifier

    assert case.groups is not None
    true_scores = 1 - case.probabilities[part.fit, case.classes[part.fit]]
    fitted = ConformalClassifier().fit(true_scores, bins=case.groups[part.fit])
    return _admitted(fitted.predict_p(1 - case.probabilities[part.test], bins=case.groups[part.test], smoothing=False))


def _admitted(p_values: Array) -> Array:
    """As its `predict_set` does at each confidence, without counting again for each."""
    return np.stack([p_values >= 1 - (1 - alpha) for alpha in ALPHAS], axis=2)


LAC = Peer(sets=partial(mapie_sets, "lac", True))
RAPS = Peer(sets=partial(mapie_sets, "raps", True), splits=50)
SETS: Mapping[str, Mapping[str, Peer]] = {
    "split": {"MAPIE": LAC, "crepes": Peer(sets=crepes_sets, splits=ONE_BY_ONE)},
    "adaptive": {
        "MAPIE": Peer(sets=partial(mapie_sets, "aps", True), splits=50),
        "MAPIE, randomised": Peer(sets=partial(mapie_sets, "aps", "randomized"), splits=50),
    },
    "regularised, 0.01 from the sixth": {"MAPIE": RAPS},
    "regularised": {"MAPIE": RAPS},
    "class-conditional": {"crepes": Peer(sets=crepes_class_conditional, splits=ONE_BY_ONE)},
    "group-conditional": {"crepes": Peer(sets=crepes_group_conditional, splits=ONE_BY_ONE)},
    "sampled": {"MAPIE": LAC, "crepes": Peer(sets=crepes_sets)},
}


def mapie_limit(fwer_method: str, limits: Array, confidence: Array, correct: Array, risk: float) -> float:
    """The lowest of `limits` at which MAPIE promises a precision of 1 - `risk`, or +inf: an answer is a positive."""
    from mapie.risk_control import BinaryClassificationController

    controller = BinaryClassificationController(
        lambda X: np.stack([1 - X, X], axis=1),
        risk="precision",
        target_level=1 - risk,
        confidence_level=1 - DELTA,
        list_predict_params=limits,
        fwer_method=fwer_method,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that nobody reaches some limits, or that none will do
        controller.calibrate(confidence, correct.astype(int))
    return np.inf if controller.best_predict_param is None else float(controller.best_predict_param)


RULES: Mapping[str, Rule] = {
    "MAPIE, bonferroni": partial(mapie_limit, "bonferroni", np.array(LIMITS)),
    "MAPIE, fixed sequence": partial(mapie_limit, "fixed_sequence", np.array(LIMITS)[::-1]),
}


class MapieMissed:
    """MAPIE's control of recall, with the losses of all rows counted once: it takes them one by one in Python."""

    def __init__(self, probabilities: Array, truth: Mask) -> None:
        self._losses = self._controller().compute_risks(probabilities, truth.astype(int))._risks

    def limits(self, fit: Index) -> Array:
        """[A], the limit above which a label is predicted, fitted on the rows `fit` of those."""
        controller = self._controller()
        controller._risks = self._losses[fit]
        return np.asarray(controller.compute_best_predict_param().best_predict_param)

    @staticmethod
    def _controller() -> Any:
        from mapie.risk_control import MultiLabelClassificationController

        return MultiLabelClassificationController(
            lambda X: X, risk="recall", method="crc", target_level=[1 - alpha for alpha in ALPHAS]
        )

"""A classifier that may say "I don't know", around any classifier: scikit-learn's habits, the service's selector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from demur.calibration_store.artifact import ModelIdentity
from demur.calibration_store.clusters import cluster_remark
from demur.calibration_store.store import ArtifactStore
from demur.library.class_labels import ClassLabels, classes_of, target_of
from demur.library.decision_table import DecisionTable
from demur.library.equal_inputs import belonging_rows, inputs_of
from demur.library.estimator_settings import EstimatorSettings
from demur.library.fitted_selector import check_enough, fit_selector
from demur.library.given_rows import group_names, trained_and_calibrated, weights_of
from demur.library.model_identity import identity_of
from demur.library.recipe import SelectorSettings, selector_recipe
from demur.library.report import FitReport
from demur.library.saved_artifact import SavedArtifact, save_artifact
from demur.library.wrapped_estimator import WrappedEstimator
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.checks import Array, InvalidInput, Mask, fraction, same_length
from demur.uncertainty.output import LabelledOutput, Output

SPLIT_STREAM = 1
"""Beside the seed of the calibration: rows are drawn for training independently of what is drawn later."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """What is to be fitted, and the labelled rows as a fit takes them."""

    labels: ClassLabels
    settings: SelectorSettings
    configured: dict[str, Any]
    recipe: SelectorRecipe
    truth: Mask
    groups: NDArray[np.object_] | None
    weights: Array | None
    clusters: NDArray[np.intp] | None


class SelectiveClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Wrap a classifier, so that each prediction has a calibrated confidence and is answered or held.

    Scores, calibrator, policy and prediction sets are written as in the configuration file of the service, and the same
    selector is fitted: what this object decides about an output, a service with its artifact decides as well.

    Parameters
    ----------
    estimator : object, callable or None
        A classifier with `predict_proba` or `decision_function`; a function from rows to probabilities; or None, where
        `X` is itself an array of probabilities that were made elsewhere. Scores of embeddings ask it for `embed`, or
        for the features that the earlier steps of a pipeline make, or for `transform`.
    policy : dict, optional
        `kind` and its settings. By default `{"kind": "selective_risk", "max_risk": 0.05}`: at most 5% of the answers
        are wrong, except with probability 5%.
    scores : list, optional
        Names, or names with settings: `["entropy", {"mahalanobis": {"shrinkage": 0.05}}]`.
    confidence : dict, optional
        `score`, by default the first one; `calibrator`, by default isotonic; `right`, for multilabel tasks.
    prediction_set : dict, optional
        `kind` and its settings, by default split conformal sets at 1% error.
    label_confidence, thresholds : str or dict, optional
        For multilabel tasks, as in the configuration file.
    labels : list of str, optional
        What the service calls the classes, in the order of `classes_`. By default, the classes as texts.
    calibration_share : float
        Share of the rows that `fit` keeps from the estimator, to calibrate on.
    report_share : float
        Share of the calibration rows that nothing is fitted on, for `report`.
    equal_inputs : str
        `together`: rows with equal inputs count once for promises and for the report, as copies of a row would break
        them. `apart`: they come from different cases, and each counts. Rows of probabilities are always apart.
    abstain_label : object
        What `predict` gives for a row that is held.
    anyway : bool
        Fit also where the rows cannot carry what is to be promised; then everything may be held.
    random_state : int, RandomState or None
        Decides which rows are used for what.

    Attributes
    ----------
    estimator_ : the fitted estimator.
    classes_ : its classes, in the order of its columns; of a multilabel task, the numbers of its labels.
    selector_ : the fitted selector, a `demur.policies.selector.Selector`.
    calibration_rows_ : positions of the rows that calibration saw, among those that were given.
    report_rows_ : positions of those that nothing was fitted on.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        policy: Mapping[str, Any] | None = None,
        scores: Sequence[str | Mapping[str, Any]] | None = None,
        confidence: Mapping[str, Any] | None = None,
        prediction_set: Mapping[str, Any] | None = None,
        label_confidence: str | Mapping[str, Any] | None = None,
        thresholds: str | Mapping[str, Any] | None = None,
        labels: Sequence[str] | None = None,
        calibration_share: float = 0.5,
        report_share: float = 0.4,
        equal_inputs: str = "together",
        abstain_label: Any = None,
        anyway: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.policy = policy
        self.scores = scores
        self.confidence = confidence
        self.prediction_set = prediction_set
        self.label_confidence = label_confidence
        self.thresholds = thresholds
        self.labels = labels
        self.calibration_share = calibration_share
        self.report_share = report_share
        self.equal_inputs = equal_inputs
        self.abstain_label = abstain_label
        self.anyway = anyway
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train a copy of the estimator on one part of the rows, and calibrate on the other.

        An estimator in `FrozenEstimator`, and what cannot be trained, is only calibrated, on all rows. The parts are
        drawn at random, rows with equal inputs into the same one, and every class is trained on: where more than 1% of
        the rows to calibrate on would have to be trained on for that, raise `TooFewRows`, as no promise would see such
        rows. See `fit_calibration` for `groups` and other errors.
        """
        model = WrappedEstimator(self.estimator)
        model.check()
        if not model.trains:
            return self.fit_calibration(X, y, groups)
        share = fraction("calibration_share", self.calibration_share, open_low=True, open_high=True)
        target, exclusive = target_of(y)
        X, target, groups = indexable(X, target, groups)
        seed = self._seed()
        clusters, _ = self._belonging(X, None, len(target))
        parts = trained_and_calibrated(target, exclusive, share, np.random.default_rng([seed, SPLIT_STREAM]), clusters)
        parts.check()
        calibrated = parts.calibrated
        taught = _safe_indexing(target, calibrated)
        told = np.unique(target) if exclusive else None
        alike = None if clusters is None else clusters[calibrated]
        self._plan(model, told, taught, groups=None, seed=seed, counts=(None, alike))  # before minutes pass
        estimator = clone(self.estimator).fit(_safe_indexing(X, parts.trained), _safe_indexing(target, parts.trained))
        return self._calibrate(
            estimator,
            _safe_indexing(X, calibrated),
            taught,
            None if groups is None else _safe_indexing(groups, calibrated),
            rows=calibrated,
            seed=seed,
            remarks=parts.remarks,
            among=parts.among,
        )

    def fit_calibration(
        self, X: Any, y: Any, groups: Any = None, *, sample_weight: Any = None, clusters: Any = None
    ) -> Self:
        """Calibrate an estimator that is trained already, on rows that it was not trained on.

        `groups` [n] are texts that say where each row comes from, None for nowhere, for sets that promise something of
        each group. `sample_weight` [n] says how many rows of the traffic each stands for. `clusters` [n] are names of
        what rows belong to, such as patients, None for a row by itself: a promise counts one row of each, and is about
        new clusters. Rows with equal inputs make a cluster as well, unless `equal_inputs` is `apart`. Raise
        `TooFewRows`, `PromiseOutOfReach` or `RanksAtChance` where the rows cannot carry what is to be promised; the
        last two not with `anyway`.
        """
        model = WrappedEstimator(self.estimator)
        model.check()
        model.check_fitted()
        target, _ = target_of(y)
        X, target, groups = indexable(X, target, groups)
        rows = np.arange(len(target))
        return self._calibrate(
            self.estimator, X, target, groups, rows=rows, seed=self._seed(), counts=(sample_weight, clusters)
        )

    def _belonging(self, X: Any, clusters: Any, n: int) -> tuple[NDArray[np.intp] | None, int]:
        """Return the number of what each row belongs to, and how many rows repeat an input."""
        if self.equal_inputs not in ("together", "apart"):
            raise ValueError(f"equal_inputs is {self.equal_inputs!r}; it is 'together' or 'apart'")
        of_inputs = self.estimator is not None and self.equal_inputs == "together"
        return belonging_rows(clusters, inputs_of(X) if of_inputs else None, n)

    def _calibrate(
        self,
        estimator: Any,
        X: Any,
        target: NDArray[Any],
        groups: Any,
        *,
        rows: NDArray[np.intp],
        seed: int,
        counts: tuple[Any, Any] = (None, None),
        remarks: Sequence[str] = (),
        among: str = "",
    ) -> Self:
        model = WrappedEstimator(estimator)
        clusters, repeated = self._belonging(X, counts[1], len(target))
        plan = self._plan(model, model.classes, target, groups=groups, seed=seed, counts=(counts[0], clusters))
        labels = plan.labels
        output = model.output(X, plan.recipe.needs, n_labels=len(labels.classes), link=labels.link)
        _check_usable(output, rows)
        _check_labels_hold_together(output, plan.truth, labels.exclusive)
        fitted = fit_selector(
            plan.settings,
            plan.recipe,
            LabelledOutput(
                output=output,
                truth=plan.truth,
                exclusive=labels.exclusive,
                groups=plan.groups,
                weights=plan.weights,
                clusters=plan.clusters,
            ),
            report_share=self.report_share,
            seed=seed,
            anyway=self.anyway,
            remarks=[*remarks, *_remarks(clusters, repeated, together=self.equal_inputs == "together")],
            among=among,
        )
        self.estimator_ = estimator
        self.classes_ = labels.classes
        self.labels_ = labels
        self.selector_ = fitted.selector
        self.calibration_rows_ = rows
        self.report_rows_ = rows[fitted.held_out.positions]
        self._configured = plan.configured
        self._report = FitReport(name=model.name, fitted=fitted, labels=labels)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def _plan(
        self,
        model: WrappedEstimator,
        told: Any,
        target: NDArray[Any],
        *,
        groups: Any,
        seed: int,
        counts: tuple[Any, NDArray[np.intp] | None] = (None, None),
    ) -> "_Plan":
        """Check everything that can be checked before a model is trained or run. `told` are the classes that the
        estimator names, None for none. `counts` are the rows' weights and clusters."""
        share = fraction("report_share", self.report_share, open_low=True, open_high=True)
        labels = ClassLabels.of(classes_of(told, target, self.labels), exclusive=target.ndim == 1, labels=self.labels)
        _check_abstain_label(self.abstain_label, labels)
        settings, configured = EstimatorSettings(
            policy=self.policy,
            scores=self.scores,
            confidence=self.confidence,
            prediction_set=self.prediction_set,
            label_confidence=self.label_confidence,
            thresholds=self.thresholds,
        ).of(model, labels)
        plan = _Plan(
            labels=labels,
            settings=settings,
            configured=configured,
            recipe=selector_recipe(settings),
            truth=(truth := labels.truth(target)),
            groups=group_names(groups),
            weights=weights_of(counts[0], truth),
            clusters=counts[1],
        )
        if not self.anyway:
            names = None if plan.groups is None else plan.groups.tolist()
            beside: dict[str, Any] = {"weights": plan.weights, "clusters": plan.clusters}
            check_enough(settings, plan.recipe, truth, names, **beside, report_share=share, seed=seed)
        return plan

    def decide(self, X: Any, groups: Any = None) -> DecisionTable:
        """Return the action, its reason, the prediction, its confidence and its set for each row.

        What is said about a row does not depend on the other rows. A row for which the estimator gives no number is
        held, and so is one whose confidence is unknown.
        """
        output, names = self._output(X), group_names(groups)
        if names is not None:
            same_length(X=output, groups=names)
        judgement = self.selector_.decide(output, None if names is None else names.tolist())
        return DecisionTable(judgement=judgement, labels=self.labels_)

    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """Return the class of each answered row, and `abstain_label` for each row that is held.

        With an `abstain_label` of the type of the classes the array has a type that holds both. With None, and with any
        other, it is an array of objects: a metric that cannot compare None refuses it, rather than count what was held.
        In a multilabel task [n, labels] of 0 and 1 comes back, and a row that is held is filled with the label.
        """
        table = self.decide(X, groups)
        predicted = table.judgement.predicted
        chosen = self.classes_[predicted.argmax(axis=1)] if self.labels_.exclusive else predicted.astype(np.int64)
        answers = chosen.astype(_type_of_answers(chosen.dtype, self.abstain_label))
        answers[~table.answered] = self.abstain_label
        return answers

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities [n, C] that the estimator gives, as they are. They are not calibrated: `confidence`
        of `decide` is, and is about the predicted class alone."""
        return self._output(X).probabilities

    def predict_confidence(self, X: Any) -> Array:
        """Return the calibrated probability [n] that the prediction is right; NaN where it is unknown."""
        return self.decide(X).confidence

    def predict_set(self, X: Any, groups: Any = None) -> Mask:
        """Return [n, C], true for the classes that are not ruled out; without prediction sets, for what is
        predicted."""
        return self.decide(X, groups).judgement.members

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of all rows that are answered, and rightly: a row that is held counts as not right.

        The risk among the answers is `report()["selective_risk"]`, on rows that were not fitted on.
        """
        check_is_fitted(self, "selector_")
        target, exclusive = target_of(y)
        if exclusive is not self.labels_.exclusive:
            raise ValueError("y is not of the kind that this classifier was fitted on")
        table = self.decide(X)
        truth = self.labels_.truth(target)
        same_length(X=table, y=truth)
        right = table.answered & (table.judgement.predicted == truth).all(axis=1)
        return float(np.average(right, weights=sample_weight))

    def report(self) -> FitReport:
        """Return what the fit is worth, measured on rows that nothing was fitted on: the report of `demur fit`.

        The rows were kept apart before anything was fitted, but whoever chooses settings by this report has fitted
        them to its rows.
        """
        check_is_fitted(self, "selector_")
        return self._report

    def save(
        self, store: str | Path | ArtifactStore, *, model: str, identity: str | Path | Mapping[str, str] | ModelIdentity
    ) -> SavedArtifact:
        """Store an artifact for the `model` of a service, and return it. Nothing is put in force.

        `store` is the folder or URL under `artifacts` in the service's configuration. `identity` says what the service
        will run: the path of the model's file, or `given` where predictions are made elsewhere and sent to it.
        """
        check_is_fitted(self, "selector_")
        return save_artifact(
            self._report,
            store,
            model=model,
            identity=identity_of(identity, self.labels_.labels),
            configured=self._configured,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "selector_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _output(self, X: Any) -> Output:
        check_is_fitted(self, "selector_")
        return WrappedEstimator(self.estimator_).output(
            X, self.selector_.needs, n_labels=len(self.classes_), link=self.labels_.link
        )

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))


def _check_abstain_label(label: Any, labels: ClassLabels) -> None:
    """Raise `ValueError` where nobody could tell a held row from an answer."""
    taken = labels.classes.tolist() if labels.exclusive else [0, 1]
    if np.ndim(label):
        raise ValueError(f"abstain_label: {label!r} is several values; give one, such as None or -1")
    if label is not None and label in taken:
        raise ValueError(f"abstain_label: {label!r} is one of the classes; take another value")


def _remarks(clusters: NDArray[np.intp] | None, repeated: int, *, together: bool) -> list[str]:
    """What is to be said of rows that belong together."""
    if clusters is None:
        return []
    return [cluster_remark(len(clusters), len(np.unique(clusters)), repeated, together=together)]


def _check_usable(output: Output, rows: NDArray[np.intp]) -> None:
    """Raise `InvalidInput` where the estimator fails on rows that it is to be judged by."""
    if len(bad := rows[~output.usable()]):
        raise InvalidInput(
            f"the estimator gave {len(bad):,} of {len(rows):,} calibration rows an output that is not a number, the"
            f" first of them row {bad[0]}; mend it, or leave such rows out"
        )


def _check_labels_hold_together(output: Output, truth: Mask, exclusive: bool) -> None:
    """Raise `ValueError` for classes that exclude each other in columns of 0 and 1."""
    if exclusive or truth.shape[1] < 2 or not (truth.sum(axis=1) == 1).all():
        return
    if np.allclose(output.probabilities.sum(axis=1), 1, atol=1e-6):
        raise ValueError(
            "y has exactly one label in each row, and the probabilities of a row come to 1: these are classes; give"
            " them as [n], and not as columns of 0 and 1"
        )


def _type_of_answers(classes: np.dtype[Any], abstain_label: Any) -> np.dtype[Any]:
    """A type for classes and the label of what is held; objects where only these hold both."""
    label = np.asarray(abstain_label).dtype
    alike = (classes.kind in "iuf" and label.kind in "iuf") or (classes.kind == label.kind and classes.kind in "US")
    return np.result_type(classes, label) if alike else np.dtype(object)

"""Sets of labels that miss few of those that hold (conformal risk control), and a rule that acts on them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.policies.conformal_sets import Reads
from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.label_share import ShareOf
from demur.policies.limit import UNKNOWN
from demur.policies.missed_labels import check_share, fit_missed_share
from demur.policies.promise import LABELS_MISSING, ROWS_LABELS_MISSING, Promise, at_most_labels
from demur.policies.threshold import Otherwise
from demur.uncertainty.checks import Array, InvalidInput, Mask, whole_number


@dataclass(frozen=True, kw_only=True)
class LabelsAbove:
    """Every label whose probability reaches `limit`; with probabilities that are closed upwards in a label tree, the
    sets are closed as well."""

    alpha: float
    limit: float
    """0 rules out nothing: too few rows were fitted for another."""

    n: int
    keep_predicted: bool = True
    share_of: ShareOf = "rows"
    """What `alpha` is a share of; artifacts without this keep the mean over rows."""

    max_labels: int | None = None
    """The most labels that an input can have, where that was declared."""

    reads: ClassVar[Reads] = "probabilities"

    @property
    def promise_in_words(self) -> str:
        what = "of the right labels missed" if self.share_of == "labels" else "of a row's labels missed on average"
        return f"with at most {100 * self.alpha:g}% {what}"

    @property
    def promise(self) -> Promise:
        return Promise(
            share=LABELS_MISSING if self.share_of == "labels" else ROWS_LABELS_MISSING,
            target=self.alpha,
            delta=None,
            n=self.n,
            feasible=self.limit > 0,
            assumption=at_most_labels(self.max_labels),
        )

    def of(self, probabilities: Array, groups: Any = None) -> Mask:  # noqa: ARG002 - one limit for all groups
        """Return [n, L], True where the label is not ruled out; False where its probability is NaN."""
        return np.asarray(probabilities >= self.limit)


@dataclass(frozen=True, kw_only=True)
class MissedLabelSets:
    """`risk_control`: the highest limit at which at most a share `alpha` of the labels is missing from the sets.

    That is promised on average over fits (Angelopoulos et al. 2022; METHODS 10.4).
    """

    alpha: float = 0.1
    keep_predicted: bool = True
    share_of: ShareOf = "labels"
    """`labels`: of all labels that hold. `rows`: the mean over rows, of which one without labels misses nothing."""

    max_labels: int | None = None
    """The most labels that can hold for an input; by default all. Fewer labelled rows are needed if it is small."""

    reads: ClassVar[Reads] = "probabilities"
    delta: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_share(self.alpha, self.share_of, self.max_labels)

    def fit(self, probabilities: Any, truth: Any, groups: Any = None) -> LabelsAbove:  # noqa: ARG002
        found = fit_missed_share(probabilities, truth, self.alpha, self.share_of, self.max_labels)
        return LabelsAbove(
            alpha=self.alpha,
            limit=found.limit or 0.0,
            n=found.n,
            keep_predicted=self.keep_predicted,
            share_of=self.share_of,
            max_labels=self.max_labels,
        )


@dataclass(frozen=True, kw_only=True)
class MissedLabels:
    """`risk_control`: answer where at most `spare` labels besides the predicted ones cannot be ruled out.

    What the sets promise is said of all rows together, not of those that are answered.
    """

    spare: int = 0
    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    acts_on_sets: ClassVar[bool] = True
    promise: ClassVar[Promise | None] = None

    def __post_init__(self) -> None:
        whole_number("spare", self.spare)

    def fit(self, rows: GradedRows) -> "MissedLabels":  # noqa: ARG002 - the sets are fitted, not the rule
        return self

    def decide(self, assessed: Assessment) -> Decisions:
        more = assessed.more_labels
        if more is None:
            raise InvalidInput("the rule acts on prediction sets, and there are none")
        known = ~np.isnan(assessed.confidence)
        full = assessed.set_size >= assessed.n_labels  # such a set says nothing, however few its labels are
        return Decisions.where(
            known & ~full & (more <= self.spare),
            reasons=[
                self._reason(count, assessed.set_promise, all_of_them) if sure else UNKNOWN
                for count, sure, all_of_them in zip(more.tolist(), known.tolist(), full.tolist(), strict=True)
            ],
            otherwise=Action(self.otherwise),
        )

    def _reason(self, more: int, promise: str, full: bool) -> str:
        if full:
            return f"no label can be ruled out {promise}"
        labels = "no further label" if more == 0 else "1 further label" if more == 1 else f"{more} further labels"
        held = "" if more <= self.spare else f", and {self.spare or 'none'} may be left open"
        return f"{labels} cannot be ruled out {promise}{held}"

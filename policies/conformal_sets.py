"""Prediction sets that hold the right label with a chosen probability: a score of labels, and a table of quantiles.

The six kinds are three scores (`policies/set_scores.py`) times three tables (`policies/quantiles.py`):

| kind | score of a label | quantile |
|---|---|---|
| `split` | 1 - p | one |
| `class_conditional` | 1 - p | one for each label |
| `group_conditional` | 1 - p | one for each group |
| `adaptive` | probabilities summed from the top | one |
| `regularised` | the sum, and a penalty for each rank | one |
| `sampled` | the share of samples that do not name it | one |

With a `delta` the promise is one of this fit, except with that probability (METHODS 10.5). Without, it is one on
average over fits, and one fit in two misses more.

Of each kind there is a class as it is configured, and one of what was fitted, which is what artifacts hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from demur.policies.conformal import error_rate, labelled, right_labels
from demur.policies.promise import Promise
from demur.policies.quantiles import OneQuantile, QuantilePerGroup, QuantilePerLabel, Quantiles
from demur.policies.set_scores import OWN_SHARE, CumulativeProbability, ProbabilityComplement, SetScore, UnnamedShare
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    fraction,
    one_of,
    real_number,
    unit_interval,
    whole_number,
)

Reads = Literal["probabilities", "passes", "samples"]
"""What sets read of a model's output: its probabilities, or how often each label was named in passes of a classifier
with dropout left on, or in sampled replies of a language model."""

Source = Literal["passes", "samples"]

SLACK = 1e-6
"""How far the shares of a row may sum to more than 1."""


class ConformalSets:
    """The labels whose score is at most the quantile of the row."""

    @property
    def reads(self) -> Reads:
        return "probabilities"

    @property
    def score(self) -> SetScore:
        return ProbabilityComplement()

    @property
    def quantiles(self) -> Quantiles:
        raise NotImplementedError

    @property
    def promise(self) -> Promise:
        return self.quantiles.promise

    @property
    def promise_in_words(self) -> str:
        """At what error labels are ruled out, to follow words like `cannot be ruled out`."""
        return self.quantiles.promise_in_words

    def of(self, seen: Array, groups: Sequence[str | None] | None = None) -> Mask:
        """Return [n, C], True where the label is not ruled out. A row with NaN has an empty set."""
        scores = self.score.of(seen)
        return np.asarray(scores <= self.quantiles.limits(scores, groups) + self.score.slack)


@dataclass(frozen=True, kw_only=True)
class LabelSets(ConformalSets):
    """Fitted `split` sets: every label whose probability is at least 1 - qhat; none, where no label reaches that."""

    alpha: float
    qhat: float
    """+inf rules out nothing."""

    n: int = 0
    """Labelled rows that were fitted; 0 in artifacts from before this was noted."""

    keep_predicted: bool = True
    """Whether the predicted label is shown even where the set rules it out; the set can only miss less often then."""

    ranked: Array | None = field(default=None, compare=False)
    """[n], in order, 1 - p of the right label of each fitted row, from which sets at another level can be made; None in
    artifacts from before they were kept."""

    delta: float | None = None
    """Except with this probability the promise holds in this fit; None: on average over fits."""

    @property
    def quantiles(self) -> OneQuantile:
        return OneQuantile(alpha=self.alpha, qhat=self.qhat, n=self.n, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class ClassLimitSets(ConformalSets):
    """Fitted `class_conditional` sets: every label whose probability is at least 1 - its own quantile."""

    alpha: float
    qhats: Array
    n: int = 0
    keep_predicted: bool = True
    delta: float | None = None
    """Except with this probability the promise holds in this fit; None: on average over fits."""

    @property
    def quantiles(self) -> QuantilePerLabel:
        return QuantilePerLabel(alpha=self.alpha, qhats=self.qhats, n=self.n, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class GroupLimitSets(ConformalSets):
    """Fitted `group_conditional` sets: every label whose probability is at least 1 - the quantile of its group."""

    alpha: float
    groups: list[str]
    qhats: Array
    n: int
    keep_predicted: bool = True
    counts: list[int] | None = None
    """[g], fitted rows of each group; None in artifacts from before they were kept."""

    delta: float | None = None
    """Except with this probability the promise holds in this fit; None: on average over fits."""

    @property
    def quantiles(self) -> QuantilePerGroup:
        return QuantilePerGroup(
            alpha=self.alpha, groups=self.groups, qhats=self.qhats, n=self.n, counts=self.counts, delta=self.delta
        )


@dataclass(frozen=True, kw_only=True)
class CumulativeSets(ConformalSets):
    """Fitted `adaptive` and `regularised` sets: the most probable label, and every label whose score is at most qhat.

    A set has at least the most probable label, as in the papers, so the sets cover more than they must where the model
    is right more often than it must be.
    """

    alpha: float
    qhat: float
    penalty: float
    k_reg: int
    n: int = 0
    own_share: float = 1.0
    """1 in artifacts that do not say, whose sets are larger: the second label of a sure input then has about the score
    of the first, and has to be let in with it."""

    delta: float | None = None
    """Except with this probability the promise holds in this fit; None: on average over fits."""

    keep_predicted: ClassVar[bool] = True

    @property
    def score(self) -> CumulativeProbability:
        return CumulativeProbability(penalty=self.penalty, k_reg=self.k_reg, own_share=self.own_share)

    @property
    def quantiles(self) -> OneQuantile:
        return OneQuantile(alpha=self.alpha, qhat=self.qhat, n=self.n, delta=self.delta)

    def of(self, seen: Array, groups: Sequence[str | None] | None = None) -> Mask:
        members = super().of(seen, groups)
        members[np.arange(len(members)), seen.argmax(axis=1)] = True
        return members & ~np.isnan(seen).any(axis=1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class FrequencySets(ConformalSets):
    """Fitted `sampled` sets: every label that was named in a share of at least 1 - qhat of the samples; a qhat of 1
    rules out nothing."""

    alpha: float
    qhat: float
    n: int
    keep_predicted: bool = True
    source: Source = "passes"
    delta: float | None = None
    """Except with this probability the promise holds in this fit; None: on average over fits."""

    @property
    def reads(self) -> Reads:
        return self.source

    @property
    def score(self) -> UnnamedShare:
        return UnnamedShare()

    @property
    def quantiles(self) -> OneQuantile:
        return OneQuantile(alpha=self.alpha, qhat=self.qhat, n=self.n, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class SplitSets:
    """`split`: one quantile of 1 - p of the right label. The smallest sets on average, but those of hard inputs, or of
    rare labels, may miss more often than others."""

    alpha: float = 0.01
    keep_predicted: bool = True
    delta: float | None = None

    reads: ClassVar[Reads] = "probabilities"

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> LabelSets:  # noqa: ARG002
        rows, right = labelled(probabilities, classes)
        right_scores = of_right(ProbabilityComplement(), rows, right)
        found = OneQuantile.fit(right_scores, self.alpha, self.delta)
        return LabelSets(
            alpha=self.alpha,
            qhat=found.qhat,
            n=found.n,
            keep_predicted=self.keep_predicted,
            ranked=np.sort(right_scores),
            delta=self.delta,
        )


@dataclass(frozen=True, kw_only=True)
class ClassConditionalSets:
    """`class_conditional`: one quantile for each label. Rare labels are not paid for by frequent ones."""

    alpha: float = 0.01
    keep_predicted: bool = True
    delta: float | None = None

    reads: ClassVar[Reads] = "probabilities"

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> ClassLimitSets:  # noqa: ARG002
        rows, right = labelled(probabilities, classes)
        found = QuantilePerLabel.fit(
            of_right(ProbabilityComplement(), rows, right), right, rows.shape[1], self.alpha, self.delta
        )
        return ClassLimitSets(
            alpha=self.alpha, qhats=found.qhats, n=found.n, keep_predicted=self.keep_predicted, delta=self.delta
        )


@dataclass(frozen=True, kw_only=True)
class GroupConditionalSets:
    """`group_conditional`: one quantile for each `group` that requests and labelled rows name."""

    alpha: float = 0.01
    keep_predicted: bool = True
    delta: float | None = None

    reads: ClassVar[Reads] = "probabilities"

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)

    def fit(self, probabilities: Any, classes: Any, groups: Sequence[str | None] | None = None) -> GroupLimitSets:
        rows, right = labelled(probabilities, classes)
        found = QuantilePerGroup.fit(of_right(ProbabilityComplement(), rows, right), groups, self.alpha, self.delta)
        return GroupLimitSets(
            alpha=self.alpha,
            groups=found.groups,
            qhats=found.qhats,
            n=found.n,
            keep_predicted=self.keep_predicted,
            counts=list(found.counts or []),
            delta=self.delta,
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveSets:
    """`adaptive`: small sets for easy inputs, large ones for hard inputs, so that both are missed more alike."""

    alpha: float = 0.01
    delta: float | None = None

    reads: ClassVar[Reads] = "probabilities"

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> CumulativeSets:  # noqa: ARG002
        return _cumulative(CumulativeProbability(), probabilities, classes, self.alpha, self.delta)


@dataclass(frozen=True, kw_only=True)
class RegularisedSets:
    """`regularised`: adaptive sets in which each label beyond the first `k_reg` must be likelier by `penalty`.

    The promise holds for any `penalty` and `k_reg` that were chosen without the rows of the fit. With a penalty of 1
    or more the sets come close to being the k most probable labels, of one size for all inputs.
    """

    alpha: float = 0.01
    penalty: float = 0.2
    k_reg: int = 1
    delta: float | None = None

    reads: ClassVar[Reads] = "probabilities"

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)
        real_number("penalty", self.penalty, least=0)
        whole_number("k_reg", self.k_reg)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> CumulativeSets:  # noqa: ARG002
        score = CumulativeProbability(penalty=float(self.penalty), k_reg=self.k_reg)
        return _cumulative(score, probabilities, classes, self.alpha, self.delta)


@dataclass(frozen=True, kw_only=True)
class SampleFrequencySets:
    """`sampled`: one quantile of how often the right label was not named in repeated answers to one input."""

    alpha: float = 0.01
    keep_predicted: bool = True
    source: Source = "passes"
    """It is that of the host; nobody need write it."""

    delta: float | None = None

    def __post_init__(self) -> None:
        check_levels(self.alpha, self.delta)
        one_of("source", self.source, ("passes", "samples"))

    @property
    def reads(self) -> Reads:
        return self.source

    def fit(self, frequencies: Any, classes: Any, groups: Any = None) -> FrequencySets:  # noqa: ARG002
        """`frequencies` [n, C], whose rows fall short of 1 where answers could not be read, and classes [n]."""
        shares = unit_interval("frequencies", frequencies, ndim=2)
        if (shares.sum(axis=1) > 1 + SLACK).any():
            raise InvalidInput("frequencies are shares of one row's samples, and some rows sum to more than 1")
        found = OneQuantile.fit(of_right(UnnamedShare(), shares, right_labels(classes, shares)), self.alpha, self.delta)
        return FrequencySets(
            alpha=self.alpha,
            qhat=found.qhat,
            n=found.n,
            keep_predicted=self.keep_predicted,
            source=self.source,
            delta=self.delta,
        )


def check_levels(alpha: float, delta: float | None) -> None:
    """Raise `InvalidInput` unless both are probabilities; without a `delta` the promise is one on average over fits."""
    error_rate(alpha)
    if delta is not None:
        fraction("delta", real_number("delta", delta), open_low=True, open_high=True)


def of_right(score: SetScore, seen: Array, right: NDArray[np.intp]) -> Array:
    """Return [n], the score of the right label of each row."""
    return np.asarray(score.of(seen)[np.arange(len(seen)), right])


def _cumulative(
    score: CumulativeProbability, probabilities: Any, classes: Any, alpha: float, delta: float | None
) -> CumulativeSets:
    rows, right = labelled(probabilities, classes)
    found = OneQuantile.fit(of_right(score, rows, right), alpha, delta)
    return CumulativeSets(
        alpha=alpha,
        qhat=found.qhat,
        penalty=score.penalty,
        k_reg=score.k_reg,
        n=found.n,
        own_share=OWN_SHARE,
        delta=delta,
    )

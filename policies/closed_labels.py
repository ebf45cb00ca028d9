"""Predicted labels that bring their ancestors: with a limit for each label, a child may reach its own alone."""

from dataclasses import dataclass
from typing import Any, Protocol

from demur.policies.label_thresholds import LabelThresholds
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.label_tree import LabelTree


class LimitsRecipe(Protocol):
    """Limits as they are configured, before they have seen data."""

    @property
    def alpha(self) -> float | None:
        """The share of labels that may be missed; None where nothing is promised."""
        ...

    def fit(self, probabilities: Any, targets: Any) -> LabelThresholds: ...


@dataclass(frozen=True, kw_only=True)
class ClosedLabels:
    """Fitted limits under a tree."""

    limits: LabelThresholds
    tree: LabelTree

    @property
    def promise(self) -> Promise | None:
        return self.limits.promise

    def of(self, probabilities: Array) -> Mask:
        """Return [n, L], True where a label or one below it reaches its limit.

        Labels are only added, so of those that hold no more are missed than the limits alone would miss.
        """
        return self.tree.closed(self.limits.of(probabilities))


@dataclass(frozen=True, kw_only=True)
class ClosedLabelLimits:
    """`ClosedLabels` as they are configured. What they are fitted to must be closed under the tree already."""

    limits: LimitsRecipe
    tree: LabelTree

    @property
    def alpha(self) -> float | None:
        return self.limits.alpha

    def fit(self, probabilities: Any, targets: Any) -> ClosedLabels:
        return ClosedLabels(limits=self.limits.fit(probabilities, targets), tree=self.tree)

"""Answer where the prediction set rules out all labels but one."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.limit import UNKNOWN
from demur.policies.promise import Promise
from demur.policies.threshold import Otherwise
from demur.uncertainty.checks import one_of, whole_number


@dataclass(frozen=True, kw_only=True)
class SetSize:
    """`conformal`: answer where at most `answer_up_to` labels are not ruled out and the prediction is one of them.

    What the sets promise is said of all sets together. It says nothing about those that are small, and so nothing
    about the share of wrong answers: where the right label is missed, the set is often a small one.
    """

    answer_up_to: int = 1
    otherwise: Otherwise = "review"
    """What becomes of a larger set, or one without the prediction, or of an unknown output."""

    when_empty: Otherwise = "abstain"
    """Of a set that rules out every label: the input is like none that was fitted."""

    when_full: Otherwise = "abstain"
    """Of a set that rules out none, whatever `answer_up_to` is. In a binary task every set of two is one."""

    certifies: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    acts_on_sets: ClassVar[bool] = True
    promise: ClassVar[Promise | None] = None

    def __post_init__(self) -> None:
        whole_number("answer_up_to", self.answer_up_to, least=1)
        for name in ("otherwise", "when_empty", "when_full"):
            one_of(name, getattr(self, name), ("review", "abstain"))

    def fit(self, rows: GradedRows) -> "SetSize":  # noqa: ARG002 - the sets are fitted, not the rule
        return self

    def decide(self, assessed: Assessment) -> Decisions:
        known = ~np.isnan(assessed.confidence)
        rows = zip(known.tolist(), assessed.set_size.tolist(), assessed.in_set.tolist(), strict=True)
        judged = [
            self._judge(size, inside, assessed.n_labels, assessed.set_promise) if sure else (self.otherwise, UNKNOWN)
            for sure, size, inside in rows
        ]
        return Decisions(
            actions=tuple(Action(action) for action, _ in judged), reasons=tuple(reason for _, reason in judged)
        )

    def _judge(self, size: int, inside: bool, n_labels: int, promise: str) -> tuple[str, str]:
        if size == 0:
            return self.when_empty, f"all {n_labels} labels are ruled out {promise}"
        if size >= n_labels:
            return self.when_full, f"none of {n_labels} labels can be ruled out {promise}"
        labels = "1 label" if size == 1 else f"{size} labels"
        if not inside:
            return self.otherwise, f"{labels} cannot be ruled out {promise}, and the prediction is not among them"
        if size > self.answer_up_to:
            answered = "one is" if self.answer_up_to == 1 else f"up to {self.answer_up_to} are"
            return self.otherwise, f"{labels} cannot be ruled out {promise}, and {answered} answered"
        return "answer", f"{labels} cannot be ruled out {promise}, a promise about all sets and not about the answers"

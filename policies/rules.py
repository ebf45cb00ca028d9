"""The rules that can be configured: what is answered, given how sure the model is."""

from collections.abc import Callable
from typing import Protocol

from demur.policies.cheapest_label import CostLimit
from demur.policies.cost import ChowRule
from demur.policies.decision import Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.label_limits import GivenLabelLimits, LabelLimits
from demur.policies.missed_label_sets import MissedLabels
from demur.policies.promise import Promise
from demur.policies.rejection_rate import RankedLimit, RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.set_size import SetSize
from demur.policies.threshold import GivenLimit, PromisedScoreLimit, ScoreLimit, TargetRisk, Threshold


class Policy(Protocol):
    """A fitted rule."""

    @property
    def otherwise(self) -> str:
        """What becomes of what is not answered."""
        ...

    @property
    def promise(self) -> Promise | None:
        """What it promises of later traffic, or was to promise; None for most rules."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The scores that it looks at, beside the confidence."""
        ...

    def decide(self, assessed: Assessment) -> Decisions: ...


class PolicyRecipe(Protocol):
    """A rule as it is configured, before it has seen data."""

    @property
    def otherwise(self) -> str: ...

    @property
    def certifies(self) -> bool:
        """Whether it promises a risk from counted errors: then it must see rows that nothing else was fitted on."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """The scores that it looks at, beside the confidence."""
        ...

    @property
    def acts_on_sets(self) -> bool:
        """Whether it reads the size of the prediction set, and so cannot do without sets."""
        ...

    def fit(self, rows: GradedRows) -> Policy: ...


POLICIES: dict[str, Callable[..., PolicyRecipe]] = {
    "threshold": GivenLimit,
    "target_risk": TargetRisk,
    "rejection_rate": RejectionRate,
    "selective_risk": SelectiveRisk,
    "conformal": SetSize,
    "risk_control": MissedLabels,
    "cost": ChowRule,
}

FITTED_POLICIES = (
    Threshold,
    RankedLimit,
    ScoreLimit,
    PromisedScoreLimit,
    LabelLimits,
    SetSize,
    MissedLabels,
    CostLimit,
)
"""What an artifact may hold in the place of a policy."""

WITH_LABELS = {"threshold": ("labels", GivenLabelLimits), "cost": ("matrix", CostLimit)}
"""Rules that are other ones when this setting, which names labels, is given."""

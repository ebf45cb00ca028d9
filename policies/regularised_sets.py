"""Adaptive prediction sets without their long tail of unlikely labels (Angelopoulos et al. 2021, RAPS)."""

from dataclasses import dataclass
from typing import Any

from demur.policies.adaptive_sets import CumulativeSets, fit_cumulative
from demur.policies.conformal import error_rate
from demur.uncertainty.checks import real_number, whole_number


@dataclass(frozen=True, kw_only=True)
class RegularisedSets:
    """`regularised`: adaptive sets in which each label beyond the first `k_reg` must be likelier by `penalty`.

    The promise holds for any `penalty` and `k_reg` that were chosen without the rows of the fit. With a penalty of 1
    or more the sets come close to being the k most probable labels, of one size for all inputs.
    """

    alpha: float = 0.01
    penalty: float = 0.2
    k_reg: int = 1

    def __post_init__(self) -> None:
        error_rate(self.alpha)
        real_number("penalty", self.penalty, least=0)
        whole_number("k_reg", self.k_reg)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> CumulativeSets:  # noqa: ARG002
        return fit_cumulative(probabilities, classes, alpha=self.alpha, penalty=float(self.penalty), k_reg=self.k_reg)

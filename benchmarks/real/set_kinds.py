"""The prediction sets that are checked on real data, each as a function of a split."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.real.predictions import Index
from benchmarks.real.splits import Split
from demur.policies.conformal import conformal_quantile
from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    CumulativeSets,
    GroupConditionalSets,
    RegularisedSets,
    SampleFrequencySets,
    SplitSets,
)
from demur.policies.set_scores import CumulativeProbability
from demur.uncertainty.checks import Array, Mask

ALPHAS = (0.05, 0.1, 0.2)


@dataclass(frozen=True, kw_only=True, eq=False)
class SetCase:
    """`n` rows of one model that it was not trained on, each with one right label."""

    data: str
    probabilities: Array
    """[n, C]; what the sets are made of."""

    classes: Index
    """[n]"""

    together: Index
    """[n], rows of one number are never parted."""

    groups: Index | None = None
    """[n], known without the label."""

    kinds: tuple[str, ...] = ("split", "adaptive", "adaptive, as it was", "class-conditional", "group-conditional")


def split_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    fitted = SplitSets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit])
    return fitted.of(case.probabilities[part.test])


def adaptive_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    fitted = AdaptiveSets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit])
    return fitted.of(case.probabilities[part.test])


def wholly_adaptive_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    """Of artifacts that were fitted when all of a label's own probability was in its score."""
    p, truth = case.probabilities[part.fit], case.classes[part.fit]
    scores = CumulativeProbability(penalty=0.0, k_reg=0, own_share=1.0).of(p)[np.arange(len(p)), truth]
    fitted = CumulativeSets(alpha=alpha, qhat=conformal_quantile(scores, alpha), penalty=0.0, k_reg=0)
    return fitted.of(case.probabilities[part.test])


def weakly_regularised_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    """Each label after the fifth must be likelier by 0.01, as the paper does for a thousand labels."""
    recipe = RegularisedSets(alpha=alpha, penalty=0.01, k_reg=5)
    return recipe.fit(case.probabilities[part.fit], case.classes[part.fit]).of(case.probabilities[part.test])


def regularised_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    """With the penalty and the rank that are there unless others are configured."""
    fitted = RegularisedSets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit])
    return fitted.of(case.probabilities[part.test])


def class_conditional_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    fitted = ClassConditionalSets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit])
    return fitted.of(case.probabilities[part.test])


def group_conditional_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    assert case.groups is not None
    names = [f"group {number}" for number in case.groups.tolist()]
    fit, test = ([names[row] for row in rows.tolist()] for rows in (part.fit, part.test))
    fitted = GroupConditionalSets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit], fit)
    return fitted.of(case.probabilities[part.test], test)


def sampled_sets(case: SetCase, part: Split, alpha: float) -> Mask:
    """The probabilities are shares of the sampled answers."""
    fitted = SampleFrequencySets(alpha=alpha).fit(case.probabilities[part.fit], case.classes[part.fit])
    return fitted.of(case.probabilities[part.test])


KINDS: Mapping[str, Callable[[SetCase, Split, float], Mask]] = {
    "split": split_sets,
    "adaptive": adaptive_sets,
    "adaptive, as it was": wholly_adaptive_sets,
    "regularised, 0.01 from the sixth": weakly_regularised_sets,
    "regularised": regularised_sets,
    "class-conditional": class_conditional_sets,
    "group-conditional": group_conditional_sets,
    "sampled": sampled_sets,
}

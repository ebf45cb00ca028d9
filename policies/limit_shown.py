"""The limit of a rule as a confidence, for pictures: where on the scale the answers begin."""

import numpy as np

from demur.policies.all_of import Gated
from demur.policies.selector import Selector
from demur.policies.threshold import PromisedScoreLimit, ScoreLimit, Threshold
from demur.uncertainty.calibrators import OF_SCORES


def limit_as_confidence(selector: Selector) -> float | None:
    """Return the confidence in [0, 1] from which the rule answers, whatever gates stop before it.

    A limit on the score that the confidence is read from is put through the calibrator. None where the rule has no such
    limit: it looks at sets, costs or other scores, its calibrator looks at more than the score, or nothing is answered.
    """
    rule = selector.policy
    while isinstance(rule, Gated):
        rule = rule.rule
    if isinstance(rule, Threshold):
        return rule.limit if np.isfinite(rule.limit) else None
    if not isinstance(rule, ScoreLimit | PromisedScoreLimit) or rule.score != selector.confidence_score:
        return None
    if selector.calibrator.reads not in OF_SCORES or not np.isfinite(rule.limit):
        return None
    read = 1 - rule.limit if selector.calibrator.reads == "probability" else -rule.limit
    return float(selector.calibrator.confidence(np.array([read]))[0])

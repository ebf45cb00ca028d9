"""What a rule is shown, written short."""

import numpy as np

from demur.policies.decision import Assessment
from demur.policies.graded import GradedRows


def assessed(
    confidence,
    *,
    sizes=None,
    in_set=None,
    n_labels=3,
    set_promise="at 1% error",
    more_labels=None,
    label_confidence=None,
    expected_cost=None,
    **scores,
):
    """Rows of these confidences; unless given, one label of three is not ruled out, and it is the predicted one."""
    confidence = np.array(confidence, dtype=np.float64)
    n = len(confidence)
    return Assessment(
        confidence=confidence,
        scores={name: np.array(values, dtype=np.float64) for name, values in scores.items()},
        set_size=np.ones(n, dtype=np.intp) if sizes is None else np.array(sizes, dtype=np.intp),
        in_set=np.ones(n, dtype=bool) if in_set is None else np.array(in_set, dtype=bool),
        n_labels=n_labels,
        set_promise=set_promise,
        more_labels=None if more_labels is None else np.array(more_labels),
        label_confidence=label_confidence,
        expected_cost=None if expected_cost is None else np.array(expected_cost, dtype=np.float64),
    )


def graded(confidence, quality):
    """Rows of one model as a rule is fitted on them."""
    return GradedRows.of_one(np.array(confidence, dtype=np.float64), np.array(quality, dtype=np.float64))

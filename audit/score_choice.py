"""Which of several scores to trust: compared over the findings, and with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.correlation import benefit_z, kendall_tau_b
from audit.findings import Finding, Judged, scores_of
from audit.selective import thinned
from uncertainty.checks import Array

ROWS_FOR_TAU = 20_000
"""Pairs of scores are compared on at most so many rows, evenly spaced in time."""

BETTER = {"auroc": "higher", "au_prc": "higher", "prr": "higher", "rc_auc": "lower", "ti_95": "higher"}
"""The findings by which scores are compared, and which way is better."""


@dataclass(frozen=True, kw_only=True)
class ScoreChoice:
    """The scores, best first, and how far they agree."""

    names: tuple[str, ...]
    benefit: Mapping[str, float]
    """Mean over the findings of how many standard deviations a score is better than the scores on average (PRED 4.2).
    """

    tau: Array
    """[s, s], Kendall's tau-b between scores in the order of `names`; NaN where one is constant."""

    n_tau: int

    def as_json(self) -> dict[str, Any]:
        return {
            "best_first": [{"score": name, "benefit": self.benefit[name]} for name in self.names],
            "compared_by": BETTER,
            "kendall_tau_b": {
                "n": self.n_tau,
                "matrix": [[None if np.isnan(value) else value for value in row] for row in self.tau.tolist()],
            },
        }


def choose(rows: Judged, lines: Sequence[Finding]) -> ScoreChoice:
    """Compare every recorded score and the confidence by what was found about them."""
    scores = scores_of(rows)
    benefit = _benefit(list(scores), {line.name: line.value for line in lines})
    names = tuple(sorted(scores, key=lambda name: -benefit[name]))
    shown = thinned(len(rows), ROWS_FOR_TAU)
    tau = np.ones((len(names), len(names)))
    for i, first in enumerate(names):
        for j in range(i):
            tau[i, j] = tau[j, i] = kendall_tau_b(scores[first][shown], scores[names[j]][shown]).tau
    return ScoreChoice(names=names, benefit=benefit, tau=tau, n_tau=len(shown))


def _benefit(names: Sequence[str], values: Mapping[str, float | None]) -> dict[str, float]:
    columns = {metric: [values.get(f"{metric}.{name}") for name in names] for metric in BETTER}
    defined = {metric: column for metric, column in columns.items() if None not in column}
    if not defined:
        return dict.fromkeys(names, 0.0)
    z = benefit_z(defined, {metric: BETTER[metric] for metric in defined})
    return dict(zip(names, np.mean(list(z.values()), axis=0).tolist(), strict=True))

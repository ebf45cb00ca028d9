"""Which rows calibrate and which are measured: rows of one group are on one side."""

from dataclasses import dataclass

import numpy as np

from benchmarks.real.predictions import Index, Predictions

SEED = 20261121
TIMES = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    fit: Index
    test: Index


def splits(predictions: Predictions, *, times: int = TIMES, seed: int = SEED) -> list[Split]:
    """Each fold against the others, where there are folds; else `times` random halves of the groups."""
    groups, folds = predictions.groups, predictions.folds
    if folds is not None:
        return [_apart(groups, np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
    return halves(groups, times=times, seed=seed)


def halves(groups: Index, *, times: int, seed: int = SEED) -> list[Split]:
    """`times` random halves of the distinct `groups` [n]."""
    names = np.unique(groups)
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(names)[: len(names) // 2] for _ in range(times)]
    return [_apart(groups, np.flatnonzero(np.isin(groups, half))) for half in chosen]


def _apart(groups: Index, test: Index) -> Split:
    """All rows calibrate that share no group with `test`."""
    return Split(fit=np.flatnonzero(~np.isin(groups, groups[test])), test=test)

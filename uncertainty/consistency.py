"""How far several sampled label sets for one input disagree (MADE A.4; Lin et al. 2024, U_EigV)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite, same_length
from demur.uncertainty.label_sets import label_set


def eigv_laplacian_jaccard(samples: Any) -> float:
    """Effective number of different answers among `samples`, n label sets: 1 if all are equal, n if all are disjoint.

    It is sum_k max(0, 1 - lambda_k) over the eigenvalues of L = I - D^-1/2 W D^-1/2, where W_ij is the Jaccard
    similarity (1 for two empty sets, which are the same prediction) and D its row sums, diagonal included. The sum
    of the eigenvalues themselves, of which MADE's text speaks, would fall with disagreement.
    """
    similarity = _jaccard(samples)
    degree = similarity.sum(axis=1)
    laplacian = np.eye(len(degree)) - similarity / np.sqrt(np.outer(degree, degree))
    return float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())


def combined(u_info: Any, u_cons: Any) -> Array:
    """U_info * U_cons for each row [n], on raw values: unsure of each answer, and answering differently."""
    info, cons = finite("u_info", u_info), finite("u_cons", u_cons)
    same_length(u_info=info, u_cons=cons)
    with np.errstate(over="ignore"):
        return info * cons


def _jaccard(samples: Any) -> Array:
    """[n, n], intersection over union."""
    if not isinstance(samples, Sequence) or isinstance(samples, str) or len(samples) == 0:
        raise InvalidInput("samples is no list of label sets, or is empty")
    sets = [label_set("samples", sample) for sample in samples]
    labels = list(frozenset().union(*sets))
    member = np.array([[label in chosen for label in labels] for chosen in sets], dtype=np.float64)
    shared = member @ member.T
    sizes = np.diag(shared)
    union = sizes[:, None] + sizes - shared
    return np.divide(shared, union, out=np.ones_like(shared), where=union > 0)

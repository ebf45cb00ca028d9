"""Rows whose inputs are equal, among those that an estimator takes."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from demur.calibration_store.clusters import input_digests, merge_duplicates
from demur.library.given_rows import group_names
from demur.uncertainty.checks import same_length


def inputs_of(X: Any) -> list[Any] | None:
    """Return [n], equal where the inputs of rows are: of arrays, sparse matrices, data frames and lists.

    None where the rows cannot be told from outside, as those of an object of another kind.
    """
    if sparse.issparse(X):
        return _of_sparse(X)
    if isinstance(X, list | tuple) and any(isinstance(one, str) for one in X):
        return input_digests(X)  # as an array each text would take the room of the longest
    try:
        array = np.asarray(X)
    except (TypeError, ValueError, RuntimeError):  # rows of several lengths, or a tensor on a GPU
        return input_digests(X) if isinstance(X, list | tuple) else None
    if array.ndim == 0 or array.size == 0:
        return None
    if array.dtype.kind not in "biufc":
        return input_digests([one.tolist() if isinstance(one, np.ndarray) else one for one in array])
    rows = np.ascontiguousarray(array.reshape(len(array), -1) + np.zeros((), dtype=array.dtype))  # -0.0 becomes 0.0
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    return [int(number) for number in np.unique(whole, return_inverse=True)[1].ravel()]


def _of_sparse(X: Any) -> list[Any]:
    rows = sparse.csr_matrix(X)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    ends = rows.indptr
    return input_digests(
        [[rows.indices[start:end].tolist(), rows.data[start:end].tolist()] for start, end in itertools.pairwise(ends)]
    )


def belonging_rows(given: Any, inputs: list[Any] | None, n: int) -> tuple[NDArray[np.intp] | None, int]:
    """Return the number of what each row belongs to, [n], and how many rows repeat the input of another.

    `given` are names, None for a row by itself. None comes back where every row stands alone.
    """
    names = group_names(given)
    if names is None and inputs is None:
        return None, 0
    if names is not None:
        same_length(clusters=names, y=np.empty(n))
    repeated = 0 if inputs is None else len(inputs) - len(set(inputs))
    named = [None] * n if names is None else names.tolist()
    numbers = np.array(merge_duplicates(named, inputs or [None] * n), dtype=np.intp)
    return (numbers if len(np.unique(numbers)) < n else None), repeated

"""Labels that imply others: a code in a hierarchy brings its ancestors with it (Agarwal et al., MADE, section 2).

`parents` maps a label to the labels right above it; there may be several, and a label without an entry has none.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from demur.uncertainty.checks import InvalidInput, fraction, real_number
from demur.uncertainty.label_tree import LabelTree

Parents = Mapping[Any, Iterable[Any]]

IMDRF_CODE = re.compile(r"[A-Z][0-9]{2}(?:[0-9]{2}){0,2}", re.IGNORECASE | re.ASCII)


def ancestors(parents: Parents) -> dict[Any, frozenset[Any]]:
    """Return everything above each label that `parents` mentions; raise if a label is above itself."""
    if not isinstance(parents, Mapping):
        raise InvalidInput("parents is not a mapping from a label to the list of its parents")
    above = {label: _labels(f"the parents of {label!r}", directly) for label, directly in parents.items()}
    try:
        top_down = list(TopologicalSorter(above).static_order())
    except CycleError as error:
        raise InvalidInput(f"parents go round in a circle: {' - '.join(map(str, error.args[1]))}") from None
    known: dict[Any, frozenset[Any]] = {}
    for label in top_down:
        directly = above.get(label, [])
        known[label] = frozenset(directly).union(*(known[parent] for parent in directly))
    return known


def up_propagate_labels(labels: Iterable[Any], parents: Parents) -> list[Any]:
    """Return the `labels`, which may be none, with all their ancestors, each once and sorted."""
    own, above = _labels("labels", labels), ancestors(parents)
    try:
        return sorted(frozenset(own).union(*(above.get(label, ()) for label in own)))
    except TypeError as error:
        raise InvalidInput(f"labels and parents cannot be put in one order: {error}") from None


def up_propagate_probs(probs: Mapping[Any, float], parents: Parents) -> dict[Any, float]:
    """Return for every label the largest probability of itself and all labels below it.

    Ancestors without a probability of their own get one; a label of which nothing is known stays out. Afterwards no
    label is more probable than its parents, so predicting above one common limit never breaks the hierarchy.
    """
    if not isinstance(probs, Mapping):
        raise InvalidInput("probs is not a mapping from a label to its probability")
    above = ancestors(parents)
    largest = {label: fraction(str(label), real_number(str(label), p)) for label, p in probs.items()}
    for label, p in probs.items():
        for ancestor in above.get(label, ()):
            largest[ancestor] = max(largest.get(ancestor, 0.0), float(p))
    return largest


def imdrf_ancestors(code: str) -> list[str]:
    """Return the codes above an IMDRF code, which is a letter and 2, 4 or 6 digits: A04 and A0405 for A040507."""
    if not isinstance(code, str) or IMDRF_CODE.fullmatch(code) is None:
        raise InvalidInput(f"code is {code!r}; an IMDRF code is a letter and 2, 4 or 6 digits")
    return [code[:length] for length in (3, 5) if length < len(code)]


def imdrf_parents(codes: Iterable[str]) -> dict[str, list[str]]:
    """Return `Parents` of IMDRF codes and of all codes above them."""
    ways = ([*imdrf_ancestors(code), code] for code in codes)
    return {lower: [upper] for way in ways for upper, lower in pairwise(way)}


def tree_over(outputs: Sequence[str], parents: Parents) -> tuple[tuple[str, ...], LabelTree]:
    """Return all labels, which are the `outputs` of a model and then what else lies above them, and their tree.

    Everything in `parents` must be one of these: a label that is not would be one with its name misspelt.
    """
    above = ancestors(parents)
    higher = frozenset[str]().union(*(above.get(label, ()) for label in outputs)).difference(outputs)
    labels = (*outputs, *sorted(higher))
    index = {label: position for position, label in enumerate(labels)}
    if unknown := sorted(map(str, above.keys() - index.keys())):
        raise InvalidInput(f"neither labels nor above one: {', '.join(unknown[:10])}; take them out of the tree")
    links = [(index[child], index[parent]) for child, directly in parents.items() for parent in directly]
    children, uppers = np.array(links, dtype=np.float64).reshape(-1, 2).T
    return labels, LabelTree(width=len(labels), children=children, parents=uppers)


def _labels(name: str, labels: Any) -> list[Any]:
    if isinstance(labels, str | Mapping) or not isinstance(labels, Iterable):
        raise InvalidInput(f"{name} is not a list of labels")
    listed = list(labels)
    for label in listed:
        if not isinstance(label, Hashable):
            raise InvalidInput(f"{name} holds {label!r}, which cannot name a label")
    return listed

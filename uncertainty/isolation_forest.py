"""How few random cuts set an embedding apart from the fitted ones (Liu, Ting & Zhou 2008)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, InvalidInput, finite, real_number, whole_number
from demur.uncertainty.output import LabelledOutput, Need, Output

EULER = 0.5772156649015329
LEAF = -1.0


def isolation_c(n: int) -> float:
    """Mean depth of an unsuccessful search in a binary search tree of `n` points; 0 below 2 points."""
    whole_number("n", n, least=0)
    return float(_search_depths(np.array([n]))[0])


@dataclass(frozen=True, kw_only=True)
class IsolationTrees:
    """2 ** -(mean path length / expected path length), in (0, 1]: higher is easier to isolate, so stranger.

    All trees lie one behind the other in arrays of one length M, as numbers that an artifact can hold.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    roots: Array
    """[trees], where each tree begins."""

    feature: Array
    """[M], which feature a node cuts; -1 at a leaf."""

    threshold: Array
    """[M]; a row goes left iff its feature is at or below it."""

    left: Array
    right: Array
    """[M], the place of each child."""

    size: Array
    """[M], fitted points in a leaf."""

    subsample_size: int
    """Points that each tree was grown on, 2 or more."""

    def __post_init__(self) -> None:
        whole_number("subsample_size", self.subsample_size, least=2)

    def of(self, output: Output) -> Array:
        return self.score(output.needed("embedding"))

    def score(self, features: Any) -> Array:
        """[n] for `features` [n, d]: every row walks down every tree, one level at a time."""
        rows = finite("features", features, ndim=2)
        feature = self.feature.astype(np.intp)
        if feature.max() >= rows.shape[1]:
            raise InvalidInput(f"features have {rows.shape[1]} dimensions; a tree cuts number {feature.max()}")
        children = np.stack([self.right, self.left]).astype(np.intp)
        at = np.tile(self.roots.astype(np.intp), (len(rows), 1))  # [n, trees]
        depth = np.zeros(at.shape)
        while (walking := feature[at] >= 0).any():
            row, _ = np.nonzero(walking)
            here = at[walking]
            goes_left = rows[row, feature[here]] <= self.threshold[here]
            at[walking] = children[goes_left.astype(np.intp), here]
            depth[walking] += 1
        path = depth + _search_depths(self.size)[at]
        return np.asarray(2.0 ** (-path.mean(axis=1) / isolation_c(self.subsample_size)))


@dataclass(frozen=True, kw_only=True)
class IsolationForest:
    """The score as it is configured. Growing the trees is random; `seed` fixes it."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    trees: int = 100
    subsample_size: int = 256
    """Points for each tree, at most all."""

    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("trees", self.trees, least=1)
        whole_number("subsample_size", self.subsample_size, least=2)
        whole_number("seed", self.seed, least=0)

    def fit(self, rows: LabelledOutput, quality: Array) -> IsolationTrees:  # noqa: ARG002 - labels play no part
        return fit_isolation_forest(
            rows.output.needed("embedding"), trees=self.trees, subsample_size=self.subsample_size, seed=self.seed
        )


def fit_isolation_forest(
    features: Any, *, trees: int = 100, subsample_size: int = 256, seed: int = 0
) -> IsolationTrees:
    """Grow trees on `features` [N, d] with scikit-learn, and keep their nodes as arrays."""
    from sklearn.ensemble import IsolationForest as Forest  # here, because only a fit needs it, and it loads slowly

    points = finite("train_features", features, ndim=2)
    whole_number("trees", trees, least=1)
    whole_number("subsample_size", subsample_size, least=2)
    if len(points) < 2:
        raise InvalidInput("an isolation forest needs at least 2 fitted rows")
    psi = min(subsample_size, len(points))
    forest = Forest(n_estimators=trees, max_samples=psi, random_state=seed).fit(points)
    nodes: dict[str, list[Array]] = {name: [] for name in ("feature", "threshold", "left", "right", "size")}
    roots = []
    start = 0
    for grown in forest.estimators_:
        tree = grown.tree_
        is_leaf = tree.children_left < 0
        roots.append(start)
        nodes["feature"].append(np.where(is_leaf, LEAF, tree.feature))
        nodes["threshold"].append(np.where(is_leaf, 0.0, tree.threshold))
        nodes["left"].append(tree.children_left + start)
        nodes["right"].append(tree.children_right + start)
        nodes["size"].append(tree.n_node_samples)
        start += tree.node_count
    arrays = {name: np.concatenate(parts).astype(np.float64) for name, parts in nodes.items()}
    return IsolationTrees(roots=np.array(roots, dtype=np.float64), **arrays, subsample_size=psi)


def trees_from(nested: Sequence[Mapping[str, Any]], subsample_size: int) -> IsolationTrees:
    """Take trees that are given as nested nodes: {feature, threshold, left, right}, or {size} at a leaf."""
    if isinstance(nested, str | bytes | Mapping) or not isinstance(nested, Sequence) or not nested:
        raise InvalidInput("trees is no list of trees, or an empty one")
    rows: list[list[float]] = []

    def add(node: Mapping[str, Any]) -> int:
        if not isinstance(node, Mapping):
            raise InvalidInput(f"a node of a tree is {node!r}")
        place = len(rows)
        if "size" in node:
            rows.append([LEAF, 0, place, place, whole_number("size of a leaf", node["size"], least=0)])
            return place
        try:
            feature, threshold, left, right = (node[key] for key in ("feature", "threshold", "left", "right"))
        except KeyError as missing:
            raise InvalidInput(f"a node of a tree lacks {missing}") from None
        rows.append([])
        cut = real_number("threshold", threshold)
        rows[place] = [whole_number("feature", feature, least=0), cut, add(left), add(right), 0]
        return place

    roots = [add(tree) for tree in nested]
    feature, threshold, left, right, size = np.array(rows, dtype=np.float64).T
    return IsolationTrees(
        roots=np.array(roots, dtype=np.float64),
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        size=size,
        subsample_size=subsample_size,
    )


def _search_depths(n: NDArray[Any]) -> Array:
    n = np.asarray(n, dtype=np.float64)
    many = np.maximum(n, 3)
    depths = 2 * (np.log(many - 1) + EULER) - 2 * (many - 1) / many
    return np.where(n > 2, depths, np.where(n == 2, 1.0, 0.0))

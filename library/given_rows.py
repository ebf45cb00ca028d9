"""Rows as somebody gives them: which are trained on, how much each counts, and where each comes from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.calibration_store.rows_apart import TooFewRows, split
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, same_length

MOST_MOVED = 0.01
"""A larger share of the rows to calibrate on may not go to training for their class: a promise would not see them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsForTraining:
    """Positions of the rows that a model is trained on and of those that it is calibrated on."""

    trained: NDArray[np.intp]
    calibrated: NDArray[np.intp]
    moved: int = 0
    """Rows, or clusters of them, that were drawn to calibrate on and are trained on for their class."""

    drawn: int = 0
    """All that were drawn to calibrate on."""

    classes: int = 0
    """All that rows are labelled with, where each row has one."""

    classes_left_out: int = 0
    """Those of them that the moved rows have: no row to calibrate on has one of these."""

    def check(self) -> None:
        """Raise `TooFewRows` where the rows that are left to calibrate on are unlike the traffic."""
        if self.moved > MOST_MOVED * self.drawn:
            raise TooFewRows(
                f"{self._moved}. {self.moved / self.drawn:.1%} of the traffic would be unseen by what is promised or"
                f" reported, and {MOST_MOVED:.0%} is the most. Label more rows of rare classes or join them to one"
            )

    @property
    def remarks(self) -> list[str]:
        """What is to be said of rows that were moved."""
        if not self.moved:
            return []
        return [f"{self._moved}: nothing that is promised or reported is about rows like these"]

    @property
    def among(self) -> str:
        """Which inputs the rows to calibrate on are drawn from, in words of a promise; empty: all that come."""
        if not self.moved:
            return ""
        kept = self.classes - self.classes_left_out
        return f"whose label is one of {kept:,} of the {self.classes:,} classes (the others have too few labelled rows)"

    @property
    def _moved(self) -> str:
        return (
            f"{self.moved:,} of {self.drawn:,} rows drawn to calibrate on have a class that no other row to train on"
            " has, and are trained on"
        )


def trained_and_calibrated(
    target: NDArray[Any],
    exclusive: bool,
    share: float,
    rng: np.random.Generator,
    clusters: NDArray[np.intp] | None = None,
) -> RowsForTraining:
    """Draw a random `share` of the rows to calibrate on, and train on the others; all rows of a cluster stay together.

    Of a class that none would be trained on, all rows are: a model cannot predict what it has not seen. Those to
    calibrate on are then a plain sample of the inputs of the other classes, and no promise is about more: where many
    rows are moved, errors are missing.
    """
    owners = np.arange(len(target)) if clusters is None else clusters
    drawn, _ = split(np.unique(owners), share, rng)
    calibrated = np.isin(owners, drawn)
    unseen = np.zeros(len(target), dtype=bool)
    names = np.unique(target) if exclusive else np.zeros(0)
    if exclusive:
        unseen = ~np.isin(target, target[~calibrated])
        calibrated &= ~np.isin(owners, owners[unseen])
    return RowsForTraining(
        trained=np.flatnonzero(~calibrated),
        calibrated=np.flatnonzero(calibrated),
        moved=len(np.unique(owners[unseen])),
        drawn=len(drawn),
        classes=len(names),
        classes_left_out=len(np.unique(target[unseen])),
    )


def weights_of(given: Any, truth: Mask) -> Array | None:
    """[n], positive numbers; None where every row stands for itself alone."""
    if given is None:
        return None
    weights = finite("sample_weight", given)
    same_length(sample_weight=weights, y=truth)
    if weights.min() <= 0:
        raise InvalidInput("sample_weight has a value that is not above 0; leave such rows out")
    return weights


def group_names(groups: Any) -> NDArray[np.object_] | None:
    """[n], where each row comes from, as text; None for nowhere, and None where no row tells."""
    if groups is None:
        return None
    return np.array([None if _is_nothing(one) else str(one) for one in np.asarray(groups).tolist()], dtype=object)


def _is_nothing(group: Any) -> bool:
    return group is None or (isinstance(group, float) and np.isnan(group))

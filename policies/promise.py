"""What an artifact states about traffic that it has not seen, and what must be true for it to hold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

SAME_TRAFFIC = "later traffic is drawn like the calibration data"

MOVED_INPUTS = (
    "only the inputs have changed between the labelled rows and the traffic that they were weighted for, and the"
    " weights, which are estimated, are right"
)
"""What is assumed where rows stand for other traffic than their own (METHODS 10.12). It takes labels to test it."""

ANSWERS_WRONG = "of the answers are wrong"
ANSWERS_LACK = "of an answer is wrong on average (1 - the Jaccard similarity of its labels and the right ones)"
"""Shares of the answers: wrong ones, and how much of each is."""

AMONG = "among inputs"
"""In the sentence of a promise that is not about all inputs, before which ones it is about."""

OF_ANSWERS = (ANSWERS_WRONG, ANSWERS_LACK)
"""What a promise about the answers may be of. Which one it is hangs on `confidence.right`, and so does the loss."""

LABELS_MISSING = "of all labels that hold are missing from their sets"
LABELS_NOT_PREDICTED = "of all labels that hold are not predicted"
ROWS_LABELS_MISSING = "of a row's labels are missing from its set (a row without labels misses nothing)"
ROWS_LABELS_NOT_PREDICTED = "of a row's labels are not predicted (a row without labels misses nothing)"
"""Two shares of labels, over all labels or as a mean over rows: METHODS 10.4."""

SAID_BEFORE = {
    "of the labels that hold are missing from the set": ROWS_LABELS_MISSING,
    "of the labels that hold are not predicted": ROWS_LABELS_NOT_PREDICTED,
}
"""What artifacts said that keep the mean over rows, and what is true of them."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A share that is kept small, and how surely."""

    share: str
    """Of what, in words that follow a percentage: `of the answers are wrong`."""

    target: float
    """The share is at most this."""

    delta: float | None
    """How probable it was, before the calibration rows were drawn, that the promise would be broken. None: it holds on
    average over such draws, and over the rows that come, which is less."""

    n: int
    """Labelled rows that it rests on."""

    errors: int | None = None
    """Of those that would be answered, the wrong ones; None where nothing is counted."""

    bound: float | None = None
    """The upper bound of the share that these rows leave; None where there is none."""

    feasible: bool = True
    """False: the rows cannot carry it, and nothing is promised."""

    assumption: str = SAME_TRAFFIC

    among: str = ""
    """Which inputs it is about, in words that follow `among inputs`; empty: all that come."""

    n_of: Mapping[str, int] | None = None
    """The number of labelled rows of each group, where the promise is about groups; else None."""

    @property
    def statement(self) -> str:
        """The promise as a sentence."""
        if not self.feasible:
            return f"nothing is promised: {self.n:,} labelled rows cannot show that at most {self._what}"
        surely = "on average" if self.delta is None else f"except with probability {100 * self.delta:g}%"
        return f"at most {self._what}, {surely}, as long as {self.assumption}"

    @property
    def _what(self) -> str:
        return f"{100 * self.target:g}% {self.share}{f', {AMONG} {self.among}' if self.among else ''}"


def among_labels(promise: Promise, among: str) -> Promise:
    """Return the promise of rows from which those with some labels were left out: it says nothing of such inputs."""
    return replace(promise, among=among) if among else promise


ONE_ROW_OF_EACH = "one row of each"
"""In the sentence of a promise that counts clusters, and not rows."""

OF_CLUSTERS = (
    "later clusters, such as patients or inputs, are drawn like those of the calibration data, and"
    f" {ONE_ROW_OF_EACH} at random"
)


def of_clusters(promise: Promise) -> Promise:
    """Return the promise of rows of which some belong together: it counts one row of each cluster (METHODS 10.8)."""
    said = promise.assumption
    if SAME_TRAFFIC in said:
        return replace(promise, assumption=said.replace(SAME_TRAFFIC, OF_CLUSTERS))
    return replace(promise, assumption=f"{said}, {ONE_ROW_OF_EACH} cluster at random")


def at_most_labels(max_labels: int | None) -> str:
    """Return what must be true of later traffic, with the number of labels that was declared."""
    return SAME_TRAFFIC if max_labels is None else f"{SAME_TRAFFIC} and no input has more than {max_labels} labels"


def as_it_holds(promise: Mapping[str, Any]) -> dict[str, Any]:
    """Return a promise of a manifest with the sentence that is true of it.

    Older artifacts named the share of all labels, and keep the mean over rows.
    """
    share = promise.get("share")
    if not isinstance(share, str) or share not in SAID_BEFORE:
        return dict(promise)
    now = SAID_BEFORE[share]
    return {**promise, "share": now, "statement": str(promise.get("statement", "")).replace(share, now)}

"""Every record of one model in a range of time, as columns: labelled or not, for only all of them say what the labelled
ones stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, Mask

NONE = -1
"""The code of a text that is not there."""

ACTIONS = ("answer", "review", "abstain")
ANSWER, REVIEW, ABSTAIN = range(3)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedColumn:
    """[n], a text for each row as its place among `names`, or `NONE`."""

    names: tuple[str, ...]
    """In order of the alphabet, so that the same rows always have the same codes; actions in that of `ACTIONS`."""

    codes: NDArray[np.int32]

    def __getitem__(self, rows: NDArray[np.intp] | Mask | slice) -> "CodedColumn":
        return CodedColumn(names=self.names, codes=self.codes[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class TopColumns:
    """The most probable labels of each row, where labels do not exclude each other: [n, k] each, NaN behind the last
    label of a row that names fewer."""

    probabilities: Array
    calibrated: Array
    hits: Array
    """1 where the label holds, 0 where it does not, NaN without an outcome."""

    right: Array
    """[n], how many labels hold, named or not; NaN without an outcome, and where the model said nothing."""

    def __getitem__(self, rows: NDArray[np.intp]) -> "TopColumns":
        return TopColumns(
            probabilities=self.probabilities[rows],
            calibrated=self.calibrated[rows],
            hits=self.hits[rows],
            right=self.right[rows],
        )


UNLOGGED = -1.0
"""In the place of a probability: a record keeps those of the most probable labels alone, and this is none of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mentions:
    """[m], each label that is predicted or right in a row with an outcome, where labels do not exclude each other; in
    order of the rows."""

    rows: NDArray[np.intp]
    """The position of the row in the ledger."""

    labels: CodedColumn
    predicted: Mask
    right: Mask
    probability: Array
    """What the model gave to the label; UNLOGGED where it is not among the labels on record."""

    def of(self, rows: NDArray[np.intp], n: int) -> "Mentions":
        """Return those of some of `n` rows, no row twice: `rows[i]` is the i-th of them."""
        place = np.full(n, NONE, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        now = place[self.rows]
        order = np.argsort(now, kind="stable")
        order = order[now[order] != NONE]
        return Mentions(
            rows=now[order],
            labels=self.labels[order],
            predicted=self.predicted[order],
            right=self.right[order],
            probability=self.probability[order],
        )


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Which records a ledger holds, and as they were known when."""

    model: str
    since: datetime
    """The first moment of the range."""

    until: datetime
    """The first moment that is not in it."""

    as_of: datetime
    """Nothing that became known later is in it: neither outcomes nor ended cases."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger:
    """`n` records in order of time, and of ids among those of one moment."""

    extent: Extent

    ids: pa.Array
    """[n], fixed_size_binary(16)."""

    times: NDArray[np.datetime64]
    """[n], datetime64[us], UTC."""

    actions: CodedColumn
    artifacts: CodedColumn
    groups: CodedColumn
    clusters: CodedColumn
    """Records with the same one depend on each other, as those of one patient do; without one a record is by itself."""

    predicted: CodedColumn | None
    true: CodedColumn | None
    """The predicted label and the right one, in one alphabet. None, both, where labels do not exclude each other."""

    true_probability: Array | None
    """What the model itself gave to the right label: UNLOGGED where that is not among the labels on record, NaN without
    an outcome. None where labels do not exclude each other."""

    quality: Array
    """[n], how right the prediction was: 0 or 1, or a share of it for label sets. NaN without an outcome."""

    sources: CodedColumn
    """Who said what is right: the source of the outcome that counts."""

    confidence: Array
    """NaN where it was unknown, as in the columns that follow."""

    top_probability: Array
    """What the model itself gave to its prediction."""

    scores: Mapping[str, Array]
    set_size: Array
    covered: Array
    """1 where the prediction set holds the right label, 0 where not; of several right ones the share that it holds."""

    right_labels: Array
    """How many labels are right; NaN without an outcome."""

    label_probability: Array
    """The logged chance, at decision time, that a person would be asked."""

    drawn: Mask
    """Whether a person was asked: it was held, or drawn for a spot check (`demur.review.drawn`)."""

    reviewed: Mask
    """Of the drawn ones, those about which a person has spoken."""

    top: TopColumns | None
    """None where labels exclude each other, and `mentions` as well."""

    mentions: Mentions | None

    def __len__(self) -> int:
        return len(self.times)

    def rows(self, index: NDArray[np.intp]) -> "Ledger":
        """Return the records at these positions, in their order; none may be named twice."""
        return replace(
            self,
            ids=self.ids.take(pa.array(index)),
            times=self.times[index],
            actions=self.actions[index],
            artifacts=self.artifacts[index],
            groups=self.groups[index],
            clusters=self.clusters[index],
            predicted=None if self.predicted is None else self.predicted[index],
            true=None if self.true is None else self.true[index],
            true_probability=None if self.true_probability is None else self.true_probability[index],
            quality=self.quality[index],
            sources=self.sources[index],
            confidence=self.confidence[index],
            top_probability=self.top_probability[index],
            scores={name: column[index] for name, column in self.scores.items()},
            set_size=self.set_size[index],
            covered=self.covered[index],
            right_labels=self.right_labels[index],
            label_probability=self.label_probability[index],
            drawn=self.drawn[index],
            reviewed=self.reviewed[index],
            top=None if self.top is None else self.top[index],
            mentions=None if self.mentions is None else self.mentions.of(index, len(self)),
        )

    @property
    def known(self) -> Mask:
        """Whether there is any outcome."""
        return ~np.isnan(self.quality)

    @property
    def answered(self) -> Mask:
        return np.equal(self.actions.codes, ANSWER)

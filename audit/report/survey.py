"""The first look at a ledger: what must be known of all of it before anything is weighed. Looks at parts add up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import NONE, REVIEW, CodedColumn, Ledger
from demur.uncertainty.checks import Array, Mask

FINEST = 1 << 20
"""Where more different values of a score occur, those are told apart that stand for one in so many rows."""

HELD, CHECKED = "held", "checked"
"""Why a person was asked."""

Stratum = tuple[str, str | None]
"""`HELD` or `CHECKED`, and the group."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """Every value of a score that occurs, ascending, and in how many rows [v]."""

    values: Array
    counts: NDArray[np.int64]
    thin: bool = False
    """Whether some values were thinned out."""

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def thinned(self, most: int = FINEST) -> "Values":
        """At most so many: rows in between go with the next value above."""
        if len(self.values) <= most:
            return self
        upto = np.cumsum(self.counts)
        ends = np.searchsorted(upto, np.arange(1, most + 1) * (upto[-1] / most), side="left")
        ends = np.append(ends[ends < len(upto)], len(upto) - 1)
        ends = ends[np.append(True, ends[1:] != ends[:-1])]  # in order, as they are found
        return Values(values=self.values[ends], counts=np.diff(upto[ends], prepend=0), thin=True)

    @classmethod
    def of(cls, scores: Array) -> "Values":
        values, counts = np.unique(scores[~np.isnan(scores)], return_counts=True)
        return cls(values=values, counts=counts.astype(np.int64)).thinned()

    @classmethod
    def together(cls, parts: Sequence["Values"]) -> "Values":
        values = np.concatenate([part.values for part in parts])
        order = np.argsort(values, kind="stable")  # which merges runs that are in order already
        values, counts = values[order], np.concatenate([part.counts for part in parts])[order]
        if not len(values):
            return parts[0]
        begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        return cls(
            values=values[begins], counts=np.add.reduceat(counts, begins), thin=any(part.thin for part in parts)
        ).thinned()


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey:
    """What `n` records look like before anything is estimated."""

    n: int
    first: datetime | None
    last: datetime | None
    never: int
    """Records that no label was ever meant for: the probability was 0 when they were decided."""

    never_last: datetime | None
    """When the last of these was decided."""

    all_known: bool
    """Whether every record has an outcome."""

    drawn: Mapping[Stratum, int]
    reviewed: Mapping[Stratum, int]
    drawn_confidence: Mapping[Stratum, Values]
    """For each stratum the confidences of its drawn records, without those that are undefined."""

    reviewed_confidence: Mapping[Stratum, Values]
    """For each stratum the confidences of its reviewed records, without those that are undefined."""

    groups: Mapping[str | None, int]
    artifacts: Mapping[str | None, int]
    predicted: Mapping[str | None, int]
    sources: Mapping[str, int]
    clusters: int
    """Rows that belong to a cluster."""

    losses: frozenset[float]
    scores: Mapping[str, Values]
    """Of every score, by name, and of `CONFIDENCE` and `TOP`; values ascend with doubt."""

    exclusive: bool = True
    top_k: int = 0
    labels: frozenset[str] = field(default_factory=frozenset)
    spans: Mapping[str | None, tuple[datetime, datetime]] = field(default_factory=dict)
    """When each artifact decided first and last."""


MICROSECOND = np.timedelta64(1, "us")

CONFIDENCE, TOP = "confidence", "top_probability"


def survey(ledger: Ledger, *, frame_after: datetime | None = None) -> Survey:
    """Return what there is; who was asked and who has answered is counted of records after `frame_after` alone."""
    times = ledger.times
    inside = in_frame(ledger, frame_after)
    never = ledger.label_probability == 0
    held = ledger.actions.codes == REVIEW
    loss = 1 - ledger.quality[ledger.known]
    predicted = _counts(ledger.predicted) if ledger.predicted is not None else {}
    labels = set(ledger.predicted.names if ledger.predicted is not None else ())
    if ledger.mentions is not None:
        labels |= set(ledger.mentions.labels.names)
    return Survey(
        n=len(ledger),
        first=moment(times[0]) if len(times) else None,
        last=moment(times[-1]) if len(times) else None,
        never=int(never.sum()),
        never_last=moment(times[never].max()) if never.any() else None,
        all_known=bool(ledger.known.all()),
        drawn=_strata(ledger, ledger.drawn & inside, held),
        reviewed=_strata(ledger, ledger.reviewed & inside, held),
        drawn_confidence=_confidences(ledger, ledger.drawn & inside, held),
        reviewed_confidence=_confidences(ledger, ledger.reviewed & inside, held),
        groups=_counts(ledger.groups),
        artifacts=_counts(ledger.artifacts),
        predicted=predicted,
        sources={name: n for name, n in _counts(ledger.sources).items() if name is not None},
        clusters=int((ledger.clusters.codes != NONE).sum()),
        losses=frozenset(np.unique(loss.round(9)).tolist()),
        scores={name: Values.of(u) for name, u in doubts(ledger).items()},
        exclusive=ledger.top is None,
        top_k=0 if ledger.top is None else ledger.top.probabilities.shape[1],
        labels=frozenset(labels),
        spans=_spans(ledger.artifacts, times),
    )


def together(parts: Sequence[Survey]) -> Survey:
    """Return the survey of all of them."""
    full = [part for part in parts if part.n] or list(parts[:1])
    names = dict.fromkeys(name for part in full for name in part.scores)
    firsts = [part.first for part in full if part.first]
    lasts = [part.last for part in full if part.last]
    nevers = [part.never_last for part in full if part.never_last]
    return Survey(
        n=sum(part.n for part in full),
        first=min(firsts, default=None),
        last=max(lasts, default=None),
        never=sum(part.never for part in full),
        never_last=max(nevers, default=None),
        all_known=all(part.all_known for part in full),
        drawn=_summed([part.drawn for part in full]),
        reviewed=_summed([part.reviewed for part in full]),
        drawn_confidence=_joined([part.drawn_confidence for part in full]),
        reviewed_confidence=_joined([part.reviewed_confidence for part in full]),
        groups=_summed([part.groups for part in full]),
        artifacts=_summed([part.artifacts for part in full]),
        predicted=_summed([part.predicted for part in full]),
        sources=_summed([part.sources for part in full]),
        clusters=sum(part.clusters for part in full),
        losses=frozenset().union(*(part.losses for part in full)),
        scores={name: Values.together([part.scores[name] for part in full if name in part.scores]) for name in names},
        exclusive=all(part.exclusive for part in full),
        top_k=max(part.top_k for part in full),
        labels=frozenset().union(*(part.labels for part in full)),
        spans={
            name: (min(part.spans[name][0] for part in of), max(part.spans[name][1] for part in of))
            for name in dict.fromkeys(name for part in full for name in part.spans)
            for of in [[part for part in full if name in part.spans]]
        },
    )


def in_frame(ledger: Ledger, after: datetime | None) -> Mask:
    """[n], whether a record was decided after that moment."""
    if after is None:
        return np.ones(len(ledger), dtype=bool)
    return np.asarray(ledger.times > np.datetime64(after.astimezone(UTC).replace(tzinfo=None), "us"))


def doubts(ledger: Ledger) -> dict[str, Array]:
    """Every score by name, and the confidence and the model's own probability turned around: higher is less sure."""
    return {**ledger.scores, CONFIDENCE: -ledger.confidence, TOP: -ledger.top_probability}


def moment(time: np.datetime64) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int((time - np.datetime64(0, "us")) // MICROSECOND))


def _strata(ledger: Ledger, rows: NDArray[np.bool_], held: NDArray[np.bool_]) -> dict[Stratum, int]:
    names = (*ledger.groups.names, None)  # the code of none is the last place
    counts = np.zeros((2, len(names)), dtype=np.int64)
    np.add.at(counts, ((~held[rows]).astype(np.intp), ledger.groups.codes[rows]), 1)
    return {
        (kind, name): int(counts[at, code])
        for at, kind in enumerate((HELD, CHECKED))
        for code, name in enumerate(names)
        if counts[at, code]
    }


def _confidences(ledger: Ledger, rows: NDArray[np.bool_], held: NDArray[np.bool_]) -> dict[Stratum, Values]:
    names = (*ledger.groups.names, None)
    chosen = np.flatnonzero(rows & ~np.isnan(ledger.confidence))
    place = (~held[chosen]).astype(np.intp) * len(names) + ledger.groups.codes[chosen] % len(names)
    order = np.argsort(place, kind="stable")
    places, starts = np.unique(place[order], return_index=True)
    parts = np.split(ledger.confidence[chosen[order]], starts[1:]) if len(places) else []
    return {
        ((HELD, CHECKED)[at // len(names)], names[at % len(names)]): Values.of(part)
        for at, part in zip(places.tolist(), parts, strict=True)
    }


def _joined(parts: Sequence[Mapping[Stratum, Values]]) -> dict[Stratum, Values]:
    return {
        stratum: Values.together([part[stratum] for part in parts if stratum in part])
        for stratum in dict.fromkeys(stratum for part in parts for stratum in part)
    }


def _counts(texts: CodedColumn) -> dict[str | None, int]:
    counts = np.bincount(texts.codes + 1, minlength=len(texts.names) + 1).tolist()
    return {name: n for name, n in zip((None, *texts.names), counts, strict=True) if n}


def _spans(texts: CodedColumn, times: NDArray[np.datetime64]) -> dict[str | None, tuple[datetime, datetime]]:
    """Return when each text occurs first and last, from rows in order of time."""
    n = len(texts.codes)
    codes, first = np.unique(texts.codes, return_index=True)
    _, last = np.unique(texts.codes[::-1], return_index=True)
    names = (*texts.names, None)  # the code of none is the last place
    return {
        names[code]: (moment(times[a]), moment(times[n - 1 - b]))
        for code, a, b in zip(codes.tolist(), first.tolist(), last.tolist(), strict=True)
    }


def _summed(parts: Sequence[Mapping]) -> dict:  # type: ignore[type-arg]
    total: Counter = Counter()  # type: ignore[type-arg]
    for part in parts:
        total.update(part)
    return dict(total)

"""How an audit weighs and sorts its records: settled from the survey of all, then applied to each part."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import NONE, REVIEW, CodedColumn, Ledger
from demur.audit.metrics.confidence_strata import (
    MIN_COMPLETED,
    MIN_SELECTED,
    N_BINS,
    ConfidenceCounts,
    completion_differs,
    confidence_cuts,
)
from demur.audit.metrics.predictive_quality import BUCKETS, label_buckets
from demur.audit.report import hashing
from demur.audit.report.survey import CHECKED, HELD, Stratum, Survey, Values, in_frame
from demur.uncertainty.checks import Array, Mask

COARSE = 256
"""Bins of equal counts into which a score is sorted for the resamples. What is reported is of the score itself."""

UNITS = 2_000
"""Where there are more rows, or clusters of rows, they are thrown together at random into so many, which are resampled
as wholes: sums over independent rows vary by as much (the random groups of Wolter 2007)."""

LEAST_DRAWN = 30
"""A stratum with fewer drawn records goes with the others of its kind: they stand for each other."""

MOST_NAMES = 60
"""Of groups, labels and the like so many are shown by themselves, the largest; the others as one."""

MOST_WINDOWS = 36

WINDOWS = tuple(
    timedelta(seconds=s)
    for s in (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400, 91 * 86400)
)

SAMPLE = 50_000
"""Rows of the plain sample at most, on which is counted what has no weighted form."""

ROWS_FOR_TAU = 20_000

UNIT, THIN, PLAIN, TAU = range(4)
"""Purposes of hashes."""

TOTAL = "all"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What whoever asks for an audit decides."""

    delta: float = 0.05
    replicates: int = 1_999
    seed: int = 0
    every_outcome_known: bool = False
    """Outcomes come for every record, whatever was decided about it: each known one stands for itself."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The share of the drawn records of a stratum that are reviewed."""

    kind: str
    """`held` or `checked`."""

    group: str
    drawn: int
    reviewed: int
    share: float | None
    """By which the weights of the reviewed ones are divided; None where nothing is reviewed, which refuses them."""

    pooled: bool
    """Too small to stand alone: the share is that of all such strata of its kind."""

    above: float | None = None
    """The stratum holds records whose confidence is above this; None where it has no lower bound."""

    upto: float | None = None
    """The stratum holds records whose confidence is at most this; None where it has no upper bound."""


@dataclass(frozen=True, kw_only=True)
class ReviewShares:
    """How much of a stratum is reviewed, by confidence."""

    cuts: tuple[float, ...] = ()
    """Ascending; a record is in the bin of so many of them as lie below its confidence, one without in the first."""

    shares: tuple[float, ...]
    """One more than `cuts`."""

    def of(self, confidence: Array) -> Array:
        """[n], by whose share each record is weighed."""
        place = np.searchsorted(np.array(self.cuts), np.nan_to_num(confidence, nan=-np.inf), side="left")
        return np.array(self.shares)[place]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Equal stretches of time, counted from the epoch in UTC."""

    width: timedelta
    first: int
    count: int

    def start(self, at: int) -> datetime:
        return datetime.fromtimestamp(0, UTC) + (self.first + at) * self.width

    def numbers(self, times: NDArray[np.datetime64]) -> NDArray[np.intp]:
        width = np.timedelta64(int(self.width.total_seconds() * 1e6), "us")
        return np.clip((times - np.datetime64(0, "us")) // width - self.first, 0, self.count - 1).astype(np.intp)


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One way to sort all records into cells."""

    name: str
    cells: tuple[str, ...]
    of: Mapping[str | None, int] = field(default_factory=dict)
    """The cell of each text; windows and the total have none."""

    def texts_in(self, cell: int) -> int:
        """How many different texts one cell stands for."""
        return sum(at == cell for at in self.of.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditPlan:
    settings: Settings
    frame_after: datetime | None
    """Labels speak of records after this moment alone: before it some could never get one."""

    labels_meant: bool
    """Whether there is any record that a label could speak of."""

    all_known: bool
    completions: Sequence[Completion]
    shares: Mapping[Stratum, ReviewShares]
    refused: frozenset[str]
    """Kinds of which a stratum is drawn and nothing of it reviewed."""

    n_units: int | None
    """None: each row by itself."""

    values: Mapping[str, Array]
    coarse: Mapping[str, NDArray[np.intp]]
    exact: Mapping[str, bool]
    losses: Array
    dimensions: tuple[Dimension, ...]
    window: Window
    labels: tuple[str, ...]
    buckets: Mapping[str, str]
    """How often each label held in the data of the fit, in words; empty where that is not known."""

    exclusive: bool
    top_k: int
    clustered: bool
    """Whether some records depend on each other."""

    plain_share: float
    tau_share: float
    about_predicted: bool = False
    """Whether something is promised about predicted labels, so that they are measured as sets are."""

    @property
    def binary(self) -> bool:
        """Whether a prediction is right or wrong, and nothing in between."""
        return set(self.losses.tolist()) <= {0.0, 1.0}

    @property
    def n_cells(self) -> int:
        return sum(len(dimension.cells) for dimension in self.dimensions)


def plan(
    found: Survey,
    settings: Settings,
    *,
    frame_after: datetime | None,
    least_probability: float,
    label_counts: Mapping[str, int],
    n_fitted: int,
    together: bool,
) -> AuditPlan:
    """Return how to weigh. `together`: all rows are in one ledger, so that few of them can be resampled one by one.

    `least_probability` is the lowest chance of a label in the frame; `label_counts` and `n_fitted` tell how often each
    label held in the data of the fit.
    """
    all_known = found.all_known or settings.every_outcome_known
    completions, shares, refused = _completions(found)
    least_share = min((min(one.shares) for one in shares.values()), default=1.0)
    window = _window(found)
    buckets = (
        dict(zip(label_counts, label_buckets(list(label_counts.values()), n_fitted), strict=True)) if n_fitted else {}
    )
    return AuditPlan(
        settings=settings,
        frame_after=None if all_known else frame_after,
        labels_meant=all_known or found.never == 0 or frame_after is not None,
        all_known=all_known,
        completions=[] if all_known else completions,
        shares=shares,
        refused=frozenset() if all_known else refused,
        n_units=None if together and found.n <= UNITS else UNITS,
        values={name: values.values for name, values in found.scores.items()},
        coarse={name: _coarse(values.counts) for name, values in found.scores.items()},
        exact={name: not values.thin for name, values in found.scores.items()},
        losses=np.array(sorted(found.losses | {0.0})),
        dimensions=(
            Dimension(name=TOTAL, cells=(TOTAL,)),
            _dimension("group", found.groups, none="(no group)"),
            _dimension("artifact", found.artifacts, none="none"),
            _dimension("predicted label", found.predicted, none="(no prediction)"),
            _bucket_dimension(found.predicted, buckets),
            Dimension(name="time", cells=tuple(window.start(at).isoformat() for at in range(window.count))),
        ),
        window=window,
        labels=tuple(sorted(found.labels)),
        buckets=buckets,
        exclusive=found.exclusive,
        top_k=found.top_k,
        clustered=found.clusters > 0,
        plain_share=1.0 if all_known else least_probability * least_share,
        tau_share=min(1.0, ROWS_FOR_TAU / max(1, found.n)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelWeights:
    """[n] each, of one ledger: in the frame, what a label stands for, and by which chance it came."""

    inside: Mask
    weights: Array
    chance: Array
    """Of a label, completion included; 1 where all is known."""

    units: NDArray[np.intp]
    n_units: int
    hashes: NDArray[np.uint64]


def weigh(ledger: Ledger, by: AuditPlan) -> LabelWeights:
    n = len(ledger)
    hashes = hashing.of_ids(ledger.ids)
    inside = in_frame(ledger, by.frame_after)
    if by.all_known:
        weights, chance = ledger.known.astype(np.float64), np.ones(n)
    else:
        chance = ledger.label_probability * _share_of_rows(ledger, by)
        usable = ledger.reviewed & inside & (chance > 0)
        weights = np.divide(1.0, chance, out=np.zeros(n), where=usable)
    units, n_units = _units(ledger, by, hashes)
    return LabelWeights(inside=inside, weights=weights, chance=chance, hashes=hashes, units=units, n_units=n_units)


def _units(ledger: Ledger, by: AuditPlan, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], int]:
    own = hashes.copy()
    clustered = ledger.clusters.codes != NONE
    if clustered.any():
        of_name = hashing.of_texts(ledger.clusters.names)
        own[clustered] = of_name[ledger.clusters.codes[clustered]]
    if by.n_units is None:
        _, units = np.unique(own, return_inverse=True)
        return units.astype(np.intp), int(units.max(initial=-1)) + 1
    return (hashing.mixed(own, UNIT) % np.uint64(by.n_units)).astype(np.intp), by.n_units


def cells_of(ledger: Ledger, dimension: Dimension, by: AuditPlan) -> NDArray[np.intp]:
    """[n], the cell of each row; -1 for none."""
    columns: dict[str, CodedColumn | None] = {
        "group": ledger.groups,
        "artifact": ledger.artifacts,
        "predicted label": ledger.predicted,
        "label frequency": ledger.predicted,
    }
    if dimension.name == TOTAL:
        return np.zeros(len(ledger), dtype=np.intp)
    if dimension.name == "time":
        return by.window.numbers(ledger.times)
    texts = columns[dimension.name]
    if texts is None:
        return np.full(len(ledger), -1, dtype=np.intp)
    of_code = np.array([dimension.of.get(name, -1) for name in (*texts.names, None)], dtype=np.intp)
    return of_code[texts.codes]


def labels_of(texts: CodedColumn, by: AuditPlan) -> NDArray[np.int64]:
    """[n], places in the plan's labels; -1 for none."""
    place = {label: at for at, label in enumerate(by.labels)}
    return np.array([*(place.get(name, -1) for name in texts.names), -1], dtype=np.int64)[texts.codes]


def bins_of(values: Array, u: Array) -> NDArray[np.intp]:
    """[n], which of the ascending values each score goes with: the least that is not below it, and for NaN the last."""
    order = np.argsort(u)  # neighbours are looked up one after the other, where memory is still warm
    places = np.empty(len(u), dtype=np.intp)
    places[order] = np.minimum(np.searchsorted(values, u[order], side="left"), len(values) - 1)
    return places


def _share_of_rows(ledger: Ledger, by: AuditPlan) -> Array:
    names = (*ledger.groups.names, None)
    held = ledger.actions.codes == REVIEW
    nothing = ReviewShares(shares=(0.0,))
    strata = [[by.shares.get((kind, name), nothing) for name in names] for kind in (HELD, CHECKED)]
    table = np.array([[one.shares[0] for one in of_kind] for of_kind in strata])
    found = np.asarray(table[(~held).astype(np.intp), ledger.groups.codes])
    for kind, of_kind in enumerate(strata):
        for code, one in enumerate(of_kind):
            if one.cuts:
                rows = np.flatnonzero((held == (kind == 0)) & (ledger.groups.codes % len(names) == code))
                found[rows] = one.of(ledger.confidence[rows])
    return found


def _completions(found: Survey) -> tuple[list[Completion], dict[Stratum, ReviewShares], frozenset[str]]:
    rows: list[Completion] = []
    shares: dict[Stratum, ReviewShares] = {}
    refused = set()
    for kind in (HELD, CHECKED):
        strata = sorted((s for s in found.drawn if s[0] == kind), key=lambda s: (-found.drawn[s], s[1] or ""))
        small = [s for s in strata if found.drawn[s] < LEAST_DRAWN or not found.reviewed.get(s)]
        large = [s for s in strata if s not in small]
        if (
            small
            and sum(found.reviewed.get(s, 0) for s in small) == 0
            and large
            and all(found.drawn[s] < LEAST_DRAWN for s in small)
        ):
            small.append(large.pop())  # too few to be refused for: they go with the smallest of the others
        # a stratum large enough to speak for itself, of which nothing is reviewed, is not hidden among others
        silent = [s for s in small if found.drawn[s] >= LEAST_DRAWN and not found.reviewed.get(s)]
        pool = [s for s in small if s not in silent]
        for bases in (*([s] for s in strata if s not in small), pool):
            done = sum(found.reviewed.get(s, 0) for s in bases)
            if not bases or not done:
                silent += bases
                continue
            by_confidence = _review_shares(found, bases)
            shares |= dict.fromkeys(bases, by_confidence)
            rows += _by_confidence(found, bases, by_confidence)
        for s in silent:
            refused.add(kind)
            rows.append(_completion(found, s, share=None, pooled=s in pool and len(pool) > 1))
    return rows, shares, frozenset(refused)


def _review_shares(found: Survey, strata: Sequence[Stratum]) -> ReviewShares:
    """The shares of reviews of some strata taken together, apart by confidence where completion hangs on it by more
    than chance (METHODS 10.7)."""
    drawn, done = _drawn_and_done(found, strata)
    cuts = confidence_cuts(drawn, done, N_BINS, MIN_SELECTED, MIN_COMPLETED)
    if not completion_differs(drawn.by_bin(cuts), done.by_bin(cuts)):
        cuts = cuts[:0]
    return ReviewShares(cuts=tuple(cuts.tolist()), shares=tuple((done.by_bin(cuts) / drawn.by_bin(cuts)).tolist()))


def _drawn_and_done(found: Survey, strata: Sequence[Stratum]) -> tuple[ConfidenceCounts, ConfidenceCounts]:
    drawn, done = (
        _confidence_counts([known[s] for s in strata if s in known], sum(counts.get(s, 0) for s in strata))
        for known, counts in ((found.drawn_confidence, found.drawn), (found.reviewed_confidence, found.reviewed))
    )
    return drawn, done


def _confidence_counts(parts: Sequence[Values], n: int) -> ConfidenceCounts:
    """All of `n` records, of which those that are not in `parts` have no confidence."""
    known = Values.together(parts) if parts else Values(values=np.empty(0), counts=np.empty(0, dtype=np.int64))
    without = n - known.n
    if not without:
        return ConfidenceCounts(values=known.values, counts=known.counts)
    return ConfidenceCounts(values=np.append(-np.inf, known.values), counts=np.append(without, known.counts))


def _completion(found: Survey, s: Stratum, **more: Any) -> Completion:
    return Completion(
        kind=s[0],
        group=s[1] or _unlike(found.groups, "(no group)"),
        **{"drawn": found.drawn[s], "reviewed": found.reviewed.get(s, 0), **more},
    )


def _by_confidence(found: Survey, strata: Sequence[Stratum], by: ReviewShares) -> Iterator[Completion]:
    """Rows for a report: of each stratum, or of each bin of confidence of those that were taken together."""
    if not by.cuts:
        for s in strata:
            yield _completion(found, s, share=by.shares[0], pooled=len(strata) > 1)
        return
    cuts = np.array(by.cuts)
    drawn, done = (counts.by_bin(cuts) for counts in _drawn_and_done(found, strata))
    bounds = (None, *by.cuts, None)
    for at, share in enumerate(by.shares):
        made = _completion(
            found, strata[0], share=share, pooled=len(strata) > 1, drawn=int(drawn[at]), reviewed=int(done[at]),
            above=bounds[at], upto=bounds[at + 1],
        )  # fmt: skip
        yield made if len(strata) == 1 else replace(made, group=_unlike(found.groups, f"({len(strata)} small groups)"))


def _window(found: Survey) -> Window:
    if found.first is None or found.last is None:
        return Window(width=WINDOWS[0], first=0, count=1)
    epoch = datetime.fromtimestamp(0, UTC)
    for width in WINDOWS:
        first, last = (found.first - epoch) // width, (found.last - epoch) // width
        if last - first < MOST_WINDOWS or width == WINDOWS[-1]:
            return Window(width=width, first=first, count=last - first + 1)
    raise AssertionError("the last width is taken in any case")


def _dimension(name: str, counts: Mapping[str | None, int], *, none: str) -> Dimension:
    """The largest cells by themselves, the others as one; none at all where there is nothing to tell apart."""
    order = sorted(counts, key=lambda text: (-counts[text], text or ""))
    cells, of = [], {}
    for at, text in enumerate(order):
        if at < MOST_NAMES or len(order) == MOST_NAMES + 1:
            cells.append(_unlike(counts, none) if text is None else text)
            of[text] = at
        else:
            of[text] = MOST_NAMES
    if len(order) > MOST_NAMES + 1:
        cells.append(_unlike(counts, f"({len(order) - MOST_NAMES} others)"))
    return Dimension(name=name, cells=tuple(cells), of=of)


def _unlike(texts: Collection[str | None], name: str) -> str:
    """Our own name for a cell, in brackets where a text is called just so."""
    while name in texts:
        name = f"({name})"
    return name


def _bucket_dimension(predicted: Mapping[str | None, int], buckets: Mapping[str, str]) -> Dimension:
    if not buckets:
        return Dimension(name="label frequency", cells=())
    return Dimension(
        name="label frequency",
        cells=tuple(BUCKETS),
        of={label: BUCKETS.index(buckets[label]) for label in predicted if label is not None and label in buckets},
    )


def _coarse(counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """[v], the bin of equal counts of each value: with few values each has one of its own."""
    if len(counts) <= COARSE:
        return np.arange(len(counts), dtype=np.intp)
    middle = np.cumsum(counts) - counts / 2
    numbers = np.floor(middle / counts.sum() * COARSE).astype(np.intp)
    _, dense = np.unique(numbers, return_inverse=True)
    return dense.astype(np.intp)

"""Sums over the rows of a ledger, from which every number of a report is made.

All of them add up over parts of the traffic, so the same audit runs on one machine or on many. Those that intervals
need are kept by unit of the bootstrap [g, ...]: a resample is a weighted sum over units, and no row is ever copied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.calibration import bin_numbers
from audit.ledger.ledger import ANSWER, REVIEW, Coded, Ledger
from audit.report import hashing
from audit.report.plan import COARSE, PLAIN, SAMPLE, TAU, THIN, Plan, Weighed, bins_of, cells_of, weigh
from audit.report.rank_sums import RankSums
from audit.report.survey import CONFIDENCE, TOP, doubts
from uncertainty.checks import Array

CALIBRATION_BINS = 15
TOP_K = (1, 3, 5)
PAIR_BINS = 1 << 16
"""Equal intervals by which pairs of row and label are ranked for ACE@k."""

MOST_F1_CLASSES = 1_000
"""With more, macro F1 has no interval."""

COUNTS = (
    "n", "answered", "review", "undefined", "drawn", "reviewed",
    "labelled", "w", "w_w", "w_loss", "wrong", "w_wrong",
    "a_labelled", "a_w", "a_w_w", "a_w_loss", "a_wrong", "a_w_wrong",
    "known", "k_loss", "a_known", "a_k_loss",
    "set_n", "set_size", "set_empty", "set_single", "set_w", "set_w_missed", "k_set", "k_set_missed",
    "gap_w", "gap_w_citl",
)  # fmt: skip
"""What is counted in every cell. `w` sums weights, `w_w` their squares; `a_` is of the answered rows; `k` counts each
row with an outcome as one, whoever labelled it."""

RESAMPLED = (
    "w", "w_loss", "a_w", "a_w_loss", "w_wrong", "a_w_wrong", "set_w", "set_w_missed", "gap_w", "gap_w_citl",
)  # fmt: skip
"""Those of them that are kept by unit."""


def summed(places: NDArray[np.intp], amounts: Array, size: int) -> Array:
    """[size], the sum of the amounts [n] that go to each place."""
    return np.asarray(np.bincount(places, weights=amounts, minlength=size), dtype=np.float64)


def numbered(places: NDArray[np.intp], size: int) -> Array:
    """[size], how many go to each place."""
    return np.asarray(np.bincount(places, minlength=size), dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibrationSums:
    """[g, ...] by unit; g = 1 for the rows as they stand."""

    w: Array
    """[g, 15], of the weights by bin of confidence; so are the next two, of weight times confidence and outcome."""

    wc: Array
    wy: Array
    moments: Array
    """[g, 5], of the weight times c^2, c y, (c - y)^2, the clipped loss in nats, and 1."""

    n: Array
    """[15], rows, labelled or not."""

    labelled: Array
    rank_n: Array
    """[g, b], rows by bin of equal counts; so is the next, of weight times (outcome - confidence)."""

    rank_gap: Array
    fine_n: Array
    """[v], rows by value of the confidence; so is the next, as `rank_gap`."""

    fine_gap: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSums:
    """Of one score."""

    fine: RankSums
    """By value of the score."""

    coarse: Mapping[str, Array]
    """[g, 256] each by unit: `n`, `weight`, `loss`, `wrong`; and `of_loss` [g, l]."""

    labelled: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Rows as they are, for what has no weighted form: a plain sample of the traffic, all drawn with one chance."""

    quality: Array
    confidence: Array
    top_probability: Array
    predicted: NDArray[np.int64]
    """Places in the plan's labels; -1 for none."""

    true: NDArray[np.int64]
    scores: Mapping[str, Array]
    order: NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Everything that hangs on the weights of labels."""

    calibration: Mapping[str, CalibrationSums]
    """`after`, `before`; of the k most probable labels `after@k`, `before@k`."""

    scores: Mapping[str, ScoreSums]
    classes: Array
    """[g, 2, c], weight of the hits, and of all mentions, by label."""

    right_labels: Array
    """[2, c], weight of the rows in which a label holds, and of those times the model's probability for it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    counts: Array
    """[cells, COUNTS]."""

    by_unit: Array
    """[g, cells, RESAMPLED]."""

    weighted: Weighted
    naive: Weighted
    """The rows with any outcome, each counted once."""

    assisted: Array
    """[2, 3]: of all rows of the frame, and of the answered ones, sums of phi, of phi^2, and their number (AIPW)."""

    answered_labels: NDArray[np.void]
    """Distinct (cell, loss, weight) of labelled answered rows, with their `count`."""

    bounds: Array
    """[2, 3], of drawn rows, all and answered: weighted errors of the reviewed, weight of the missing, of all drawn."""

    plain: Sample
    tau: Sample


def tally(ledger: Ledger, by: Plan) -> Tally:
    """Sum up one ledger, or one part of what a plan was made for."""
    weighed = weigh(ledger, by)
    loss = np.where(ledger.known, 1 - ledger.quality, 0.0)
    every = [cells_of(ledger, dimension, by) for dimension in by.dimensions]
    counts, by_unit, answered = _cells(ledger, by, weighed, loss, every)
    return Tally(
        counts=counts,
        by_unit=by_unit,
        weighted=_weighted(ledger, by, weighed.weights, weighed.units, weighed.n_units, loss, weighed.inside),
        naive=_weighted(
            ledger, by, ledger.known.astype(np.float64), np.zeros(len(ledger), dtype=np.intp), 1,
            loss, ledger.known,
        ),
        assisted=_assisted(ledger, weighed, loss),
        answered_labels=answered,
        bounds=_bounds(ledger, weighed, loss),
        plain=_sample(ledger, by, _plain_rows(ledger, by, weighed), hashing.mixed(weighed.hashes, PLAIN)),
        tau=_sample(
            ledger, by,
            hashing.shares(hashing.mixed(weighed.hashes, TAU)) < by.tau_share,
            hashing.mixed(weighed.hashes, TAU),
        ),
    )  # fmt: skip


def together(parts: Sequence[Tally]) -> Tally:
    """Return the tally of all of them."""
    return Tally(
        counts=_sum([p.counts for p in parts]),
        by_unit=_sum([p.by_unit for p in parts]),
        weighted=_join_weighted([p.weighted for p in parts]),
        naive=_join_weighted([p.naive for p in parts]),
        assisted=_sum([p.assisted for p in parts]),
        answered_labels=_distinct(np.concatenate([p.answered_labels for p in parts])),
        bounds=_sum([p.bounds for p in parts]),
        plain=_join_samples([p.plain for p in parts]),
        tau=_join_samples([p.tau for p in parts]),
    )


LABEL_ROW = np.dtype([("cell", "i4"), ("loss", "f8"), ("weight", "f8"), ("count", "i8")])


def _cells(
    ledger: Ledger,
    by: Plan,
    weighed: Weighed,
    loss: Array,
    every: Sequence[NDArray[np.intp]],
) -> tuple[Array, Array, NDArray[np.void]]:
    w, x, a, known = weighed.weights, weighed.weights > 0, ledger.answered, ledger.known
    wrong = (loss > 0).astype(np.float64)
    in_set = ~np.isnan(ledger.set_size)
    missed = 1 - np.nan_to_num(ledger.covered, nan=1.0)
    told = ~np.isnan(ledger.covered)
    sure = x & ~np.isnan(ledger.confidence)
    gap = np.where(sure, np.nan_to_num(ledger.confidence) - (1 - loss), 0.0)
    size = np.nan_to_num(ledger.set_size)
    columns = {
        "n": np.ones(len(ledger)),
        "answered": a,
        "review": ledger.actions.codes == REVIEW,
        "undefined": np.isnan(ledger.confidence),
        "drawn": ledger.drawn & weighed.inside,
        "reviewed": ledger.reviewed & weighed.inside,
        "labelled": x,
        "w": w,
        "w_w": w * w,
        "w_loss": w * loss,
        "wrong": x * wrong,
        "w_wrong": w * wrong,
        "a_labelled": x & a,
        "a_w": w * a,
        "a_w_w": w * w * a,
        "a_w_loss": w * loss * a,
        "a_wrong": x * wrong * a,
        "a_w_wrong": w * wrong * a,
        "known": known,
        "k_loss": known * loss,
        "a_known": known & a,
        "a_k_loss": known * loss * a,
        "set_n": in_set,
        "set_size": size,
        "set_empty": in_set & (size == 0),
        "set_single": in_set & (size == 1),
        "set_w": w * told,
        "set_w_missed": w * missed,
        "k_set": told,
        "k_set_missed": missed,
        "gap_w": w * sure,
        "gap_w_citl": w * gap,
    }
    table = np.stack([np.asarray(columns[name], dtype=np.float64) for name in COUNTS])
    counts = np.zeros((by.n_cells, len(COUNTS)))
    by_unit = np.zeros((weighed.n_units, by.n_cells, len(RESAMPLED)))
    rows_of = [COUNTS.index(name) for name in RESAMPLED]
    labelled = np.flatnonzero(x)
    parts, at = [], 0
    for dimension, cell in zip(by.dimensions, every, strict=True):
        size_here = len(dimension.cells)
        if size_here == 0:
            continue
        here = cell >= 0
        for column in range(len(COUNTS)):
            counts[at : at + size_here, column] = summed(cell[here], table[column, here], size_here)
        rows = labelled[cell[labelled] >= 0]
        places = weighed.units[rows] * size_here + cell[rows]
        for column, row in enumerate(rows_of):
            by_unit[:, at : at + size_here, column] = summed(
                places, table[row, rows], weighed.n_units * size_here
            ).reshape(weighed.n_units, size_here)
        rows = rows[a[rows]]
        part = np.zeros(len(rows), dtype=LABEL_ROW)
        part["cell"], part["loss"], part["weight"], part["count"] = at + cell[rows], loss[rows], w[rows], 1
        parts.append(_distinct(part))
        at += size_here
    return counts, by_unit, np.concatenate(parts)


def _distinct(rows: NDArray[np.void]) -> NDArray[np.void]:
    """One row for each (cell, loss, weight), with how many there are."""
    if not len(rows):
        return rows
    order = np.lexsort((rows["weight"], rows["loss"], rows["cell"]))
    rows = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (
        (rows["cell"][1:] != rows["cell"][:-1])
        | (rows["loss"][1:] != rows["loss"][:-1])
        | (rows["weight"][1:] != rows["weight"][:-1])
    )
    starts = np.flatnonzero(new)
    distinct = rows[starts].copy()
    distinct["count"] = np.add.reduceat(rows["count"], starts)
    return distinct


def _weighted(
    ledger: Ledger,
    by: Plan,
    weights: Array,
    units: NDArray[np.intp],
    n_units: int,
    loss: Array,
    rows: NDArray[np.bool_],
) -> Weighted:
    """The sums of `rows`, of which those with a weight have a label."""
    quality = 1 - loss
    calibration = {}
    for when, name, confidence in (("after", CONFIDENCE, ledger.confidence), ("before", TOP, ledger.top_probability)):
        inside = rows & ~np.isnan(confidence)
        if by.exclusive or when == "after":
            fine = bins_of(by.values[name], -confidence[inside])
            calibration[when] = _calibration(
                confidence[inside], quality[inside], weights[inside], units[inside], n_units,
                fine=fine, n_fine=len(by.values[name]), coarse=by.coarse[name], binary=by.binary,
            )  # fmt: skip
    if ledger.top is not None:
        for k in [k for k in TOP_K if k <= by.top_k]:
            for when, forecasts in (("after", ledger.top.calibrated), ("before", ledger.top.probabilities)):
                chosen = rows & ~np.isnan(forecasts[:, :k]).any(axis=1)
                c = forecasts[chosen, :k].ravel()
                y = np.nan_to_num(ledger.top.hits[chosen, :k]).ravel()
                calibration[f"{when}@{k}"] = _calibration(
                    c, y, np.repeat(weights[chosen], k), np.repeat(units[chosen], k), n_units,
                    fine=PAIR_BINS - 1 - np.minimum((c * PAIR_BINS).astype(np.intp), PAIR_BINS - 1), n_fine=PAIR_BINS,
                    coarse=np.arange(PAIR_BINS) // (PAIR_BINS // COARSE), binary=True,
                )  # fmt: skip
    scores = {
        name: _score(by, name, u, loss, weights, units, n_units, rows)
        for name, u in doubts(ledger).items()
        if name in by.values
    }
    classes, right_labels = _classes(ledger, by, weights, units, n_units)
    return Weighted(calibration=calibration, scores=scores, classes=classes, right_labels=right_labels)


def _calibration(
    c: Array,
    y: Array,
    w: Array,
    units: NDArray[np.intp],
    n_units: int,
    *,
    fine: NDArray[np.intp],
    n_fine: int,
    coarse: NDArray[np.intp],
    binary: bool,
) -> CalibrationSums:
    """Of rows [n], labelled or not: those without a label weigh 0. `fine` [n] is the place of each among `n_fine`
    values of the confidence, the surest first, and `coarse` [v] the bin of each of these."""
    number = bin_numbers(c, CALIBRATION_BINS, "left")
    x = w > 0
    cx, yx, wx, ux = c[x], y[x], w[x], units[x]
    places = ux * CALIBRATION_BINS + number[x]

    def binned(values: Array) -> Array:
        return summed(places, values, n_units * CALIBRATION_BINS).reshape(n_units, -1)

    nats = np.full(len(cx), np.nan)
    if binary:
        with np.errstate(divide="ignore"):
            nats = -np.maximum(np.where(yx == 1, np.log(cx), np.log1p(-cx)), np.log(1e-15))
    moments = [wx * cx * cx, wx * cx * yx, wx * np.square(cx - yx), wx * nats, wx]
    size = int(coarse.max(initial=0)) + 1
    ranks = units * size + coarse[fine]
    gap = np.where(x, w * (y - c), 0.0)
    return CalibrationSums(
        w=binned(wx),
        wc=binned(wx * cx),
        wy=binned(wx * yx),
        moments=np.stack([summed(ux, values, n_units) for values in moments], axis=1),
        n=numbered(number, CALIBRATION_BINS),
        labelled=numbered(number[x], CALIBRATION_BINS),
        rank_n=numbered(ranks, n_units * size).reshape(n_units, size),
        rank_gap=summed(ranks, gap, n_units * size).reshape(n_units, size),
        fine_n=numbered(fine, n_fine),
        fine_gap=summed(fine, gap, n_fine),
    )


def _score(
    by: Plan,
    name: str,
    u: Array,
    loss: Array,
    weights: Array,
    units: NDArray[np.intp],
    n_units: int,
    rows: NDArray[np.bool_],
) -> ScoreSums:
    inside = np.flatnonzero(rows & ~np.isnan(u))
    values, size = by.values[name], _coarse_size(by, name)
    fine = bins_of(values, u[inside])
    coarse = by.coarse[name][fine] if len(values) else fine
    w, lost, unit = weights[inside], loss[inside], units[inside]
    x = w > 0
    wrong = (lost > 0).astype(np.float64)
    index = np.clip(np.searchsorted(by.losses, lost.round(9)), 0, len(by.losses) - 1)
    n_losses = len(by.losses)

    def by_value(amounts: Array) -> Array:
        return summed(fine[x], amounts[x], len(values))

    def per_unit(amounts: Array) -> Array:
        place = unit[x] * size + coarse[x]
        return summed(place, amounts[x], n_units * size).reshape(n_units, size)

    of_loss = summed(unit[x] * n_losses + index[x], w[x], n_units * n_losses)
    of_loss = of_loss.reshape(n_units, n_losses)
    return ScoreSums(
        fine=RankSums(
            n=numbered(fine, len(values)),
            weight=by_value(w),
            loss=by_value(w * lost),
            wrong=by_value(w * wrong),
            losses=by.losses,
            of_loss=of_loss.sum(axis=0),
        ),
        coarse={
            "n": numbered(unit * size + coarse, n_units * size).reshape(n_units, size),
            "weight": per_unit(w),
            "loss": per_unit(w * lost),
            "wrong": per_unit(w * wrong),
            "of_loss": of_loss,
        }
        if n_units > 1
        else {},
        labelled=int(x.sum()),
    )


def _classes(ledger: Ledger, by: Plan, weights: Array, units: NDArray[np.intp], n_units: int) -> tuple[Array, Array]:
    """Hits and mentions by label, and the probability of right labels."""
    size = len(by.labels)
    if size > MOST_F1_CLASSES:
        units, n_units = np.zeros(len(ledger), dtype=np.intp), 1
    shape = (n_units, size)
    right = np.zeros((2, size))

    def added(rows: NDArray[np.intp], label: NDArray[np.int64]) -> Array:
        return summed(units[rows] * size + label, weights[rows], n_units * size).reshape(shape)

    if ledger.mentions is not None:
        m = ledger.mentions
        inside = weights[m.rows] > 0
        rows, label = m.rows[inside], _labels(m.labels, by)[inside]
        predicted, holds, chance = m.predicted[inside], m.right[inside], m.probability[inside]
        hits = added(rows[predicted & holds], label[predicted & holds])
        named = added(rows[predicted], label[predicted]) + added(rows[holds], label[holds])
        right[0] = summed(label[holds], weights[rows[holds]], size)
        right[1] = summed(label[holds], weights[rows[holds]] * chance[holds], size)
        return np.stack([hits, named], axis=1), right
    if ledger.predicted is None or ledger.true is None:
        return np.zeros((n_units, 2, size)), right
    rows = np.flatnonzero(weights > 0)
    guess, true = _labels(ledger.predicted, by)[rows], _labels(ledger.true, by)[rows]
    hit, said, is_known = guess == true, guess >= 0, true >= 0
    hits = added(rows[hit & said], guess[hit & said])
    named = added(rows[said], guess[said]) + added(rows[is_known], true[is_known])
    if ledger.true_probability is not None:
        p = ledger.true_probability[rows]
        told = is_known & ~np.isnan(p)
        right[0] = summed(true[told], weights[rows[told]], size)
        right[1] = summed(true[told], weights[rows[told]] * p[told], size)
    return np.stack([hits, named], axis=1), right


def _labels(texts: Coded, by: Plan) -> NDArray[np.int64]:
    """[n], places in the plan's labels; -1 for none."""
    place = {label: at for at, label in enumerate(by.labels)}
    return np.array([*(place.get(name, -1) for name in texts.names), -1], dtype=np.int64)[texts.codes]


def _assisted(ledger: Ledger, weighed: Weighed, loss: Array) -> Array:
    """The predicted loss is 1 - confidence; where that is unknown, a half."""
    f = 1 - np.where(np.isnan(ledger.confidence), 0.5, ledger.confidence)
    phi = f + weighed.weights * np.where(weighed.weights > 0, loss - f, 0.0)
    out = np.zeros((2, 3))
    for at, rows in enumerate((weighed.inside, weighed.inside & (ledger.actions.codes == ANSWER))):
        out[at] = phi[rows].sum(), np.square(phi[rows]).sum(), rows.sum()
    return out


def _bounds(ledger: Ledger, weighed: Weighed, loss: Array) -> Array:
    p = ledger.label_probability
    v = np.divide(1.0, p, out=np.zeros(len(p)), where=(p > 0) & ledger.drawn & weighed.inside)
    out = np.zeros((2, 3))
    for at, rows in enumerate((np.ones(len(p), dtype=bool), ledger.answered)):
        done = rows & ledger.reviewed
        out[at] = (v[done] * loss[done]).sum(), v[rows & ~ledger.reviewed].sum(), v[rows].sum()
    return out


def _plain_rows(ledger: Ledger, by: Plan, weighed: Weighed) -> NDArray[np.bool_]:
    """Labelled rows, thinned so that every record of the traffic had the same chance to be among them."""
    if by.all_known:
        return ledger.known
    keep = np.divide(by.plain_share, weighed.chance, out=np.zeros(len(ledger)), where=weighed.chance > 0)
    thin = hashing.shares(hashing.mixed(weighed.hashes, THIN)) < keep
    return (weighed.weights > 0) & thin


def _sample(ledger: Ledger, by: Plan, rows: NDArray[np.bool_], order: NDArray[np.uint64]) -> Sample:
    index = np.flatnonzero(rows)
    index = index[np.argsort(order[index], kind="stable")][:SAMPLE]
    none = np.full(len(index), -1, dtype=np.int64)
    return Sample(
        quality=ledger.quality[index],
        confidence=ledger.confidence[index],
        top_probability=ledger.top_probability[index],
        predicted=none if ledger.predicted is None else _labels(ledger.predicted, by)[index],
        true=none if ledger.true is None else _labels(ledger.true, by)[index],
        scores={name: u[index] for name, u in ledger.scores.items()},
        order=order[index],
    )


def _join_samples(parts: Sequence[Sample]) -> Sample:
    order = np.concatenate([p.order for p in parts])
    chosen = np.argsort(order, kind="stable")[:SAMPLE]
    names = dict.fromkeys(name for p in parts for name in p.scores)

    def column(name: str) -> Any:
        return np.concatenate([getattr(p, name) for p in parts])[chosen]

    return Sample(
        **{f.name: column(f.name) for f in fields(Sample) if f.name not in ("scores", "order")},
        scores={
            name: np.concatenate([p.scores.get(name, np.full(len(p.order), np.nan)) for p in parts])[chosen]
            for name in names
        },
        order=order[chosen],
    )


def _join_weighted(parts: Sequence[Weighted]) -> Weighted:
    names = dict.fromkeys(name for p in parts for name in p.calibration)
    scores = dict.fromkeys(name for p in parts for name in p.scores)
    return Weighted(
        calibration={
            name: CalibrationSums(
                **{
                    f.name: _sum([getattr(p.calibration[name], f.name) for p in parts if name in p.calibration])
                    for f in fields(CalibrationSums)
                }
            )
            for name in names
        },
        scores={name: _join_scores([p.scores[name] for p in parts if name in p.scores]) for name in scores},
        classes=_sum([p.classes for p in parts]),
        right_labels=_sum([p.right_labels for p in parts]),
    )


def _join_scores(parts: Sequence[ScoreSums]) -> ScoreSums:
    return ScoreSums(
        fine=RankSums(
            **{
                name: _sum([getattr(p.fine, name) for p in parts])
                for name in ("n", "weight", "loss", "wrong", "of_loss")
            },
            losses=parts[0].fine.losses,
        ),
        coarse={name: _sum([p.coarse[name] for p in parts]) for name in parts[0].coarse},
        labelled=sum(p.labelled for p in parts),
    )


def _sum(arrays: Sequence[Array]) -> Array:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


def _coarse_size(by: Plan, name: str) -> int:
    return int(by.coarse[name].max(initial=0)) + 1

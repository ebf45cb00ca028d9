"""Sums that hang on the weights of labels: calibration, ranking, F1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import UNLOGGED, Ledger
from demur.audit.metrics.calibration import bin_numbers
from demur.audit.metrics.top_k import ks_of
from demur.audit.report.plan import COARSE, AuditPlan, labels_of
from demur.audit.report.rank_sums import RankSums
from demur.audit.report.sums import added_up, numbered, summed
from demur.audit.report.survey import CONFIDENCE, TOP, doubts
from demur.uncertainty.checks import Array

CALIBRATION_BINS = 15
PAIR_BINS = 1 << 16
"""Equal intervals by which pairs of row and label are ranked for ACE@k."""

MOST_F1_CLASSES = 1_000
"""With more, macro F1 has no interval."""


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
    errors: Array
    """Of the labelled ones, those that are not wholly right."""

    w_w: Array
    """[15], of the squares of the weights."""

    rank_n: Array
    """[g, b], rows by bin of equal counts; so is the next, of weight times (outcome - confidence)."""

    rank_gap: Array
    fine_n: Array
    """[v], rows by value of the confidence; so is the next, as `rank_gap`."""

    fine_gap: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreSums:
    """Weighted sums for one score."""

    fine: RankSums
    """By value of the score."""

    coarse: Mapping[str, Array]
    """[g, 256] each by unit: `n`, `weight`, `loss`, `wrong`; and `of_loss` [g, l]."""

    errors: Array
    """[v], labelled rows that are not wholly right, by value of the score."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSums:
    """Everything that hangs on the weights of labels."""

    calibration: Mapping[str, CalibrationSums]
    """`after`, `before`; of the k most probable labels `after@k`, `before@k`."""

    at_k: Mapping[int, Array]
    """[g, 6] for each k: weight; weight times precision; weight of the rows in which any label holds, and times their
    recall; weight of the answered rows, and times the share of their k labels that do not hold."""

    scores: Mapping[str, ScoreSums]
    classes: Array
    """[g, 2, c], weight of the hits, and of all mentions, by label."""

    right_labels: Array
    """[3, c], weight of the rows in which a label holds; that times the model's probability for it; and the weight of
    the rows whose record does not tell this probability."""


def weighted_sums(
    ledger: Ledger,
    by: AuditPlan,
    weights: Array,
    units: NDArray[np.intp],
    n_units: int,
    loss: Array,
    rows: NDArray[np.bool_],
    places: Mapping[str, NDArray[np.intp]],
) -> WeightedSums:
    """The sums of `rows`, of which those with a weight have a label. `places` has, for each score, the place of every
    row [n] among its values."""
    quality = 1 - loss
    calibration = {}
    for when, name, confidence in (("after", CONFIDENCE, ledger.confidence), ("before", TOP, ledger.top_probability)):
        inside = rows & ~np.isnan(confidence)
        if by.exclusive or when == "after":
            calibration[when] = _calibration(
                confidence[inside], quality[inside], weights[inside], units[inside], n_units,
                fine=places[name][inside], n_fine=len(by.values[name]), coarse=by.coarse[name], binary=by.binary,
            )  # fmt: skip
    if ledger.top is not None:
        for k in ks_of(by.top_k):
            for when, forecasts in (("after", ledger.top.calibrated), ("before", ledger.top.probabilities)):
                pairs = rows[:, None] & ~np.isnan(forecasts[:, :k])  # a row may name fewer labels
                c, of_row = forecasts[:, :k][pairs], np.nonzero(pairs)[0]
                y = np.nan_to_num(ledger.top.hits[:, :k][pairs])
                calibration[f"{when}@{k}"] = _calibration(
                    c, y, weights[of_row], units[of_row], n_units,
                    fine=PAIR_BINS - 1 - np.minimum((c * PAIR_BINS).astype(np.intp), PAIR_BINS - 1), n_fine=PAIR_BINS,
                    coarse=np.arange(PAIR_BINS) // (PAIR_BINS // COARSE), binary=True,
                )  # fmt: skip
    scores = {
        name: _score(by, name, np.flatnonzero(rows & ~np.isnan(u)), places[name], loss, weights, units, n_units)
        for name, u in doubts(ledger).items()
        if name in by.values
    }
    classes, right_labels = _classes(ledger, by, weights, units, n_units)
    at_k = {} if ledger.top is None else {k: _at_k(ledger, k, weights, units, n_units, rows) for k in ks_of(by.top_k)}
    return WeightedSums(calibration=calibration, at_k=at_k, scores=scores, classes=classes, right_labels=right_labels)


def joined(parts: Sequence[WeightedSums]) -> WeightedSums:
    names = dict.fromkeys(name for p in parts for name in p.calibration)
    scores = dict.fromkeys(name for p in parts for name in p.scores)
    return WeightedSums(
        calibration={
            name: CalibrationSums(
                **{
                    f.name: added_up([getattr(p.calibration[name], f.name) for p in parts if name in p.calibration])
                    for f in fields(CalibrationSums)
                }
            )
            for name in names
        },
        at_k={
            k: added_up([p.at_k[k] for p in parts if k in p.at_k])
            for k in dict.fromkeys(k for p in parts for k in p.at_k)
        },
        scores={name: _join_scores([p.scores[name] for p in parts if name in p.scores]) for name in scores},
        classes=added_up([p.classes for p in parts]),
        right_labels=added_up([p.right_labels for p in parts]),
    )


def _at_k(
    ledger: Ledger, k: int, weights: Array, units: NDArray[np.intp], n_units: int, rows: NDArray[np.bool_]
) -> Array:
    """Add up the k most probable labels of each row. A label that is not named counts as one that does not hold."""
    assert ledger.top is not None
    told = rows & (weights > 0) & ~np.isnan(ledger.top.right)
    right, w, answered = ledger.top.right[told], weights[told], ledger.answered[told]
    found = np.nansum(ledger.top.hits[told, :k], axis=1)
    recall = np.divide(found, right, out=np.zeros(len(right)), where=right > 0)
    amounts = [w, w * found / k, w * (right > 0), w * recall, w * answered, w * answered * (1 - found / k)]
    return np.stack([summed(units[told], one, n_units) for one in amounts], axis=1)


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
    """Add up rows [n], labelled or not: those without a label weigh 0. `fine` [n] is the place of each among `n_fine`
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
        errors=numbered(number[x][yx < 1], CALIBRATION_BINS),
        w_w=summed(number[x], wx * wx, CALIBRATION_BINS),
        rank_n=numbered(ranks, n_units * size).reshape(n_units, size),
        rank_gap=summed(ranks, gap, n_units * size).reshape(n_units, size),
        fine_n=numbered(fine, n_fine),
        fine_gap=summed(fine, gap, n_fine),
    )


def _score(
    by: AuditPlan,
    name: str,
    inside: NDArray[np.intp],
    places: NDArray[np.intp],
    loss: Array,
    weights: Array,
    units: NDArray[np.intp],
    n_units: int,
) -> ScoreSums:
    """Add up one score over the rows at the positions `inside`."""
    values, size = by.values[name], _coarse_size(by, name)
    fine = places[inside]
    coarse = by.coarse[name][fine] if len(values) else fine
    w, lost, unit = weights[inside], loss[inside], units[inside]
    x = w > 0
    wrong = (lost > 0).astype(np.float64)
    index = np.clip(np.searchsorted(by.losses, lost[x].round(9)), 0, len(by.losses) - 1)
    n_losses = len(by.losses)

    def by_value(amounts: Array) -> Array:
        return summed(fine[x], amounts[x], len(values))

    def per_unit(amounts: Array) -> Array:
        place = unit[x] * size + coarse[x]
        return summed(place, amounts[x], n_units * size).reshape(n_units, size)

    of_loss = summed(unit[x] * n_losses + index, w[x], n_units * n_losses)
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
        errors=numbered(fine[x & (lost > 0)], len(values)),
    )


def _classes(
    ledger: Ledger, by: AuditPlan, weights: Array, units: NDArray[np.intp], n_units: int
) -> tuple[Array, Array]:
    """Hits and mentions by label; and of right labels the weight, that times their probability, and the weight of those
    whose probability is not on record."""
    size = len(by.labels)
    if size > MOST_F1_CLASSES:
        units, n_units = np.zeros(len(ledger), dtype=np.intp), 1
    shape = (n_units, size)
    right = np.zeros((3, size))

    def added(rows: NDArray[np.intp], label: NDArray[np.int64]) -> Array:
        return summed(units[rows] * size + label, weights[rows], n_units * size).reshape(shape)

    if ledger.mentions is not None:
        m = ledger.mentions
        inside = weights[m.rows] > 0
        rows, label = m.rows[inside], labels_of(m.labels, by)[inside]
        predicted, holds, chance = m.predicted[inside], m.right[inside], m.probability[inside]
        hits = added(rows[predicted & holds], label[predicted & holds])
        named = added(rows[predicted], label[predicted]) + added(rows[holds], label[holds])
        return np.stack([hits, named], axis=1), _of_right(label[holds], weights[rows[holds]], chance[holds], size)
    if ledger.predicted is None or ledger.true is None:
        return np.zeros((n_units, 2, size)), right
    rows = np.flatnonzero(weights > 0)
    guess, true = labels_of(ledger.predicted, by)[rows], labels_of(ledger.true, by)[rows]
    hit, said, is_known = guess == true, guess >= 0, true >= 0
    hits = added(rows[hit & said], guess[hit & said])
    named = added(rows[said], guess[said]) + added(rows[is_known], true[is_known])
    if ledger.true_probability is not None:
        p = ledger.true_probability[rows]
        told = is_known & ~np.isnan(p)
        right = _of_right(true[told], weights[rows[told]], p[told], size)
    return np.stack([hits, named], axis=1), right


def _of_right(label: NDArray[np.int64], weights: Array, probability: Array, size: int) -> Array:
    """[3, size]; `probability` [m] is what the model gave to labels that hold, or UNLOGGED."""
    lost = probability == UNLOGGED
    given = np.where(lost, 0.0, probability)
    return np.stack([summed(label, part, size) for part in (weights, weights * given, weights * lost)])


def _join_scores(parts: Sequence[ScoreSums]) -> ScoreSums:
    return ScoreSums(
        fine=RankSums(
            **{
                name: added_up([getattr(p.fine, name) for p in parts])
                for name in ("n", "weight", "loss", "wrong", "of_loss")
            },
            losses=parts[0].fine.losses,
        ),
        coarse={name: added_up([p.coarse[name] for p in parts]) for name in parts[0].coarse},
        errors=added_up([p.errors for p in parts]),
    )


def _coarse_size(by: AuditPlan, name: str) -> int:
    return int(by.coarse[name].max(initial=0)) + 1

"""What is counted in every cell: all records, each group, each window of time, and so on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import REVIEW, Ledger
from demur.audit.report.plan import AuditPlan, LabelWeights
from demur.audit.report.sums import summed
from demur.uncertainty.checks import Array, Mask

COUNTS = (
    "n", "answered", "review", "undefined", "drawn", "reviewed", "by_chance",
    "a_drawn", "a_reviewed", "v", "v_missing", "v_loss", "a_v", "a_v_missing", "a_v_loss",
    "set_v", "set_v_done", "set_v_missed", "set_v_lost", "set_v_right",
    "labelled", "w", "w_w", "w_loss", "wrong", "w_wrong", "w_w_wrong", "w_4_wrong",
    "a_labelled", "a_w", "a_w_w", "a_w_loss", "a_wrong", "a_w_wrong",
    "chance_labelled", "chance_wrong", "known", "k_loss", "k_wrong", "a_known", "a_k_loss", "a_k_wrong",
    "set_n", "set_size", "set_empty", "set_single", "set_w", "set_w_missed", "k_set", "k_set_missed",
    "set_w_right", "set_w_lost", "k_set_right", "k_set_lost", "k_set_with_right",
    "set_w_missed_missed", "set_w_lost_lost", "set_w_lost_right", "set_w_right_right",
    "gap_w", "gap_w_citl",
)  # fmt: skip
"""What is counted in every cell. `w` sums weights, `w_w` their squares, `w_4` the squares of these; `a_` is of the
answered rows; `k` counts each row with an outcome as one, whoever labelled it. `set_w_right` sums the labels that hold,
`set_w_lost` those of them that are missing from their sets. `by_chance` are rows that got a label with a probability
below 1, `chance_labelled` and `chance_wrong` their labels (METHODS 10.13). `v` sums 1 / probability of the rows that
were drawn, whether or not they are reviewed; `v_missing` is of those that are not, `v_loss` of the others' losses."""

RESAMPLED = (
    "w", "w_loss", "a_w", "a_w_loss", "w_wrong", "a_w_wrong", "set_w", "set_w_missed", "set_w_right", "set_w_lost",
    "gap_w", "gap_w_citl",
)  # fmt: skip
"""Those of them that are kept by unit."""

OF_ALL = [COUNTS.index(name) for name in (*COUNTS[:20], "set_n", "set_size", "set_empty", "set_single")]
OF_LABELLED = [column for column in range(len(COUNTS)) if column not in OF_ALL]
"""Those that are 0 in rows without an outcome."""

LABEL_ROW = np.dtype([("cell", "i4"), ("loss", "f8"), ("weight", "f8"), ("count", "i8")])
"""What a labelled row counts for: how often it came, by cell, loss and weight."""


def cell_sums(
    ledger: Ledger,
    by: AuditPlan,
    weighed: LabelWeights,
    loss: Array,
    every: Sequence[NDArray[np.intp]],
) -> tuple[Array, Array, NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
    """Return [cells, COUNTS]; [g, cells, RESAMPLED]; the distinct labelled answers; the distinct labelled prediction
    sets, whose loss is the share of what is right that they lack; and those of them for which a label holds."""
    w, x, a, known = weighed.weights, weighed.weights > 0, ledger.answered, ledger.known
    missed, told, right = set_misses(ledger)
    columns = _of_rows(ledger, by, weighed, loss) | _of_sets(ledger, weighed)
    table = np.stack([np.asarray(columns[name], dtype=np.float64) for name in COUNTS])
    counts = np.zeros((by.n_cells, len(COUNTS)))
    by_unit = np.zeros((weighed.n_units, by.n_cells, len(RESAMPLED)))
    rows_of = [COUNTS.index(name) for name in RESAMPLED]
    labelled, told_of = np.flatnonzero(x), np.flatnonzero(x | known)
    answers: list[NDArray[np.void]] = []
    sets: list[NDArray[np.void]] = []
    with_labels: list[NDArray[np.void]] = []
    at = 0
    for dimension, cell in zip(by.dimensions, every, strict=True):
        size_here = len(dimension.cells)
        if size_here == 0:
            continue
        for rows, wanted in ((None, OF_ALL), (told_of, OF_LABELLED)):
            there = cell if rows is None else cell[rows]
            here = there >= 0
            inside = slice(None) if here.all() else here
            for column in wanted:
                amounts = table[column] if rows is None else table[column, rows]
                counts[at : at + size_here, column] = summed(there[inside], amounts[inside], size_here)
        rows = labelled[cell[labelled] >= 0]
        places = weighed.units[rows] * size_here + cell[rows]
        for column, row in enumerate(rows_of):
            by_unit[:, at : at + size_here, column] = summed(
                places, table[row, rows], weighed.n_units * size_here
            ).reshape(weighed.n_units, size_here)
        for chosen, of, parts in ((a, loss, answers), (told, missed, sets), (right > 0, missed, with_labels)):
            there = rows[chosen[rows]]
            part = np.zeros(len(there), dtype=LABEL_ROW)
            part["cell"], part["loss"], part["weight"], part["count"] = at + cell[there], of[there], w[there], 1
            parts.append(distinct(part))
        at += size_here
    return counts, by_unit, np.concatenate(answers), np.concatenate(sets), np.concatenate(with_labels)


def _of_rows(ledger: Ledger, by: AuditPlan, weighed: LabelWeights, loss: Array) -> dict[str, Array]:
    """[n] each, what every row adds to the columns of `COUNTS` that are not about prediction sets."""
    w, x, a, known = weighed.weights, weighed.weights > 0, ledger.answered, ledger.known
    wrong = (loss > 0).astype(np.float64)
    sure = x & ~np.isnan(ledger.confidence)
    gap = np.where(sure, np.nan_to_num(ledger.confidence) - (1 - loss), 0.0)
    p = ledger.label_probability
    v, done = _drawn_weights(ledger, weighed), ledger.reviewed & weighed.inside
    by_chance = np.zeros(len(ledger), dtype=bool) if by.all_known else weighed.inside & (p > 0) & (p < 1)
    return {
        "n": np.ones(len(ledger)),
        "answered": a,
        "review": ledger.actions.codes == REVIEW,
        "undefined": np.isnan(ledger.confidence),
        "drawn": ledger.drawn & weighed.inside,
        "reviewed": ledger.reviewed & weighed.inside,
        "by_chance": by_chance,
        "a_drawn": ledger.drawn & weighed.inside & a,
        "a_reviewed": done & a,
        "v": v,
        "v_missing": v * ~done,
        "v_loss": v * done * loss,
        "a_v": v * a,
        "a_v_missing": v * ~done * a,
        "a_v_loss": v * done * loss * a,
        "labelled": x,
        "w": w,
        "w_w": w * w,
        "w_loss": w * loss,
        "wrong": x * wrong,
        "w_wrong": w * wrong,
        "w_w_wrong": w**2 * wrong,
        "w_4_wrong": w**4 * wrong,
        "a_labelled": x & a,
        "a_w": w * a,
        "a_w_w": w * w * a,
        "a_w_loss": w * loss * a,
        "a_wrong": x * wrong * a,
        "a_w_wrong": w * wrong * a,
        "chance_labelled": x & by_chance,
        "chance_wrong": x & by_chance & (loss > 0),
        "known": known,
        "k_loss": known * loss,
        "k_wrong": known * wrong,
        "a_known": known & a,
        "a_k_loss": known * loss * a,
        "a_k_wrong": known * wrong * a,
        "gap_w": w * sure,
        "gap_w_citl": w * gap,
    }


def _of_sets(ledger: Ledger, weighed: LabelWeights) -> dict[str, Array]:
    """[n] each, what the prediction set of every row adds."""
    w, v, done = weighed.weights, _drawn_weights(ledger, weighed), ledger.reviewed & weighed.inside
    in_set = ~np.isnan(ledger.set_size)
    missed, told, right = set_misses(ledger)
    lost = np.round(missed * right)
    size = np.nan_to_num(ledger.set_size)
    return {
        "set_v": v * in_set,
        "set_v_done": v * (done & told),
        "set_v_missed": v * (done & told) * missed,
        "set_v_lost": v * (done & told) * lost,
        "set_v_right": v * (done & told) * right,
        "set_n": in_set,
        "set_size": size,
        "set_empty": in_set & (size == 0),
        "set_single": in_set & (size == 1),
        "set_w": w * told,
        "set_w_missed": w * missed,
        "k_set": told,
        "k_set_missed": missed,
        "set_w_right": w * right,
        "set_w_lost": w * lost,
        "k_set_right": right,
        "k_set_lost": lost,
        "k_set_with_right": right > 0,
        "set_w_missed_missed": w * missed * missed,
        "set_w_lost_lost": w * lost * lost,
        "set_w_lost_right": w * lost * right,
        "set_w_right_right": w * right * right,
    }


def set_misses(ledger: Ledger) -> tuple[Array, Mask, Array]:
    """[n] each: the share of what is right that the set lacks, whether that is known, and how many labels hold."""
    told = ~np.isnan(ledger.covered)
    return (
        1 - np.nan_to_num(ledger.covered, nan=1.0),
        told,
        np.where(told, np.nan_to_num(ledger.right_labels), 0.0),
    )


def as_sets(ledger: Ledger) -> Ledger:
    """Return the ledger with the predicted labels of each row in the place of its prediction set. A row without a
    prediction predicts no label."""
    n, mentions = len(ledger), ledger.mentions
    if mentions is None:  # labels exclude each other: the one that holds is predicted, or not
        return replace(ledger, covered=ledger.quality, set_size=np.ones(n))
    right = np.bincount(mentions.rows[mentions.right], minlength=n)
    found = np.bincount(mentions.rows[mentions.right & mentions.predicted], minlength=n)
    share = np.where(right > 0, found / np.maximum(right, 1), 1.0)
    return replace(ledger, covered=np.where(ledger.known, share, np.nan), set_size=np.ones(n))


def _drawn_weights(ledger: Ledger, weighed: LabelWeights) -> Array:
    """[n], 1 / probability of the rows that were drawn, else 0."""
    p = ledger.label_probability
    return np.divide(1.0, p, out=np.zeros(len(p)), where=(p > 0) & ledger.drawn & weighed.inside)


def distinct(rows: NDArray[np.void]) -> NDArray[np.void]:
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
    found = rows[starts].copy()
    found["count"] = np.add.reduceat(rows["count"], starts)
    return found

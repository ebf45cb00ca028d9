"""What the labels say, corrected for who was labelled, beside the plain count, with an interval where there is one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.evidence import Status
from audit.intervals import clopper_pearson, normal_quantile
from audit.report import rank_sums
from audit.report.plan import Plan
from audit.report.rank_sums import RankSums
from audit.report.resamples import Resamples
from audit.report.survey import CHECKED, TOP
from audit.report.tally import COUNTS, RESAMPLED, CalibrationSums, ScoreSums, Tally
from audit.resampling import Interval
from audit.risk_sequence import fixed_bounds
from uncertainty.checks import Array

NO_INTERVAL = Interval(lower=np.nan, upper=np.nan)

MIN_LABELLED, MIN_EFFECTIVE, MIN_EVENTS = 30, 20, 5
"""Those of `audit.evidence`."""

REFUSED = "refused"
"""Of a kind of records people were asked about, none was reviewed: nothing stands for them."""

COUNTED = "counted"
"""No label is needed: every record is known."""

BOOTSTRAP, EXACT, SEQUENCE, NORMAL = "bootstrap", "exact", "sequence", "normal"


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """What a number about some records rests on."""

    n: int
    labelled: int
    effective: float
    """How many labels of equal weight would tell as much; NaN without any."""

    events: int
    """Labelled rows that are not wholly right."""

    status: str
    """A `Status`, `REFUSED` or `COUNTED`."""

    @property
    def enough(self) -> bool:
        return self.status in (Status.SUFFICIENT, Status.EXACT_ONLY)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number of a report; None where it is undefined, or where the evidence is insufficient."""

    name: str
    of: str
    """The score, the part or the k that it is about; empty for the whole."""

    value: float | None
    lower: float | None
    upper: float | None
    method: str | None
    """How the interval was made; None where there is none."""

    naive: float | None
    """The same of all rows with an outcome, each counted once: what one would have said without weights."""

    grounds: Grounds
    meaning: str


class Counts:
    """Columns of `COUNTS` of one tally, by name: [cells] each."""

    def __init__(self, table: Array) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._table[:, COUNTS.index(name)])


def grounds_of(counts: Counts, by: Plan, cell: int, *, answered: bool = False) -> Grounds:
    """What is known of a cell, or of its answered rows."""
    a = "a_" if answered else ""
    labelled, w, w_w = (float(counts[a + name][cell]) for name in ("labelled", "w", "w_w"))
    events = int(counts[a + "wrong"][cell])
    effective = w * w / w_w if w_w > 0 else np.nan
    refused = (CHECKED in by.refused) if answered else bool(by.refused)
    if not by.labels_meant or (refused and counts["drawn"][cell] > counts["reviewed"][cell]):
        status = REFUSED
    elif labelled == 0:
        status = Status.NONE.value
    elif labelled < MIN_LABELLED or effective < MIN_EFFECTIVE:
        status = Status.INSUFFICIENT.value
    elif min(events, labelled - events) < MIN_EVENTS:
        status = Status.EXACT_ONLY.value
    else:
        status = Status.SUFFICIENT.value
    return Grounds(
        n=int(counts["answered" if answered else "n"][cell]),
        labelled=int(labelled),
        effective=effective,
        events=events,
        status=status,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A tally, how it was weighed, and its resamples."""

    by: Plan
    tally: Tally
    counts: Counts
    resamples: Resamples
    by_unit: Array
    """[b, cells, RESAMPLED]."""

    @classmethod
    def of(cls, by: Plan, tally: Tally, resamples: Resamples) -> "Evidence":
        return cls(
            by=by,
            tally=tally,
            counts=Counts(tally.counts),
            resamples=resamples,
            by_unit=resamples.of(tally.by_unit),
        )

    def ratio(self, above: str, below: str) -> tuple[Array, Array, Array]:
        """[cells] each: one weighted sum over another, and the bootstrap's interval for it."""
        value = over(self.counts[above], self.counts[below])
        values = over(self.by_unit[..., RESAMPLED.index(above)], self.by_unit[..., RESAMPLED.index(below)])
        return value, *self.resamples.intervals(values)


def risks(evidence: Evidence, *, answered: bool) -> list[Estimate]:
    """[cells], the mean loss of each cell, or of its answered rows, with the interval that its labels can carry."""
    a = "a_" if answered else ""
    value, lower, upper = evidence.ratio(a + "w_loss", a + "w")
    naive = over(evidence.counts[f"{a}k_loss"], evidence.counts[f"{a}known"])
    found = []
    for cell in range(len(value)):
        grounds = grounds_of(evidence.counts, evidence.by, cell, answered=answered)
        resampled = Interval(lower=lower[cell], upper=upper[cell])
        interval, method = _risk_interval(evidence, cell, grounds, resampled, answered=answered)
        found.append(
            estimate(
                "selective_risk" if answered else "risk",
                value[cell],
                interval,
                naive[cell],
                grounds,
                SELECTIVE_RISK if answered else RISK,
                method=method,
            )
        )
    return found


RISK = "share of predictions that are wrong, answered or not (of label sets: mean loss of similarity)"
SELECTIVE_RISK = "share of the answers that are wrong (of label sets: mean loss of similarity)"


def _risk_interval(
    evidence: Evidence, cell: int, grounds: Grounds, resampled: Interval, *, answered: bool
) -> tuple[Interval, str]:
    """Exact where every label had the same chance; else by resampling, or, of few errors, by bets (METHODS 9.3)."""
    by, delta = evidence.by, evidence.by.settings.delta
    rows = evidence.tally.answered_labels
    rows = rows[rows["cell"] == cell]
    one_weight = by.all_known or (answered and len(rows) > 0 and np.ptp(rows["weight"]) <= 1e-9 * rows["weight"].max())
    if one_weight and by.binary and not by.clustered:
        return clopper_pearson(grounds.events, grounds.labelled, delta), EXACT
    if grounds.status == Status.EXACT_ONLY and answered and not by.clustered:
        return fixed_bounds(rows["loss"], rows["weight"], rows["count"], delta), SEQUENCE
    return (resampled if grounds.status == Status.SUFFICIENT else NO_INTERVAL), BOOTSTRAP


def whole(evidence: Evidence) -> Iterator[Estimate]:
    """Every number about all records."""
    counts, by = evidence.counts, evidence.by
    total = grounds_of(counts, by, 0)
    all_rows, answers = risks(evidence, answered=False)[0], risks(evidence, answered=True)[0]
    yield from (answers, all_rows)
    yield from _assisted(evidence, all_rows, answers)
    n = float(counts["n"][0])
    yield counted("coverage", counts["answered"][0] / n, int(n), "share of predictions that are answered")
    yield counted("deferral_rate", counts["review"][0] / n, int(n), "share that is held for a person")
    yield counted("abstention_rate", (n - counts["answered"][0] - counts["review"][0]) / n, int(n), ABSTAINED)
    caught = 1 - over(counts["a_w_wrong"], counts["w_wrong"])[0]
    index = RESAMPLED.index
    resampled = 1 - over(evidence.by_unit[:, 0, index("a_w_wrong")], evidence.by_unit[:, 0, index("w_wrong")])
    naive = 1 - over(counts["a_k_loss"], counts["k_loss"])[0]
    yield estimate("caught_errors", caught, evidence.resamples.interval(resampled), naive, total, CAUGHT)
    yield from _sets(evidence, total)
    yield from _classes(evidence, total)
    for when in evidence.tally.weighted.calibration:
        yield from _calibration(evidence, when, total)
    for name in evidence.tally.weighted.scores:
        if name != TOP:
            yield from _score(evidence, name, total)


ABSTAINED = "share that is neither answered nor given to a person"
CAUGHT = "share of all errors that were not answered"


def _assisted(evidence: Evidence, *plain: Estimate) -> Iterator[Estimate]:
    """Predictions of all rows, put right by the labels of some (AIPW, METHODS 9.2)."""
    z = normal_quantile(evidence.by.settings.delta)
    for row, of in zip(evidence.tally.assisted, plain, strict=True):
        phi, squares, n = row.tolist()
        if n < 2:
            continue
        mean = phi / n
        error = np.sqrt(max(0.0, squares - n * mean * mean) / (n * (n - 1)))
        interval = Interval(lower=mean - z * error, upper=mean + z * error)
        if of.grounds.status != Status.SUFFICIENT or evidence.by.clustered:
            interval = NO_INTERVAL
        yield estimate(
            f"{of.name}_assisted", mean, interval, of.naive, of.grounds, f"{of.meaning}; {ASSISTED}", method=NORMAL
        )


ASSISTED = "foreseen from the confidence of every record, and put right by the labels (AIPW)"


def _sets(evidence: Evidence, total: Grounds) -> Iterator[Estimate]:
    counts = evidence.counts
    n = float(counts["set_n"][0])
    if not n or not counts["set_size"][0]:
        return
    value, lower, upper = evidence.ratio("set_w_missed", "set_w")
    if counts["set_w"][0]:
        interval = Interval(lower=1 - upper[0], upper=1 - lower[0])
        naive = 1 - over(counts["k_set_missed"], counts["k_set"])[0]
        yield estimate("set_coverage", 1 - value[0], interval, naive, total, SET_COVERAGE)
    yield counted("set_size", counts["set_size"][0] / n, int(n), "mean number of labels in a prediction set")
    yield counted("set_single", counts["set_single"][0] / n, int(n), "share of sets of one label")
    yield counted("set_empty", counts["set_empty"][0] / n, int(n), "share of empty sets")


SET_COVERAGE = "share of prediction sets that hold the right label; of several, the mean share that they hold"


def _classes(evidence: Evidence, total: Grounds) -> Iterator[Estimate]:
    classes = evidence.tally.weighted.classes
    naive = f1_by_class(evidence.tally.naive.classes.sum(axis=0))
    if classes.shape[-1] == 0:
        return
    f1 = f1_by_class(classes.sum(axis=0))
    interval = NO_INTERVAL
    if len(classes) > 1:
        interval = evidence.resamples.interval(_mean_known(f1_by_class(evidence.resamples.of(classes))))
    yield estimate("macro_f1", _mean_known(f1), interval, _mean_known(naive), total, MACRO_F1)
    right, naive_right = evidence.tally.weighted.right_labels, evidence.tally.naive.right_labels
    if right[0].any():
        missing, naive_missing = (1 - over(x[1], x[0]) for x in (right, naive_right))
        yield estimate(
            "ece_plus_before", _mean_known(missing), NO_INTERVAL, _mean_known(naive_missing), total, ECE_PLUS
        )


MACRO_F1 = "mean over labels of the F1 of all predictions"
ECE_PLUS = (
    "ECE+: mean over labels of 1 less the mean probability that the model gave to the label where it held; 0 is best"
)


def f1_by_class(sums: Array) -> Array:
    """[..., c] from hits and mentions [..., 2, c]; NaN for a label that is not mentioned."""
    return over(2 * sums[..., 0, :], sums[..., 1, :])


def _mean_known(values: Array) -> Any:
    """[...], the mean over the last axis without NaN; NaN of nothing else."""
    there = ~np.isnan(values)
    return over(np.where(there, values, 0.0).sum(axis=-1), there.sum(axis=-1).astype(np.float64))


CALIBRATION: Mapping[str, tuple[Callable[[Mapping[str, Array]], Array], str]] = {
    "ece": (
        lambda s: over(np.abs(s["wy"] - s["wc"]).sum(axis=-1), s["w"].sum(axis=-1)),
        "gap of confidence and share right, over 15 equal intervals, averaged over rows; label noise raises it",
    ),
    "ace": (
        lambda s: rank_sums.ace(s["rank_n"], s["rank_gap"], s["w"].sum(axis=-1)),
        "the same over 10 bins of equal numbers of records",
    ),
    "brier": (lambda s: over(s["moments"][..., 2], s["moments"][..., 4]), "mean squared gap of confidence and outcome"),
    "nll": (
        lambda s: over(s["moments"][..., 3], s["moments"][..., 4]),
        "mean of -ln of the probability given to what happened, in nats",
    ),
    "citl": (
        lambda s: over(s["wc"].sum(axis=-1) - s["wy"].sum(axis=-1), s["w"].sum(axis=-1)),
        "mean confidence less share right: above 0 promises too much",
    ),
    "c_slope": (lambda s: _slope(s), "slope of outcome on confidence: 1 is ideal, below 1 over-confident"),
}

PARTS = ("w", "wc", "wy", "moments", "rank_n", "rank_gap")


def _calibration(evidence: Evidence, when: str, total: Grounds) -> Iterator[Estimate]:
    sums, naive = evidence.tally.weighted.calibration[when], evidence.tally.naive.calibration[when]
    here, plain = _totals(sums), _totals(naive)
    again = {name: evidence.resamples.of(getattr(sums, name)) for name in PARTS}
    suffix = "" if when == "after" else "_before" if when == "before" else _at_k(when)
    for name, (metric, meaning) in CALIBRATION.items():
        if "@" in when and name in ("citl", "c_slope"):
            continue
        value = metric(here)
        if name == "nll" and np.isnan(value):
            continue
        interval = evidence.resamples.interval(metric(again))
        naive_value = metric(plain)
        if name == "ace":  # ranked by the confidence itself; the resamples by bins of it
            shift = float(_ace(sums) - value)
            interval = evidence.resamples.interval(metric(again), shift)
            value, naive_value = _ace(sums), _ace(naive)
        yield estimate(name + suffix, value, interval, naive_value, total, meaning)
    if "@" in when and when.startswith("after"):
        value, plain_value = (over(x["wy"].sum(axis=-1), x["w"].sum(axis=-1)) for x in (here, plain))
        interval = evidence.resamples.interval(over(again["wy"].sum(axis=-1), again["w"].sum(axis=-1)))
        k = when.split("@")[1]
        meaning = f"share of the {k} most probable labels that hold"
        yield estimate(f"precision_at_{k}", value, interval, plain_value, total, meaning)


def _ace(sums: CalibrationSums) -> Array:
    return rank_sums.ace(sums.fine_n, sums.fine_gap, sums.w.sum())


def _at_k(when: str) -> str:
    place, k = when.split("@")
    return f"_at_{k}{'' if place == 'after' else '_before'}"


def _totals(sums: CalibrationSums) -> dict[str, Array]:
    return {name: getattr(sums, name).sum(axis=0) for name in PARTS}


def _slope(s: Mapping[str, Array]) -> Array:
    w, wc, wy = (s[name].sum(axis=-1) for name in ("w", "wc", "wy"))
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = s["moments"][..., 0] - wc * wc / w
        together = s["moments"][..., 1] - wc * wy / w
        return np.where(spread > 1e-12 * w, together / spread, np.nan)


SCORES: Mapping[str, str] = {
    "auroc": "chance that an error ranks above a right answer",
    "au_prc": "precision-recall area, errors as positives",
    "prr": "prediction rejection ratio: 1 perfect, 0 chance; with few labels it may come out above 1",
    "prr_50": "the same, rejecting half at most",
    "rc_auc": "area under the risk-coverage curve; lower is better",
    "e_aurc": "that area less the one of a perfect score; lower is better",
}


def _score(evidence: Evidence, name: str, total: Grounds) -> Iterator[Estimate]:
    sums: ScoreSums = evidence.tally.weighted.scores[name]
    if not len(sums.fine.n):
        return
    naive = evidence.tally.naive.scores[name].fine
    exact, plain = _rank_metrics(sums.fine, rank_sums.areas_of), _rank_metrics(naive, rank_sums.areas_of)
    again: dict[str, Array] = {}
    shifts: dict[str, float] = {}
    if sums.coarse and evidence.resamples.possible:
        again = _rank_metrics(_ranked(sums, evidence.resamples.of), rank_sums.resampled_areas)
        rough = _rank_metrics(_ranked(sums, lambda x: x.sum(axis=0)), rank_sums.resampled_areas)
        shifts = {metric: float(exact[metric] - rough[metric]) for metric in SCORES}
    for metric, meaning in SCORES.items():
        interval = NO_INTERVAL
        if again and not np.isnan(shifts[metric]):
            interval = evidence.resamples.interval(again[metric], shifts[metric])
        yield estimate(metric, exact[metric], interval, plain[metric], total, meaning, of=name)


def _ranked(sums: ScoreSums, summed: Callable[[Array], Array]) -> RankSums:
    return RankSums(**{part: summed(values) for part, values in sums.coarse.items()}, losses=sums.fine.losses)


def _rank_metrics(sums: RankSums, areas: Callable[..., rank_sums.RankAreas]) -> dict[str, Array]:
    all_coverages, half = areas(sums), areas(sums, max_rejection=0.5)
    return {
        "auroc": rank_sums.error_roc_auc(sums),
        "au_prc": rank_sums.error_au_prc(sums),
        "prr": all_coverages.ratio,
        "prr_50": half.ratio,
        "rc_auc": all_coverages.model,
        "e_aurc": all_coverages.model - all_coverages.oracle,
    }


def estimate(
    name: str,
    value: Any,
    interval: Interval,
    naive: Any,
    grounds: Grounds,
    meaning: str,
    *,
    of: str = "",
    method: str = BOOTSTRAP,
) -> Estimate:
    """Nothing is said that the labels cannot carry: then there is no number, whatever came out."""
    known = grounds.enough
    bounded = known and (grounds.status == Status.SUFFICIENT or method in (EXACT, SEQUENCE))
    lower, upper = (number(end) if bounded else None for end in (interval.lower, interval.upper))
    return Estimate(
        name=name,
        of=of,
        value=number(value) if known else None,
        lower=lower,
        upper=upper,
        method=None if lower is None or upper is None else method,
        naive=None if naive is None else number(naive),
        grounds=grounds,
        meaning=meaning,
    )


def counted(name: str, value: Any, n: int, meaning: str) -> Estimate:
    """Of every record, with no label needed."""
    grounds = Grounds(n=n, labelled=0, effective=np.nan, events=0, status=COUNTED)
    return Estimate(
        name=name, of="", value=number(value), lower=None, upper=None, method=None, naive=None, grounds=grounds,
        meaning=meaning,
    )  # fmt: skip


def number(value: Any) -> float | None:
    plain = float(value)
    return None if np.isnan(plain) else plain


def over(a: Any, b: Any) -> Array:
    """a / b, NaN where b is 0."""
    b = np.asarray(b, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(b > 0, np.asarray(a) / np.where(b > 0, b, 1.0), np.nan)


def named(estimates: Sequence[Estimate], name: str, of: str = "") -> Estimate | None:
    return next((one for one in estimates if one.name == name and one.of == of), None)

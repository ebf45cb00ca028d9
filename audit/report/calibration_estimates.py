"""Whether a confidence means what it says, before calibration and after, and of the k most probable labels."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from demur.audit.metrics.resampling import Interval
from demur.audit.report import rank_sums
from demur.audit.report.grounds import Estimate, Grounds, estimate, few_drawn, over
from demur.audit.report.risks import RiskEvidence
from demur.audit.report.weighted import CalibrationSums
from demur.uncertainty.checks import Array

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

NOISY = ("ece", "ace")
"""Sums of absolute gaps."""

PARTS = ("w", "wc", "wy", "moments", "rank_n", "rank_gap")


def calibration_estimates(evidence: RiskEvidence, when: str, total: Grounds) -> Iterator[Estimate]:
    sums, naive = evidence.tally.weighted.calibration[when], evidence.tally.naive.calibration[when]
    here, plain = _totals(sums), _totals(naive)
    again = {name: evidence.resamples.of(getattr(sums, name)) for name in PARTS}
    note = few_drawn(evidence.counts)
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
        if name in NOISY:
            interval = _down_to_the_noise(float(value), interval)
        yield estimate(name + suffix, value, interval, naive_value, total, meaning, note=note)


AT_K = {
    "precision": (1, 0, "share of the {k} most probable labels that hold; one that is not named counts as wrong"),
    "recall": (3, 2, "mean share of the labels that hold that are among the {k} most probable"),
    "label_risk": (5, 4, "of answered predictions, share of the {k} most probable labels that do not hold"),
}
"""Which sum of `WeightedSums.at_k` stands over which, and what that means."""


def at_k_estimates(evidence: RiskEvidence, total: Grounds, answers: Grounds) -> Iterator[Estimate]:
    """Precision, recall and risk of the k most probable labels, where labels do not exclude each other."""
    note = few_drawn(evidence.counts)
    for k, sums in evidence.tally.weighted.at_k.items():
        naive, again = evidence.tally.naive.at_k[k].sum(axis=0), evidence.resamples.of(sums)
        here = sums.sum(axis=0)
        for name, (top, bottom, meaning) in AT_K.items():
            yield estimate(
                f"{name}_at_{k}",
                over(here[top], here[bottom]),
                evidence.resamples.interval(over(again[..., top], again[..., bottom])),
                over(naive[top], naive[bottom]),
                answers if name == "label_risk" else total,
                meaning.format(k=k),
                note="" if name == "label_risk" else note,
            )


def _down_to_the_noise(value: float, interval: Interval) -> Interval:
    """Noise of labels raises a sum of absolute gaps, and resampling raises it again: the lower end is moved down to
    where the distance of the upper one, which knows of both, would put it (the basic bootstrap; Davison & Hinkley
    1997), if it is not there already."""
    if np.isnan(interval.lower):
        return interval
    return Interval(lower=max(0.0, min(interval.lower, 2 * value - interval.upper)), upper=interval.upper)


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

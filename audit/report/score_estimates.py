"""How well each score ranks errors."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from demur.audit.metrics.resampling import Interval
from demur.audit.report import rank_sums
from demur.audit.report.grounds import NO_INTERVAL, Estimate, Grounds, estimate, few_drawn, over
from demur.audit.report.rank_sums import RankSums
from demur.audit.report.resamples import widened
from demur.audit.report.risks import RiskEvidence
from demur.audit.report.weighted import ScoreSums
from demur.uncertainty.checks import Array

SCORES: Mapping[str, str] = {
    "auroc": "chance that an error ranks above a right answer",
    "au_prc": "precision-recall area, errors as positives",
    "prr": "prediction rejection ratio: 1 perfect, 0 chance; with few labels it may come out above 1",
    "prr_50": "the same, rejecting half at most",
    "rc_auc": "area under the risk-coverage curve; lower is better",
    "e_aurc": "that area less the one of a perfect score; lower is better",
}

SHARES = ("auroc", "au_prc", "rc_auc")
"""Those that lie in [0, 1]."""


def score_estimates(evidence: RiskEvidence, name: str, total: Grounds) -> Iterator[Estimate]:
    """Intervals rest on the errors alone, and on as many of equal weight as would make their variance as uncertain:
    five heavy ones among the answers count for little more than five, however many held ones stand beside them."""
    sums: ScoreSums = evidence.tally.weighted.scores[name]
    if not len(sums.fine.n):
        return
    naive = evidence.tally.naive.scores[name].fine
    exact, plain = _rank_metrics(sums.fine, rank_sums.areas_of), _rank_metrics(naive, rank_sums.areas_of)
    again: dict[str, Array] = {}
    shifts: dict[str, float] = {}
    note = few_drawn(evidence.counts)
    if sums.coarse and evidence.resamples.possible and not note:
        again = _rank_metrics(_ranked(sums, evidence.resamples.of), rank_sums.resampled_areas)
        rough = _rank_metrics(_ranked(sums, lambda x: x.sum(axis=0)), rank_sums.resampled_areas)
        shifts = {metric: float(exact[metric] - rough[metric]) for metric in SCORES}
    errors = float(over(evidence.counts["w_w_wrong"][0] ** 2, evidence.counts["w_4_wrong"][0]))
    for metric, meaning in SCORES.items():
        interval = NO_INTERVAL
        if again and not np.isnan(shifts[metric]):
            interval = evidence.resamples.interval(again[metric], shifts[metric])
            interval = widened(interval, float(exact[metric]), errors, evidence.resamples.delta)
            if metric in SHARES:
                interval = Interval(lower=max(0.0, interval.lower), upper=min(1.0, interval.upper))
        yield estimate(metric, exact[metric], interval, plain[metric], total, meaning, of=name, note=note)


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

"""What people's opinions tell: how far they agree, which labels they mix up, how often they overturn the model."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import nan

import orjson

from demur.audit.metrics.agreement import cohen_kappa, krippendorff_alpha
from demur.audit.metrics.intervals import wilson
from demur.audit.metrics.reviewers import CorrectedRate, ReviewerRates, rogan_gladen
from demur.audit.reviewer_error import rates_of
from demur.review.disagreement import DecidedCheck, LabelPair, OverturnCount, SecondLooks
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class AgreementRate:
    """The share of `n` cases on which all said the same, with its 95% interval (Wilson). NaN without a case."""

    n: int
    same: int
    share: float
    lower: float
    upper: float
    beyond_chance: float
    """Krippendorff's alpha or Cohen's kappa; NaN where nobody could have disagreed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelDisagreement:
    """How often people disagree about a label: of the pairs of opinions on one case of which at least one names it, the
    share of which the other does not."""

    label: str
    pairs: int
    apart: int
    share: float
    mixed_with: str | None
    """What the other one names most often instead; None where nobody differs, or sets of labels differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverturnRate:
    """The share of `n` cases in which people said otherwise than the model, with its 95% interval (Wilson)."""

    from_confidence: float | None
    """None, as `to_confidence`: it was not known."""

    to_confidence: float | None
    n: int
    overturned: int
    share: float
    lower: float
    upper: float
    expected: float
    """1 less the mean confidence: what the share is if the confidence means what it says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewersChecked:
    """How often the first answer errs, from blind re-reviews that were decided, and what that does to the share
    overturned. Two who err together cannot be told from two who are right."""

    n: int
    rates: ReviewerRates
    corrected: CorrectedRate | None
    """The share in which the model was wrong (Rogan & Gladen 1978); None where too little is known."""


def agreement_of(units: Sequence[LabelPair]) -> AgreementRate:
    """Measure agreement on cases about which several people spoke; beyond chance by Krippendorff's alpha."""
    same = sum(unit.n for unit in units if len({_text(label) for label in unit.labels}) == 1)
    most = max((len(unit.labels) for unit in units), default=0)
    ratings = [
        row
        for unit in units
        for row in [[_text(label) for label in unit.labels] + [None] * (most - len(unit.labels))] * unit.n
    ]
    return _agreement(sum(unit.n for unit in units), same, krippendorff_alpha(ratings) if ratings else nan)


def agreement_of_checks(checks: Sequence[SecondLooks]) -> AgreementRate:
    """Measure agreement on cases that were looked at twice; beyond chance by Cohen's kappa of both answers."""
    first = [_text(check.first) for check in checks for _ in range(check.n)]
    second = [_text(check.second) for check in checks for _ in range(check.n)]
    same = sum(a == b for a, b in zip(first, second, strict=True))
    return _agreement(len(first), same, cohen_kappa(first, second) if first else nan)


def label_disagreements(units: Sequence[LabelPair]) -> list[LabelDisagreement]:
    """Each label that anybody named, the one they differ about most often first."""
    pairs: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    instead: dict[str, Counter[str]] = {}
    for unit in units:
        for a, b in combinations(unit.labels, 2):
            one, other = _labels(a), _labels(b)
            pairs.update(dict.fromkeys(one | other, unit.n))
            apart.update(dict.fromkeys(one ^ other, unit.n))
            if isinstance(a, str) and isinstance(b, str) and a != b:
                instead.setdefault(a, Counter())[b] += unit.n
                instead.setdefault(b, Counter())[a] += unit.n
    found = [
        LabelDisagreement(
            label=label,
            pairs=n,
            apart=apart[label],
            share=apart[label] / n,
            mixed_with=min(instead[label].items(), key=lambda item: (-item[1], item[0]))[0]
            if label in instead
            else None,
        )
        for label, n in pairs.items()
    ]
    return sorted(found, key=lambda row: (-row.share, -row.pairs, row.label))


def overturn_rates(rows: Iterable[OverturnCount]) -> list[OverturnRate]:
    """By confidence, lowest first, unknown last; whether or not people had seen the prediction."""
    return [
        _rate(list(group), bounds) for bounds, group in groupby(sorted(rows, key=_place), lambda r: (r.lower, r.upper))
    ]


def overturn_rate(rows: Iterable[OverturnCount]) -> OverturnRate:
    """Over all of them."""
    return _rate(list(rows), (None, None))


def reviewers_checked(checks: Sequence[SecondLooks], overall: OverturnRate) -> ReviewersChecked:
    """What re-reviews say of the first answers, each check counting alike: all are drawn with one probability."""
    decided = [
        DecidedCheck(first_overturns=check.first_overturns, truth_overturns=check.truth_overturns, n=check.n)
        for check in checks
        if check.truth_overturns is not None
    ]
    rates = rates_of(decided)
    known = overall.n > 0 and rates.n_sensitivity > 0 and rates.n_specificity > 0  # False for NaN
    corrected = None
    if known:
        corrected = rogan_gladen(
            overall.share,
            overall.n,
            rates.sensitivity,
            rates.n_sensitivity,
            rates.specificity,
            rates.n_specificity,
        )
    return ReviewersChecked(n=sum(check.n for check in decided), rates=rates, corrected=corrected)


def _agreement(n: int, same: int, beyond_chance: float) -> AgreementRate:
    interval = wilson(same, n)
    return AgreementRate(
        n=n,
        same=same,
        share=same / n if n else nan,
        lower=interval.lower,
        upper=interval.upper,
        beyond_chance=beyond_chance,
    )


def _rate(rows: Sequence[OverturnCount], bounds: tuple[float | None, float | None]) -> OverturnRate:
    n, otherwise = sum(row.n for row in rows), sum(row.overturned for row in rows)
    interval = wilson(otherwise, n)
    known = [row for row in rows if row.lower is not None]
    of_known = sum(row.n for row in known)
    return OverturnRate(
        from_confidence=bounds[0],
        to_confidence=bounds[1],
        n=n,
        overturned=otherwise,
        share=otherwise / n if n else nan,
        lower=interval.lower,
        upper=interval.upper,
        expected=1 - sum(row.confidence * row.n for row in known) / of_known if of_known else nan,
    )


def _place(row: OverturnCount) -> float:
    return 2.0 if row.lower is None else row.lower


def _labels(answer: Answer) -> set[str]:
    return {answer} if isinstance(answer, str) else set(answer)


def _text(answer: Answer) -> str:
    """Write an answer as text. Two texts are equal exactly if the answers are."""
    return orjson.dumps(answer).decode()

"""Was the promise kept? Kept, broken, or not enough evidence: by two tests, never by the estimate alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.multiplicity import holm
from demur.audit.metrics.promise_tests import SLACK
from demur.audit.metrics.reviewers import JudgedRate
from demur.audit.report.grounds import REFUSED, Estimate, Grounds
from demur.audit.report.judgement import CorrectedJudgement, ObservedJudgement, PromiseJudgement, PromiseVerdict
from demur.audit.report.missing_reviews import WorstCase, worst_case
from demur.audit.report.plan import TOTAL
from demur.audit.report.promise_evidence import ANSWERS, LABELS, SETS, PartEvidence, part_evidence, rows_of_fit
from demur.audit.report.reviewer_correction import ReviewerCorrection, corrected_test
from demur.audit.report.risks import SETS_LACK, RiskEvidence, missed, missed_labels, risks
from demur.audit.report.subjects import PolicyWords, ranked
from demur.policies.promise import (
    AMONG,
    ANSWERS_LACK,
    ANSWERS_WRONG,
    LABELS_MISSING,
    LABELS_NOT_PREDICTED,
    ONE_ROW_OF_EACH,
    ROWS_LABELS_MISSING,
    ROWS_LABELS_NOT_PREDICTED,
    as_it_holds,
)
from demur.policies.risk_bound import labels_needed

GROUP_SETS_LACK = "of the inputs of each group have a set without the right label"

ABOUT: Mapping[str, str] = {
    ANSWERS_WRONG: ANSWERS,
    ANSWERS_LACK: ANSWERS,
    SETS_LACK: SETS,
    GROUP_SETS_LACK: SETS,
    ROWS_LABELS_MISSING: SETS,
    LABELS_MISSING: LABELS,
    ROWS_LABELS_NOT_PREDICTED: SETS,
    LABELS_NOT_PREDICTED: LABELS,
}
"""Which numbers of an audit each kind of promise is held against."""

OF_PREDICTED = frozenset({ROWS_LABELS_NOT_PREDICTED, LABELS_NOT_PREDICTED})
"""Kinds for which predicted labels stand in the place of prediction sets."""

ROWS, PREDICTED = "rows", "predicted labels"

UNCORRECTED = ReviewerCorrection(error=None, words="")

NOT_KNOWN = "promised, and nobody knows what"
UNREAD = "it cannot be read from the store of artifacts; put it back, or say with --max-risk what to judge by"
OF_EACH_ROW = "it is about one row of each cluster, and this audit counts every row; with --max-risk it judges rows"
NOT_IN_THIS_NUMBER = "reviewers err as well, and that is not in this number: only shares of wrong answers are corrected"
NOT_MEASURED = "promises of this kind are not measured by an audit"


@dataclass(frozen=True, kw_only=True)
class _PromisePart:
    """One part of the traffic, and a promise about it."""

    judgement: PromiseJudgement
    tested: PartEvidence | None
    delta: float | None
    """With which probability a promise about one fit may be broken by it."""

    missing: WorstCase | None
    """What the reviews could do that were asked for and are missing."""

    n_texts: int = 1
    """How many groups are taken together in this part: small ones are."""

    @property
    def promise(self) -> tuple[str, float, str]:
        return self.judgement.share, self.judgement.target, self.judgement.statement


def judge(
    evidence: RiskEvidence,
    promises: Mapping[str, Sequence[Mapping[str, Any]]],
    max_risk: float | None,
    unread: Sequence[str] = (),
    reviewers: ReviewerCorrection = UNCORRECTED,
    policy: PolicyWords | None = None,
    of_each: RiskEvidence | None = None,
) -> list[PromiseJudgement]:
    """Return a judgement of each promise, those about what the policy is about first, and else about wrong answers.

    `promises` are those of each artifact's manifest. Artifacts that promise the same are judged together; `max_risk`
    takes the place of what they promise about wrong answers. A promise that is not known, because the artifact that
    made it is `unread`, or of a kind that no audit measures, is undecided: what nobody has judged was not kept.

    A promise on average over fits is called broken only if the spread of valid fits does not explain what was found.
    Broken is called at delta / 2, divided by the number of promises, and corrected for the parts of each (Holm 1979).
    A promise about one row of each cluster is judged by `of_each`, the evidence of one record of each, where records
    belong together; it is undecided without it. With `reviewers` whose errors are known, a promise about wrong answers
    is judged without these, and what they say stands beside it.
    """
    found = [*_parts(evidence, promises, max_risk, of_each)]
    judged = _together(found, evidence.by.settings.delta, reviewers)
    places = _places(evidence)
    n_artifacts = sum(dimension == "artifact" for dimension, _ in places)
    answers = risks(evidence, answered=True) if unread and max_risk is None else []
    for name in unread if max_risk is None else ():
        judged.append(
            PromiseJudgement(
                share=NOT_KNOWN,
                target=nan,
                statement=f"what {name} promised is not known",
                artifacts=(name,),
                part=name if n_artifacts > 1 else "",
                verdict=PromiseVerdict.UNDECIDED,
                estimate=answers[places.get(("artifact", name), 0)],
                why=UNREAD,
            )
        )
    judged = [_counting_all_inputs(_of_clusters(one, evidence, of_each)) for one in judged]
    return ranked(judged, ABOUT, policy)


def _of_clusters(one: PromiseJudgement, evidence: RiskEvidence, of_each: RiskEvidence | None) -> PromiseJudgement:
    """A judgement that says what was counted for a promise about one row of each cluster. It is undecided where every
    row was, and some belong together: large clusters may be worse than small ones, or better."""
    if ONE_ROW_OF_EACH not in one.statement:
        return one
    if of_each is not None:
        n = int(of_each.counts["n"][0])
        return replace(one, why=f"{one.why}; counted on one record of each of {n:,} clusters, drawn at random")
    if one.verdict not in (PromiseVerdict.KEPT, PromiseVerdict.BROKEN):
        return one
    if evidence.by.clustered:
        return replace(one, verdict=PromiseVerdict.UNDECIDED, why=f"{OF_EACH_ROW}; of the rows: {one.why}")
    return replace(one, why=f"{one.why}; no request named its `cluster`, so each record counts as one")


def _counting_all_inputs(one: PromiseJudgement) -> PromiseJudgement:
    """A judgement that says so where a promise is about some inputs alone: an audit counts all of them."""
    if AMONG not in one.statement or one.verdict not in (PromiseVerdict.KEPT, PromiseVerdict.BROKEN):
        return one
    return replace(one, why=f"{one.why}; this audit counts all inputs, and the promise leaves out some")


def about_predicted(promises: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    """Whether any of these promises is about predicted labels."""
    return any(as_it_holds(one).get("share") in OF_PREDICTED for own in promises.values() for one in own)


def about_clusters(promises: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    """Whether any of these promises is about one row of each cluster."""
    return any(ONE_ROW_OF_EACH in str(one.get("statement", "")) for own in promises.values() for one in own)


def overall(judgements: Sequence[PromiseJudgement]) -> PromiseVerdict:
    """The verdict on all of them: broken if one is, and kept only if every one is."""
    verdicts = {one.verdict for one in judgements}
    for verdict in (PromiseVerdict.BROKEN, PromiseVerdict.UNDECIDED, PromiseVerdict.KEPT):
        if verdict in verdicts:
            return verdict
    return PromiseVerdict.NOTHING


def _parts(
    evidence: RiskEvidence,
    promises: Mapping[str, Sequence[Mapping[str, Any]]],
    max_risk: float | None,
    of_each: RiskEvidence | None,
) -> list[_PromisePart]:
    """Each promise in each part of the traffic that it is about."""
    places = _places(evidence)
    measures = _all_measures(evidence)
    measures_of_each = measures if of_each is None else _all_measures(of_each)
    found = []
    if max_risk is not None:
        statement = f"at most {100 * max_risk:g}% {ANSWERS_WRONG}"
        named = {"share": ANSWERS_WRONG, "target": max_risk, "statement": statement}
        found.append(_part(measures[ROWS], named, 0, (), ""))
    n_artifacts = sum(dimension == "artifact" for dimension, _ in places)
    for promise, makers in _made(promises):
        present = [name for name in makers if ("artifact", name) in places]
        if not present or (ABOUT.get(promise["share"]) == ANSWERS and max_risk is not None):
            continue
        asked: list[tuple[int, tuple[str, ...], str]] = [
            (places["artifact", name], (name,), "" if n_artifacts == 1 else name) for name in present
        ]
        if len(present) == n_artifacts:
            asked = [(0, tuple(present), "")]
        if promise["share"] == GROUP_SETS_LACK:
            asked = [(cell, tuple(present), name) for (of, name), cell in places.items() if of == "group"]
        counted = measures_of_each if ONE_ROW_OF_EACH in str(promise["statement"]) else measures
        found += [
            _part(counted[PREDICTED if promise["share"] in OF_PREDICTED else ROWS], promise, *one) for one in asked
        ]
    return found


def _all_measures(evidence: RiskEvidence) -> dict[str, tuple[RiskEvidence, Mapping[str, Sequence[Estimate]]]]:
    """Evidence and its numbers, and those with predicted labels in the place of sets, where these were counted."""
    as_sets = evidence.predicted()
    return {ROWS: _measures(evidence), **({PREDICTED: _measures(as_sets)} if as_sets else {})}


def _measures(evidence: RiskEvidence) -> tuple[RiskEvidence, Mapping[str, Sequence[Estimate]]]:
    """Evidence, and the numbers that promises are held against."""
    return evidence, {
        ANSWERS: risks(evidence, answered=True),
        SETS: missed(evidence),
        LABELS: missed_labels(evidence),
    }


def _part(
    measured: tuple[RiskEvidence, Mapping[str, Sequence[Estimate]]],
    promise: Mapping[str, Any],
    cell: int,
    artifacts: tuple[str, ...],
    part: str,
) -> _PromisePart:
    evidence, estimates = measured
    share, target = str(promise["share"]), float(promise["target"])
    about = ABOUT.get(share)
    estimate = estimates[about or ANSWERS][cell]
    tested = None
    if about is None:
        estimate = replace(estimate, name="", value=None, lower=None, upper=None, method=None, naive=None)
    else:
        total = float(evidence.counts["n"][0])
        of_traffic = float(evidence.counts["n"][cell]) / total if share == GROUP_SETS_LACK else 1.0
        fit_n = None if about == ANSWERS else rows_of_fit(promise, part, of_traffic)
        tested = part_evidence(evidence, about, estimate, cell, target, fit_n)
    n_texts = 1
    if share == GROUP_SETS_LACK:
        (groups,) = (dimension for dimension in evidence.by.dimensions if dimension.name == "group")
        n_texts = groups.texts_in(groups.cells.index(part))
    return _PromisePart(
        judgement=PromiseJudgement(
            share=share,
            target=target,
            statement=str(promise["statement"]),
            artifacts=artifacts,
            part=part,
            verdict=PromiseVerdict.UNDECIDED,
            estimate=estimate,
            why=NOT_MEASURED if about is None else _too_few(estimate.grounds, target),
            p_broken=None if tested is None else tested.p_broken,
            p_kept=None if tested is None else tested.p_kept,
        ),
        tested=tested,
        missing=None if about is None else worst_case(evidence, about, cell),
        delta=promise.get("delta"),
        n_texts=n_texts,
    )


def _together(parts: Sequence[_PromisePart], delta: float, reviewers: ReviewerCorrection) -> list[PromiseJudgement]:
    """The judgements, corrected for how many parts each promise has, and for how many promises there are."""
    families: dict[tuple[str, float, str], list[_PromisePart]] = {}
    for part in parts:
        families.setdefault(part.promise, []).append(part)
    tested = sum(any(part.tested for part in family) for family in families.values())
    found: dict[int, PromiseJudgement] = {}
    for family in families.values():
        p_values = [None if part.tested is None else part.tested.p_broken for part in family]
        broken = set(holm(p_values, delta / 2 / max(1, tested)).rejected)
        looks = sum(p is not None for p in p_values) * max(1, tested)
        corrected = _without_errors(family, delta, max(1, tested), reviewers)
        for at, part in enumerate(family):
            judged = _unless_missing(part, _word(part, delta, broken=at in broken, looks=looks))
            found[id(part)] = _corrected(judged, part, corrected[at], reviewers, delta)
    return [found[id(part)] for part in parts]


def _word(part: _PromisePart, delta: float, *, broken: bool, looks: int) -> PromiseJudgement:
    """The word about one part, and why. `broken`: its test says so, corrected for `looks` tests."""
    seen, one = part.tested, part.judgement
    if seen is None:
        return one
    target, level = f"{100 * one.target:g}%", delta / 2 * (1 + SLACK)
    ends = f"between {100 * seen.interval.lower:.2f}% and {100 * seen.interval.upper:.2f}%"
    between = f"{ends} ({100 * (1 - delta):g}% interval)"
    if one.estimate.value is None:
        between = f"{one.estimate.grounds.events:,} of {one.estimate.grounds.labelled:,} labels; {between}"
    spread = ""
    if seen.fit_n is not None:
        most = "" if seen.spread is None else f" miss up to {100 * seen.spread:.2f}%"
        spread = f"fits of {seen.fit_n:,} rows that keep the promise on average{most or ' differ from each other'}"
    if broken:
        own = "" if part.delta is None else f"; a promise like this one may be broken in {100 * part.delta:g}% of fits"
        own = f", and {spread}" if spread else own
        why = f"{between}: all of that is above the promised {target}{own}"
        return replace(one, verdict=PromiseVerdict.BROKEN, estimate=_with_value(one.estimate, seen), why=why)
    if seen.p_kept <= level:
        kept = replace(
            one, verdict=PromiseVerdict.KEPT, why=f"{between}: all of that is at or below the promised {target}"
        )
        return _of_each(kept, part.n_texts)
    if seen.p_broken <= level:
        why = (
            f"{between}: by itself that is above the promised {target}, but of {looks:,} tests like this one some are"
            " so by chance; corrected for their number it is not enough"
        )
    elif seen.alone <= level:
        why = (
            f"{between}: this fit misses more than the promised {target}, but {spread}, so the promise may hold;"
            " more rows in the fit, or sets with a `delta`, narrow this"
        )
    elif one.estimate.value is None:
        why = _too_few(one.estimate.grounds, one.target)
    else:
        why = f"{between}, which lies on both sides of the promised {target}"
    return replace(one, why=why)


def _without_errors(
    family: Sequence[_PromisePart], delta: float, n_promises: int, reviewers: ReviewerCorrection
) -> list[tuple[JudgedRate, bool] | None]:
    """The rate of wrong answers without the errors of reviewers, for each part of one promise, and whether it breaks
    the promise, corrected for the number of tests."""
    if family[0].judgement.share != ANSWERS_WRONG:
        return [None] * len(family)
    made = [
        corrected_test(reviewers, one.tested, one.judgement.estimate, one.judgement.target, delta) for one in family
    ]
    p_values = [None if one is None or isnan(one.p_broken) else one.p_broken for one in made]
    broken = set(holm(p_values, delta / 2 / n_promises).rejected)
    return [None if rate is None else (rate, at in broken) for at, rate in enumerate(made)]


def _corrected(
    one: PromiseJudgement,
    part: _PromisePart,
    found: tuple[JudgedRate, bool] | None,
    reviewers: ReviewerCorrection,
    delta: float,
) -> PromiseJudgement:
    """The judgement by the corrected rate where there is one, with that of what reviewers say beside it."""
    if found is None:
        tested = part.tested
        if one.share in ABOUT and one.share != ANSWERS_WRONG and reviewers.words:
            return replace(one, why=f"{one.why}; {NOT_IN_THIS_NUMBER}")
        if reviewers.error is None or tested is None or tested.whole:
            return one
        why = f"{one.why}; not corrected for the errors of reviewers, because answers can be wrong in part"
        return replace(one, why=why)
    (rate, is_broken), target = found, f"{100 * one.target:g}%"
    between = (
        f"corrected for the errors of reviewers between {100 * rate.lower:.2f}% and {100 * rate.upper:.2f}%"
        f" ({100 * (1 - delta):g}% interval)"
    )
    verdict, why = PromiseVerdict.UNDECIDED, f"{between}, which does not decide about the promised {target}"
    if isnan(rate.p_broken):
        why = reviewers.words
    elif is_broken:
        verdict, why = PromiseVerdict.BROKEN, f"{between}: all of that is above the promised {target}"
    elif rate.p_kept <= delta / 2 * (1 + SLACK) and part.judgement.estimate.grounds.enough:
        verdict, why = PromiseVerdict.KEPT, f"{between}: all of that is at or below the promised {target}"
    decided, kept = verdict is not PromiseVerdict.UNDECIDED, verdict is PromiseVerdict.KEPT
    limits = (rate.lower, rate.upper)
    if decided and part.missing is not None and part.missing.turns(limits, kept=kept, target=one.target):
        verdict, why = PromiseVerdict.UNDECIDED, f"{why}. But {part.missing.words}; this decides nothing"
    said = f"{one.verdict.value} ({one.why})"
    corrected = CorrectedJudgement(verdict=verdict, value=rate.estimate, lower=rate.lower, upper=rate.upper, why=why)
    observed = ObservedJudgement(verdict=one.verdict, why=one.why, p_broken=one.p_broken, p_kept=one.p_kept)
    return replace(
        one,
        verdict=verdict,
        why=f"{why}. What reviewers say, not corrected, would be: {said}",
        p_broken=rate.p_broken,
        p_kept=rate.p_kept,
        corrected=corrected,
        observed=observed,
    )


def _unless_missing(part: _PromisePart, one: PromiseJudgement) -> PromiseJudgement:
    """Take a verdict back that missing reviews could turn."""
    kept = one.verdict is PromiseVerdict.KEPT
    if part.missing is None or one.verdict not in (PromiseVerdict.KEPT, PromiseVerdict.BROKEN):
        return one
    if not part.missing.turns(_limits(part), kept=kept, target=one.target):
        return one
    why = f"{one.why}. But {part.missing.words}; this decides nothing"
    return replace(one, verdict=PromiseVerdict.UNDECIDED, estimate=part.judgement.estimate, why=why)


def _limits(part: _PromisePart) -> tuple[float, float]:
    """The ends of the interval that a verdict rests on."""
    if part.tested is not None:
        return part.tested.interval.lower, part.tested.interval.upper
    estimate = part.judgement.estimate
    return (
        0.0 if estimate.lower is None else estimate.lower,
        1.0 if estimate.upper is None else estimate.upper,
    )


def _with_value(estimate: Estimate, seen: PartEvidence) -> Estimate:
    """A broken promise has its numbers, which hold however few labels there are."""
    if estimate.value is not None and estimate.lower is not None:
        return estimate
    return replace(estimate, value=seen.value, lower=seen.interval.lower, upper=seen.interval.upper, method=seen.method)


def _of_each(one: PromiseJudgement, n: int) -> PromiseJudgement:
    """What was promised of each group is not shown to be kept by many of them taken together."""
    if n == 1:
        return one
    why = f"{n:,} small groups taken together are {one.why}; of each by itself too little is known"
    return replace(one, verdict=PromiseVerdict.UNDECIDED, why=why)


def _made(
    promises: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Each promise, and the artifacts that made it; of those that promise the same it is the one of fewest rows."""
    made: dict[tuple[str, float, str], tuple[Mapping[str, Any], tuple[str, ...]]] = {}
    for artifact, own in promises.items():
        for promise in map(as_it_holds, own):
            if promise.get("feasible", True):
                key = str(promise["share"]), float(promise["target"]), str(promise["statement"])
                before, makers = made.get(key, (promise, ()))
                fewest = min((before, promise), key=lambda one: int(one.get("n") or 0))
                made[key] = (fewest, (*makers, artifact))
    return list(made.values())


def _places(evidence: RiskEvidence) -> dict[tuple[str, str], int]:
    """Where each cell of the groups and of the artifacts stands."""
    places, at = {}, 0
    for dimension in evidence.by.dimensions:
        for cell in dimension.cells:
            if dimension.name != TOTAL:
                places[dimension.name, cell] = at
            at += 1
    return {key: cell for key, cell in places.items() if key[0] in ("group", "artifact")}


def _too_few(grounds: Grounds, target: float) -> str:
    if grounds.status == REFUSED:
        return (
            "people were asked about records of which none is reviewed yet, or could never be: nothing speaks for them"
        )
    if grounds.status == EvidenceStatus.NONE:
        return "none of these records has a label that was drawn"
    needed = labels_needed(target)
    if grounds.labelled < needed:
        return (
            f"{grounds.labelled:,} labels, worth {_worth(grounds)} of equal weight, with {grounds.events:,} errors"
            f" among them; even without an error at least {needed:,} would be needed"
        )
    return f"{grounds.labelled:,} labels, worth {_worth(grounds)} of equal weight, carry no interval"


def _worth(grounds: Grounds) -> str:
    return "0" if grounds.effective != grounds.effective else f"{grounds.effective:,.0f}"

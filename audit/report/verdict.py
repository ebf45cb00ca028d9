"""Was the promise kept? Kept, broken, or not enough evidence: by the interval, never by the estimate alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import nan
from typing import Any

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.report.grounds import REFUSED, Estimate, Grounds
from demur.audit.report.plan import TOTAL
from demur.audit.report.risks import SETS_LACK, RiskEvidence, missed, missed_labels, risks
from demur.policies.promise import LABELS_MISSING, ROWS_LABELS_MISSING, as_it_holds
from demur.policies.risk_bound import labels_needed


class PromiseVerdict(StrEnum):
    KEPT = "kept"  # the whole interval is at or below what was promised
    BROKEN = "broken"  # the whole interval is above it
    UNDECIDED = "not enough evidence"  # it lies on both sides, or there are too few labels for one
    NOTHING = "nothing was promised"


ANSWERS_WRONG = "of the answers are wrong"
GROUP_SETS_LACK = "of the inputs of each group have a set without the right label"

OF_SETS = (SETS_LACK, GROUP_SETS_LACK, ROWS_LABELS_MISSING, LABELS_MISSING)
NOT_KNOWN = "promised, and nobody knows what"


@dataclass(frozen=True, kw_only=True)
class PromiseJudgement:
    """What became of one promise."""

    share: str
    """Of what, in words that follow a percentage."""

    target: float
    statement: str
    """The promise as a sentence."""

    artifacts: tuple[str, ...]
    """Those that made it; empty where whoever audits named the limit."""

    part: str
    """The group or the artifact that it is about; empty for all."""

    verdict: PromiseVerdict
    estimate: Estimate
    why: str
    """The verdict in a sentence, with the numbers behind it."""


def judge(
    evidence: RiskEvidence,
    promises: Mapping[str, Sequence[Mapping[str, Any]]],
    max_risk: float | None,
    unread: Sequence[str] = (),
) -> list[PromiseJudgement]:
    """Return a judgement of each promise, the one about wrong answers first.

    `promises` are those of each artifact's manifest. Artifacts that promise the same are judged together; `max_risk`
    takes the place of what they promise about wrong answers. A promise that is not known, because the artifact that
    made it is `unread`, or of a kind that no audit measures, is undecided: what nobody has judged was not kept.
    """
    places = _places(evidence)
    answers, sets, labels = risks(evidence, answered=True), missed(evidence), missed_labels(evidence)
    found = []
    if max_risk is not None:
        statement = f"at most {100 * max_risk:g}% {ANSWERS_WRONG}"
        found.append(_judged(evidence, answers[0], ANSWERS_WRONG, max_risk, statement, (), ""))
    n_artifacts = sum(dimension == "artifact" for dimension, _ in places)
    for (share, target, statement), makers in _made(promises).items():
        present = [name for name in makers if ("artifact", name) in places]
        if not present or (share == ANSWERS_WRONG and max_risk is not None):
            continue
        asked: list[tuple[int, tuple[str, ...], str]] = [
            (places["artifact", name], (name,), "" if n_artifacts == 1 else name) for name in present
        ]
        if len(present) == n_artifacts:
            asked = [(0, tuple(present), "")]
        if share == GROUP_SETS_LACK:
            asked = [(cell, tuple(present), name) for (of, name), cell in places.items() if of == "group"]
        for cell, artifacts, part in asked:
            if share != ANSWERS_WRONG and share not in OF_SETS:
                why = "promises of this kind are not measured by an audit"
                nothing = replace(answers[cell], name="", value=None, lower=None, upper=None, method=None, naive=None)
                found.append(_undecided(nothing, share, target, statement, artifacts, part, why))
                continue
            about = answers[cell] if share == ANSWERS_WRONG else (labels if share == LABELS_MISSING else sets)[cell]
            one = _judged(evidence, about, share, target, statement, artifacts, part)
            found.append(_of_each(evidence, one) if share == GROUP_SETS_LACK else one)
    for name in unread if max_risk is None else ():
        statement = f"what {name} promised is not known"
        why = "it cannot be read from the store of artifacts; put it back, or say with --max-risk what to judge by"
        about = answers[places.get(("artifact", name), 0)]
        found.append(_undecided(about, NOT_KNOWN, nan, statement, (name,), name if n_artifacts > 1 else "", why))
    return sorted(found, key=lambda one: one.share != ANSWERS_WRONG)


def overall(judgements: Sequence[PromiseJudgement]) -> PromiseVerdict:
    """The verdict on all of them: broken if one is, and kept only if every one is."""
    verdicts = {one.verdict for one in judgements}
    for verdict in (PromiseVerdict.BROKEN, PromiseVerdict.UNDECIDED, PromiseVerdict.KEPT):
        if verdict in verdicts:
            return verdict
    return PromiseVerdict.NOTHING


def _made(promises: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[tuple[str, float, str], tuple[str, ...]]:
    made: dict[tuple[str, float, str], tuple[str, ...]] = {}
    for artifact, own in promises.items():
        for promise in map(as_it_holds, own):
            if promise.get("feasible", True):
                key = str(promise["share"]), float(promise["target"]), str(promise["statement"])
                made[key] = (*made.get(key, ()), artifact)
    return made


def _places(evidence: RiskEvidence) -> dict[tuple[str, str], int]:
    """Where each cell of the groups and of the artifacts stands."""
    places, at = {}, 0
    for dimension in evidence.by.dimensions:
        for cell in dimension.cells:
            if dimension.name != TOTAL:
                places[dimension.name, cell] = at
            at += 1
    return {key: cell for key, cell in places.items() if key[0] in ("group", "artifact")}


def _undecided(
    about: Estimate, share: str, target: float, statement: str, artifacts: tuple[str, ...], part: str, why: str
) -> PromiseJudgement:
    """Judge a promise that no number is held against; the estimate is of the rows that the promise is about."""
    return PromiseJudgement(
        share=share,
        target=target,
        statement=statement,
        artifacts=artifacts,
        part=part,
        verdict=PromiseVerdict.UNDECIDED,
        estimate=about,
        why=why,
    )


def _judged(
    evidence: RiskEvidence,
    found: Estimate,
    share: str,
    target: float,
    statement: str,
    artifacts: tuple[str, ...],
    part: str,
) -> PromiseJudgement:
    verdict, why = verdict_on(found, target, evidence.by.settings.delta)
    return PromiseJudgement(
        share=share,
        target=target,
        statement=statement,
        artifacts=artifacts,
        part=part,
        verdict=verdict,
        estimate=found,
        why=why,
    )


def _of_each(evidence: RiskEvidence, one: PromiseJudgement) -> PromiseJudgement:
    """What was promised of each group is not shown to be kept by many of them taken together."""
    (groups,) = (dimension for dimension in evidence.by.dimensions if dimension.name == "group")
    n = groups.texts_in(groups.cells.index(one.part))
    if n == 1 or one.verdict is not PromiseVerdict.KEPT:
        return one
    why = f"{n:,} small groups taken together are {one.why}; of each by itself too little is known"
    return replace(one, verdict=PromiseVerdict.UNDECIDED, why=why)


def verdict_on(found: Estimate, target: float, delta: float) -> tuple[PromiseVerdict, str]:
    grounds, promised = found.grounds, f"{100 * target:g}%"
    if found.lower is None or found.upper is None:
        return PromiseVerdict.UNDECIDED, _too_few(grounds, target)
    between = f"between {100 * found.lower:.2f}% and {100 * found.upper:.2f}% ({100 * (1 - delta):g}% interval)"
    if found.upper <= target:
        return PromiseVerdict.KEPT, f"{between}: all of that is at or below the promised {promised}"
    if found.lower > target:
        return PromiseVerdict.BROKEN, f"{between}: all of that is above the promised {promised}"
    return PromiseVerdict.UNDECIDED, f"{between}, which lies on both sides of the promised {promised}"


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

"""An audit: from a ledger to a document that holds every number, and to the page that shows it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import NONE, Extent, Ledger
from demur.audit.report.breakdown import breakdowns
from demur.audit.report.cells import RESAMPLED
from demur.audit.report.curves import reliability, risk_coverage
from demur.audit.report.estimates import whole
from demur.audit.report.grounds import Estimate, Grounds
from demur.audit.report.judgement import PromiseJudgement
from demur.audit.report.next_steps import next_steps
from demur.audit.report.plain_sample import plain_findings
from demur.audit.report.plan import AuditPlan, Settings, plan
from demur.audit.report.reasons import why
from demur.audit.report.resamples import Progress, Resamples, unheard
from demur.audit.report.reviewer_correction import ReviewerCorrection, correction_of
from demur.audit.report.risks import RiskEvidence
from demur.audit.report.scores import compared
from demur.audit.report.subjects import PolicyWords, most_used, subjects
from demur.audit.report.survey import Survey, in_frame, survey
from demur.audit.report.tally import Tally, tally
from demur.audit.report.verdict import ABOUT, about_clusters, about_predicted, judge, overall
from demur.audit.reviewer_error import ReviewerError
from demur.traffic.outcomes import LATEST, Precedence, rule_in_words

FORMAT = "demur-audit/1"

DIGITS = 10
"""Significant digits of every number: those after them hang on the order of sums, which differs between machines."""


class NothingToAudit(ValueError):
    """There are no records in the range. Widen it, or send traffic first."""


@dataclass(frozen=True, kw_only=True)
class FittedLabels:
    """How often each label held in the data that the artifact in force was fitted on."""

    counts: Mapping[str, int] = field(default_factory=dict)
    n: int = 0


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """What whoever asks for an audit says, beside the records."""

    settings: Settings = field(default_factory=Settings)
    fitted: FittedLabels = field(default_factory=FittedLabels)
    promises: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Of each artifact, by name: those of its manifest that are about this model."""

    policies: Mapping[str, PolicyWords] = field(default_factory=dict)
    """The policy of each artifact, by its name."""

    unread: Sequence[str] = ()
    """Artifacts that decided some of the records and whose manifest cannot be read: what they promise is not known."""

    max_risk: float | None = None
    """Which share of the answers may be wrong, in the place of what the artifacts promise of it."""

    reviewers: ReviewerError | None = None
    """How often reviewers err, by all blind second looks that were decided as of the audit; None: nobody looked."""

    precedence: Precedence = LATEST
    command: str = ""
    """The command that makes the same report again."""

    version: str = ""
    """Of demur."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What was found."""

    document: Mapping[str, Any]
    """Every number, as JSON: no NaN, None instead."""

    def as_json(self) -> str:
        return as_json(self.document)

    def as_html(self) -> str:
        from demur.audit.report.page import page  # the pictures take a while to import

        return page(self.document)


def as_json(document: Mapping[str, Any]) -> str:
    """Write a document as text. Equal documents give equal texts, whoever writes them."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def audit(ledger: Ledger, asked: AuditSettings, *, progress: Progress = unheard) -> Audit:
    """Measure a ledger as a whole. Raises `NothingToAudit`."""
    if not len(ledger):
        raise NothingToAudit(
            f"there are no records of {ledger.extent.model!r} in this range; widen it, or send traffic first"
        )
    first = survey(ledger)
    after = frame_after(first, asked.settings)
    found = first if after is None else survey(ledger, frame_after=after)
    by = plan_of(found, asked, after, least_probability(ledger, after), together=True)
    sums, of_each = tally(ledger, by), None
    if by.clustered and about_clusters(asked.promises):
        alone = replace(by, clustered=False)
        rows = one_of_each_cluster(ledger, after, asked.settings.seed)
        of_each = (alone, tally(ledger.rows(rows), alone)) if len(rows) else None
    return concluded(ledger.extent, found, by, sums, asked, progress=progress, of_each=of_each)


def one_of_each_cluster(ledger: Ledger, after: datetime | None, seed: int) -> NDArray[np.intp]:
    """Return ascending positions of one record of each cluster, drawn at random from those after that moment; a record
    without a cluster is one by itself (METHODS 10.8)."""
    inside = np.flatnonzero(in_frame(ledger, after))
    codes = ledger.clusters.codes[inside].astype(np.int64)
    own = np.where(codes == NONE, len(ledger.clusters.names) + np.arange(len(inside)), codes)
    order = np.random.default_rng(seed).permutation(len(inside))
    _, first = np.unique(own[order], return_index=True)
    return np.sort(inside[order[first]])


def frame_after(found: Survey, settings: Settings) -> datetime | None:
    """From when on every record could get a label; None: all could."""
    if found.all_known or settings.every_outcome_known or not found.never:
        return None
    return found.never_last


def least_probability(ledger: Ledger, after: datetime | None) -> float:
    """The lowest chance of a label among the records after that moment."""
    chance = ledger.label_probability[in_frame(ledger, after) & (ledger.label_probability > 0)]
    return float(chance.min(initial=1.0))


def plan_of(found: Survey, asked: AuditSettings, after: datetime | None, least: float, *, together: bool) -> AuditPlan:
    made = plan(
        found,
        asked.settings,
        frame_after=after,
        least_probability=least,
        label_counts=asked.fitted.counts,
        n_fitted=asked.fitted.n,
        together=together,
    )
    return replace(made, about_predicted=about_predicted(asked.promises))


def concluded(
    extent: Extent,
    found: Survey,
    by: AuditPlan,
    sums: Tally,
    asked: AuditSettings,
    *,
    progress: Progress = unheard,
    of_each: tuple[AuditPlan, Tally] | None = None,
) -> Audit:
    """Return what the sums of all records say. `of_each` are the sums of one record of each cluster, for promises that
    are about these."""
    evidence = _evidence(by, sums, asked, progress)
    resamples = evidence.resamples
    estimates = list(whole(evidence))
    reviewers = correction_of(asked.reviewers, found.sources)
    policy = most_used(asked.policies, found.artifacts)
    alone = None if of_each is None else _evidence(*of_each, asked, unheard)
    judgements = judge(evidence, asked.promises, asked.max_risk, asked.unread, reviewers, policy, alone)
    plain, expected = plain_findings(sums.plain, by), expected_without_labels(sums)
    document = {
        "format": FORMAT,
        "model": extent.model,
        "since": extent.since.isoformat(),
        "until": extent.until.isoformat(),
        "as_of": extent.as_of.isoformat(),
        "command": asked.command,
        "demur": asked.version,
        "headline": {
            "verdict": overall(judgements).value,
            "judgements": [_judgement(one) for one in judgements],
            "subjects": [asdict(one) for one in subjects(judgements, ABOUT, policy, overall)],
            "policy": policy and asdict(policy),
            "since": (found.first or extent.since).isoformat(),
        },
        "records": {
            "n": found.n,
            "first": found.first and found.first.isoformat(),
            "last": found.last and found.last.isoformat(),
            "undefined": int(evidence.counts["undefined"][0]),
            "artifacts": {name or "none": n for name, n in sorted(found.artifacts.items(), key=lambda x: -x[1])},
            "in_force": [
                {"artifact": name or "none", "n": found.artifacts[name], "first": a.isoformat(), "last": b.isoformat()}
                for name, (a, b) in sorted(found.spans.items(), key=lambda span: (span[1], span[0] or ""))
            ],
            "clustered": found.clusters,
        },
        "labels": {**_labels(found, by, evidence, asked), "reviewers": _reviewers(reviewers)},
        "estimates": [_estimate(one) for one in estimates],
        "expected_without_labels": expected,
        "why": why(evidence, estimates, judgements, ABOUT, policy, expected),
        "scores": compared(estimates, sums.tau),
        "breakdowns": breakdowns(evidence),
        "risk_coverage": risk_coverage(evidence),
        "reliability": reliability(evidence),
        "plain_sample": plain,
        "method": {
            "level": 1 - asked.settings.delta,
            "replicates": asked.settings.replicates if resamples.possible else 0,
            "seed": asked.settings.seed,
            "units": sums.by_unit.shape[0],
            "units_are": "rows or clusters" if by.n_units is None else "rows or clusters, thrown together at random",
            "ranked_exactly": {name: exact for name, exact in by.exact.items() if name in by.values},
        },
        "promises": {name: list(own) for name, own in asked.promises.items()},
    }
    whole_document = rounded(document)
    return Audit(document={**whole_document, "next_steps": next_steps(whole_document)})


def _evidence(by: AuditPlan, sums: Tally, asked: AuditSettings, progress: Progress) -> RiskEvidence:
    labelled = (sums.by_unit[:, 0, RESAMPLED.index("w")] > 0).sum()
    resamples = Resamples(sums.by_unit.shape[0], asked.settings, progress, n_labelled=int(labelled))
    return RiskEvidence.of(by, sums, resamples)


def expected_without_labels(sums: Tally) -> dict[str, Any]:
    """What confidence expects of the answers (METHODS 10.10): an estimate, and no part of any verdict."""
    n_answered, n, wrong, variance = sums.expected.tolist()
    return {
        "estimate": wrong / n if n else None,
        "standard_error": float(np.sqrt(variance)) / n if n else None,
        "n": int(n),
        "n_unknown": int(n_answered - n),
        "assumes": "the confidence is still calibrated",
    }


def rounded(value: Any) -> Any:
    """Plain numbers, texts, lists and mappings; each number with `DIGITS` significant digits, None for NaN."""
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.{DIGITS}g}") if np.isfinite(value) else None
    return value


def _estimate(one: Estimate) -> dict[str, Any]:
    document = asdict(one)
    grounds = document.pop("grounds")
    return {**document, **_grounds(one.grounds)} if grounds else document


def _grounds(grounds: Grounds) -> dict[str, Any]:
    return {
        "n": grounds.n,
        "labelled": grounds.labelled,
        "effective": grounds.effective,
        "events": grounds.events,
        "evidence": grounds.status,
    }


def _judgement(one: PromiseJudgement) -> dict[str, Any]:
    return {
        "share": one.share,
        "target": one.target,
        "statement": one.statement,
        "artifacts": list(one.artifacts),
        "part": one.part,
        "verdict": one.verdict.value,
        "why": one.why,
        "p_broken": one.p_broken,
        "p_kept": one.p_kept,
        "estimate": _estimate(one.estimate),
        "corrected": one.corrected and asdict(one.corrected),
        "observed": one.observed and asdict(one.observed),
    }


def _reviewers(known: ReviewerCorrection) -> dict[str, Any]:
    """How often reviewers err, and in words; the rates are null where nothing is corrected by them."""
    rates = asdict(known.error.rates) if known.error else {}
    names = ("sensitivity", "n_sensitivity", "specificity", "n_specificity")
    return {"says": known.words, **{name: rates.get(name) for name in names}}


def _labels(found: Survey, by: AuditPlan, evidence: RiskEvidence, asked: AuditSettings) -> dict[str, Any]:
    counts = evidence.counts
    drawn, reviewed = float(counts["drawn"][0]), float(counts["reviewed"][0])
    return {
        "all_known": by.all_known,
        "outcomes_count_by": rule_in_words(asked.precedence),
        "sources": found.sources,
        "known": int(counts["known"][0]),
        "known_answered": int(counts["a_known"][0]),
        "labelled": int(counts["labelled"][0]),
        "labelled_answered": int(counts["a_labelled"][0]),
        "drawn": int(drawn),
        "reviewed": int(reviewed),
        "share_missing": 1 - reviewed / drawn if drawn else None,
        "never": found.never,
        "frame_after": by.frame_after and by.frame_after.isoformat(),
        "refused": sorted(by.refused),
        "strata": [asdict(one) for one in by.completions],
        "bounds": [
            {"of": of, "lower": low / total, "upper": (low + missing) / total}
            for of, a in (("all", ""), ("answered", "a_"))
            for low, missing, total in [[float(counts[f"{a}v{end}"][0]) for end in ("_loss", "_missing", "")]]
            if total > 0
        ],
    }

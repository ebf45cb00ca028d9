"""Where all monitors stand, read from the database: for the page, the API and the gauges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan, log
from typing import Any

from pydantic import BaseModel, Field

from demur.audit.metrics.resampling import Interval
from demur.audit.monitors.expected import ExpectedWrong, expected_from_json
from demur.audit.monitors.reference import DriftComparison, comparison_from_json
from demur.audit.monitors.risk import RiskState, risk_state_from_json
from demur.audit.monitors.traffic import TrafficState, traffic_state_from_json
from demur.audit.monitors.wording import (
    corrected_risk,
    reviewers_sentence,
    risk_sentence,
    traffic_sentence,
    waiting_sentence,
)
from demur.audit.reviewer_error import ReviewerError, reviewer_error
from demur.audit.state import alarms, standing
from demur.audit.state.alarms import Alarm, AlarmEvent, AlarmKind, Safeguard
from demur.audit.state.standing import Look, MonitorState
from demur.review.disagreement import decided_checks
from demur.serve.contract.alarm_wire import AlarmView, alarm_json
from demur.traffic.database import Connection

SHOWN = 20
"""Alarms of the past on the page."""


@dataclass(frozen=True, kw_only=True)
class MonitoredArtifact:
    """One artifact that decides, and what its monitors know of it."""

    model: str
    artifact: str
    role: str
    risk: RiskState | None
    risk_round: int
    """1, and one more after each restart."""

    risk_from: datetime
    """Answers count that were decided since then."""

    traffic: TrafficState | None
    comparison: DriftComparison | None
    expected: ExpectedWrong | None = None
    """How many of the latest answers confidence expects to be wrong."""

    reviewers: ReviewerError | None = None
    """How often the reviewers of the model err."""

    @property
    def corrected(self) -> Interval | None:
        """The interval of a steady risk without the errors of reviewers; None where too little is known."""
        return corrected_risk(self.risk, self.reviewers) if self.risk and self.reviewers else None

    @property
    def says_of_reviewers(self) -> str:
        return reviewers_sentence(self.risk, self.reviewers) if self.risk else ""


@dataclass(frozen=True, kw_only=True)
class MonitorsPage:
    """All that there is to see at one moment."""

    standings: Sequence[MonitoredArtifact]
    looks: Mapping[str, Look]
    in_force: Sequence[Alarm]
    """Those about the risk first, else the latest."""

    past: Sequence[Alarm]
    """The latest that were undone."""

    events: Mapping[int, Sequence[AlarmEvent]]
    safeguards: Sequence[Safeguard]


def sight(connection: Connection, models: Sequence[str]) -> MonitorsPage:
    """Read everything about these models."""
    by_artifact: dict[tuple[str, str], dict[str, MonitorState]] = {}
    for row in standing.all_kept(connection, models=list(models)):
        by_artifact.setdefault((row.model, row.artifact), {})[row.kind] = row
    in_force = sorted(alarms.in_force(connection), key=lambda one: (one.kind != AlarmKind.RISK, -one.id))
    past = [one for one in alarms.latest(connection, limit=SHOWN + len(in_force)) if one.undone_at is not None]
    events: dict[int, list[AlarmEvent]] = {}
    for event in alarms.events(connection, [one.id for one in (*in_force, *past)]):
        events.setdefault(event.alarm_id, []).append(event)
    now = datetime.now(UTC)
    errors = {model: reviewer_error(decided_checks(connection, model, until=now)) for model, _ in by_artifact}
    return MonitorsPage(
        standings=[_standing(rows, errors[model]) for (model, _), rows in by_artifact.items()],
        looks=standing.looks(connection),
        in_force=in_force,
        past=past[:SHOWN],
        events=events,
        safeguards=alarms.safeguards(connection),
    )


def _standing(rows: Mapping[str, MonitorState], reviewers: ReviewerError) -> MonitoredArtifact:
    some = next(iter(rows.values()))
    risk, traffic, comparison = (rows.get(kind) for kind in ("risk", "traffic", "comparison"))
    return MonitoredArtifact(
        model=some.model,
        artifact=some.artifact,
        role=some.role or "",
        risk_round=risk.round if risk else 1,
        risk_from=risk.counts_from if risk else some.counts_from,
        risk=risk_state_from_json(risk.state) if risk else None,
        traffic=traffic_state_from_json(traffic.state) if traffic else None,
        comparison=comparison_from_json(comparison.state) if comparison else None,
        expected=expected_from_json(comparison.state.get("expected")) if comparison else None,
        reviewers=reviewers,
    )


class DriftView(BaseModel):
    """How a score, or the confidence, is distributed now, beside the reference."""

    name: str
    psi: float | None = Field(description="Population stability index. Null where too little is known.")
    psi_p_value: float | None = Field(
        description="How probable so large an index is without any change, looked at once."
    )
    ks: float | None = Field(description="Kolmogorov and Smirnov's largest gap.")
    ks_p_value: float | None


class ClassView(BaseModel):
    """How often a class truly occurs, estimated from what is predicted, if inputs of each class look as they did."""

    label: str
    now: float
    labelled: float = Field(description="Its share among the labelled rows, weighted.")


class MonitorView(BaseModel):
    """What is known of one artifact that decides."""

    model: str
    artifact: str
    role: str = Field(description="`in force` or `canary`.")
    says: str = Field(description="How it stands with its promise.")
    traffic_says: str = Field(description="Whether the traffic is what it was.")
    target: float | None = Field(description="Share of the answers that may be wrong; null: nothing was promised.")
    delta: float | None = Field(description="How probable it is that the alarm about it is ever false.")
    log_wealth: float | None = Field(
        description="Evidence against the promise, by what reviewers say without a correction for their errors."
    )
    alarm_line: float | None = Field(description="The log wealth at which there is an alarm.")
    p_value: float | None = Field(description="Of that evidence, valid whenever it is looked at.")
    corrected_log_wealth: float | None = Field(
        description="The same against the share that reviewers would call wrong if the promise just held. It decides"
        " about the alarm; null where too few blind second looks tell how often they err: then `log_wealth` decides."
    )
    called_wrong: float | None = Field(description="That share.")
    labelled: int = Field(description="Checked answers.")
    errors: float = Field(description="Of these, the wrong ones; of label sets, their loss.")
    risk: float | None = Field(description="Share of wrong answers, weighted. Null without a label.")
    risk_lower: float = Field(description="Of the interval for a steady risk, valid whenever it is looked at.")
    risk_upper: float
    corrected_lower: float | None = Field(
        description="Of the interval for a steady risk without the errors of reviewers; null where too few blind second"
        " looks tell how often they err."
    )
    corrected_upper: float | None
    reviewers_say: str = Field(description="The same as a sentence, or why nothing is corrected.")
    expected_risk: float | None = Field(
        description="Share of the latest answers that would be wrong if the confidence is still calibrated: an estimate"
        " without labels, which enters no verdict. Null where nothing was answered."
    )
    expected_standard_error: float | None = Field(description="By the chance of the outcomes alone.")
    expected_answers: int = Field(description="Answers among the latest records.")
    expected_unlike: bool = Field(description="Whether the latest records are unlike the reference: do not rely on it.")
    records: int
    answered: int
    never_checked: int = Field(description="Answers that could not have been drawn for a label.")
    exchangeability_log_martingale: float | None = Field(description="Evidence that confidences have changed.")
    held: float | None = Field(description="Share of the latest records that was not answered.")
    held_reference: float | None
    drift: list[DriftView]
    labels_psi: float | None
    labels_p_value: float | None
    classes: list[ClassView] = Field(description="Empty where too little is known.")


class MonitorsView(BaseModel):
    monitors: list[MonitorView]
    alarms: list[AlarmView] = Field(description="Those that are in force, the ones about the risk first.")
    unwatched: dict[str, str] = Field(description="By model that no monitor watches: why.")


def monitors_json(seen: MonitorsPage, unwatched: Mapping[str, str]) -> dict[str, Any]:
    """`MonitorsView`."""
    return {
        "monitors": [monitor_json(one) for one in seen.standings],
        "alarms": [alarm_json(one) for one in seen.in_force],
        "unwatched": dict(unwatched),
    }


def monitor_json(one: MonitoredArtifact) -> dict[str, Any]:
    """`MonitorView`."""
    risk, traffic, now = one.risk, one.traffic, one.comparison
    bets, corrected = risk.bets if risk else None, one.corrected
    return {
        "model": one.model,
        "artifact": one.artifact,
        "role": one.role,
        "says": " ".join(filter(None, (risk_sentence(risk, one.reviewers), waiting_sentence(risk)))) if risk else "",
        "traffic_says": traffic_sentence(traffic) if traffic else "",
        "target": risk.settings.target if risk else None,
        "delta": risk.settings.delta if risk else None,
        "log_wealth": bets.log_wealth if bets else None,
        "alarm_line": -log(bets.delta) if bets else None,
        "p_value": bets.p_value if bets else None,
        "corrected_log_wealth": risk.corrected_bets.log_wealth if risk and risk.corrected_bets else None,
        "called_wrong": risk.corrected_bets.target if risk and risk.corrected_bets else None,
        "labelled": risk.n_labelled if risk else 0,
        "errors": risk.errors if risk else 0.0,
        "risk": None if risk is None or isnan(risk.estimate) else risk.estimate,
        "risk_lower": risk.lower if risk else 0.0,
        "risk_upper": risk.upper if risk else 1.0,
        "corrected_lower": corrected.lower if corrected else None,
        "corrected_upper": corrected.upper if corrected else None,
        "reviewers_say": one.says_of_reviewers,
        "expected_risk": one.expected.estimate if one.expected else None,
        "expected_standard_error": one.expected.standard_error if one.expected else None,
        "expected_answers": one.expected.n if one.expected else 0,
        "expected_unlike": one.expected is not None and one.expected.unlike,
        "records": traffic.n if traffic else 0,
        "answered": traffic.n_answered if traffic else 0,
        "never_checked": traffic.n_never if traffic else 0,
        "exchangeability_log_martingale": traffic.jumper.log_wealth if traffic and traffic.jumper else None,
        "held": now.held_now if now else None,
        "held_reference": now.held_before if now else None,
        "drift": [
            {
                "name": drift.name,
                "psi": drift.psi,
                "psi_p_value": drift.psi_p_value,
                "ks": drift.ks,
                "ks_p_value": drift.ks_p_value,
            }
            for drift in (now.drifts if now else ())
        ],
        "labels_psi": now.labels_psi if now else None,
        "labels_p_value": now.labels_p_value if now else None,
        "classes": [
            {"label": one.label, "now": one.now, "labelled": one.before} for one in (now.classes if now else ())
        ],
    }

"""Monitors take in what has come, and raise their alarms: state, cursor and alarm in one transaction.

Any number may feed at once: what one holds, the others leave alone. Whoever dies in between has changed nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from math import ldexp
from typing import Any
from uuid import UUID

from demur.audit.monitors.arrivals import (
    SETTLED_SECONDS,
    DrawnAnswer,
    MonitorLabel,
    MonitorRecord,
    RecordCursor,
    confused,
    drawn_after,
    label_cursor,
    labels_after,
    lately_answered,
    latest_records,
    record_cursor,
    records_after,
)
from demur.audit.monitors.expected import expected_wrong
from demur.audit.monitors.reference import ReferenceSample, compared, sample_from_json
from demur.audit.monitors.risk import RiskSettings, RiskState, new_risk_state, risk_state_from_json
from demur.audit.monitors.traffic import TrafficSettings, TrafficState, traffic_state_from_json
from demur.audit.monitors.wording import confidence_words, corrected_risk, held_words, risk_words
from demur.audit.reviewer_error import reviewer_error, share_called_wrong
from demur.audit.state import alarms, standing
from demur.audit.state.alarms import Alarm, AlarmKind, OnAlarm, floor_for, raise_alarm
from demur.audit.state.standing import KNOWN_AFTER_SECONDS, MonitorState, Role
from demur.review.disagreement import decided_checks
from demur.traffic.database import Connection
from demur.traffic.draw import BITS, Draws
from demur.traffic.outcomes import Precedence

AT_A_TIME = 4096
"""Labels, or records, taken in by one transaction."""

LATELY = 1000
"""So many of the latest answers say where a floor must lie to hold back a share of them."""

CONFUSED = 5000
"""So many of the latest cases say which labels are taken for which."""

COMPARED_SECONDS = 10.0
"""How old a comparison with the reference may become while records come."""

IDLE = timedelta(minutes=1)
"""A cursor that found nothing moves on when it is this old."""

PURPOSE = "drift"
"""Of the draws that break ties among confidences."""


@dataclass(frozen=True, kw_only=True)
class WatchedArtifact:
    """An artifact of a model, and how it is watched."""

    model: str
    artifact: str
    role: Role | None
    since: datetime
    """Before that it decided nothing."""

    risk: RiskSettings
    floor: float
    """The least label probability of its answers."""

    traffic: TrafficSettings
    window: int
    """So many of the latest records are compared with the reference."""

    on_alarm: OnAlarm
    tighten_to: float
    """Of what was lately answered, the share that a floor leaves."""

    loss: Callable[[MonitorLabel], float]
    """How wrong an answer was, in [0, 1]."""

    precedence: Precedence

    wait_seconds: float = 0.0
    """How long a review is waited for, where labels are taken in order."""

    wrong_in_part: bool = False
    """Whether `loss` may lie between 0 and 1: such losses are not corrected for the errors of reviewers."""


@dataclass(frozen=True, kw_only=True)
class FeedResult:
    """What came of one transaction."""

    n: int = 0
    """Labels or records taken in."""

    more: bool = False
    alarms: tuple[Alarm, ...] = ()


NOTHING = FeedResult()


def begin(connection: Connection, watched: WatchedArtifact) -> None:
    """Make sure that the artifact has its monitors."""
    common = {"role": watched.role, "counts_from": watched.since}
    standing.begin(
        connection,
        watched.model,
        watched.artifact,
        "risk",
        settings=watched.risk.as_json(),
        state=new_risk_state(watched.risk, watched.floor).as_json(),
        **common,  # type: ignore[arg-type]
    )
    standing.begin(
        connection,
        watched.model,
        watched.artifact,
        "traffic",
        settings=asdict(watched.traffic),
        state=TrafficState(settings=watched.traffic).as_json(),
        **common,  # type: ignore[arg-type]
    )


@dataclass(frozen=True, kw_only=True)
class _LabelBatch:
    """Labels to take in, and where the cursor stands once they are."""

    losses: Sequence[float | None]
    probabilities: Sequence[float]
    cursor: Mapping[str, Any]
    more: bool
    waiting_since: str | None = None


def feed_risk(connection: Connection, watched: WatchedArtifact) -> FeedResult:
    """Take in labels that have become final. Another promise, or another error level, begins another round."""
    row = standing.taken(connection, watched.model, watched.artifact, "risk")
    if row is None:
        return NOTHING
    if row.settings != watched.risk.as_json():
        _restart_risk(connection, row, watched.risk, watched.floor, after_seconds=0)
        return FeedResult(more=True)
    batch = (_in_order if watched.risk.in_order else _as_they_come)(connection, watched, row)
    old = risk_state_from_json(row.state)
    called_wrong = _called_wrong(connection, watched, old) if batch.losses else None
    state = old.lowered(watched.floor).updated(batch.losses, batch.probabilities, called_wrong=called_wrong)
    state = replace(state, waiting_since=batch.waiting_since)
    raised = _risk_alarm(connection, row, watched, state) if state.alarmed and not state.raised else None
    if raised:
        state = replace(state, raised=True)
    if raised and raised.action == OnAlarm.TIGHTEN:  # from now on other answers are given: another round for these
        kept = replace(row, cursor=dict(batch.cursor))
        _restart_risk(connection, kept, watched.risk, watched.floor, after_seconds=KNOWN_AFTER_SECONDS)
    elif batch.losses or batch.cursor != row.cursor or state != old:
        standing.keep(connection, row, state=state.as_json(), cursor=dict(batch.cursor))
    return FeedResult(n=len(batch.losses), more=batch.more, alarms=(raised,) if raised else ())


def _called_wrong(connection: Connection, watched: WatchedArtifact, state: RiskState) -> float | None:
    """The share that reviewers would call wrong if the promise just held; None where their errors are not known."""
    if watched.risk.target is None or watched.wrong_in_part or not state.whole:
        return None
    checks = decided_checks(connection, watched.model, until=datetime.now(UTC))
    return share_called_wrong(reviewer_error(checks), watched.risk.target)


def _as_they_come(connection: Connection, watched: WatchedArtifact, row: MonitorState) -> _LabelBatch:
    """Labels in the order in which reviewers speak."""
    labels = labels_after(
        connection,
        watched.model,
        watched.artifact,
        label_cursor(row.cursor),
        counts_from=row.counts_from,
        precedence=watched.precedence,
        most=AT_A_TIME,
    )
    return _LabelBatch(
        losses=[watched.loss(one) for one in labels.new],
        probabilities=[one.probability for one in labels.new],
        cursor=labels.cursor.as_json(),
        more=labels.more,
    )


def _in_order(connection: Connection, watched: WatchedArtifact, row: MonitorState) -> _LabelBatch:
    """Labels in the order of their records, up to the first that is not reviewed (METHODS 10.14, blocks of one record).

    So no monitor sees errors sooner than right answers, whichever reviewers find first. A record is waited for as long
    as `wait_seconds` says, and while somebody may still speak about it.
    """
    cursor = record_cursor(row.cursor)

    def drawn(most: int) -> list[DrawnAnswer]:
        return drawn_after(
            connection,
            watched.model,
            watched.artifact,
            cursor,
            counts_from=row.counts_from,
            precedence=watched.precedence,
            most=most,
        )

    clock = connection.execute("select clock_timestamp()").fetchone()
    assert clock is not None
    late_before = clock[0] - timedelta(seconds=watched.wait_seconds)

    def waits(one: DrawnAnswer) -> bool:
        return one.label is None and not one.closed and one.at >= late_before

    answers = drawn(1)  # mostly nothing has come, or the first still waits
    if answers and not waits(answers[0]):
        answers = drawn(AT_A_TIME)
    taken = list(takewhile(lambda one: not waits(one), answers))
    first = answers[len(taken)] if len(taken) < len(answers) else None
    after = cursor.moved(taken[-1] if taken else None)
    settled = clock[0] - timedelta(seconds=SETTLED_SECONDS)
    if not answers and (after.at is None or after.at < settled - IDLE):  # the next look need not read all that again
        after = RecordCursor(at=settled, id=UUID(int=0))
    return _LabelBatch(
        losses=[None if one.label is None else watched.loss(one.label) for one in taken],
        probabilities=[one.probability for one in taken],
        cursor=after.as_json() or row.cursor,
        more=len(taken) == AT_A_TIME,
        waiting_since=None if first is None else first.at.isoformat(),
    )


def feed_traffic(connection: Connection, watched: WatchedArtifact, draws: Draws) -> FeedResult:
    """Take in records: the first of them as the reference, the others to compare."""
    row = standing.taken(connection, watched.model, watched.artifact, "traffic")
    if row is None:
        return NOTHING
    if row.settings != asdict(watched.traffic):
        _restart_traffic(connection, row, watched.traffic, after_seconds=0)
        return FeedResult(more=True)
    cursor = record_cursor(row.cursor)
    records = records_after(
        connection, watched.model, watched.artifact, cursor, counts_from=row.counts_from, most=AT_A_TIME
    )
    old = traffic_state_from_json(row.state)
    if records:
        state = old.counted([one.seen for one in records], [one.probability for one in records])
        rest = records
        if state.jumper is None:
            state, gone = _reference(connection, watched, row, state, records)
            rest = records[gone:]
        state = state.compared([one.seen for one in rest], [ldexp(draws.of(str(one.id)), -BITS) for one in rest])
    else:
        state = old
    new = [AlarmKind(kind) for kind in state.alarmed if kind not in state.raised]
    raised = [alarm for kind in new if (alarm := _traffic_alarm(connection, row, watched, state, kind))]
    state = replace(state, raised=tuple(dict.fromkeys((*state.raised, *state.alarmed))))
    if records or state != old:
        cursor = cursor.moved(records[-1] if records else None)
        standing.keep(connection, row, state=state.as_json(), cursor=cursor.as_json())
    return FeedResult(n=len(records), more=len(records) == AT_A_TIME, alarms=tuple(raised))


def compare(connection: Connection, watched: WatchedArtifact) -> bool:
    """Compare the latest records with the reference, where that was not just done; return whether it was done now."""
    due = connection.execute(
        "select reference.state, reference.cursor ->> 'at' from monitors reference"
        " join monitors traffic using (model, artifact)"
        " left join monitors comparison on comparison.model = traffic.model"
        "   and comparison.artifact = traffic.artifact and comparison.kind = 'comparison'"
        " where traffic.model = %s and traffic.artifact = %s and traffic.kind = 'traffic'"
        "   and reference.kind = 'reference' and (reference.state ->> 'complete')::boolean"
        "   and (comparison.kind is null or comparison.updated_at < traffic.updated_at"
        "     and comparison.updated_at < clock_timestamp() - make_interval(secs => %s))",
        (watched.model, watched.artifact, COMPARED_SECONDS),
    ).fetchone()
    if due is None:
        return False
    latest = latest_records(
        connection, watched.model, watched.artifact, after=datetime.fromisoformat(due[1]), most=watched.window
    )
    found = compared(
        sample_from_json(due[0]["sample"]),
        ReferenceSample().added([one.seen for one in latest]),
        confused(connection, watched.model, watched.artifact, most=CONFUSED),
    )
    if found is None:
        return False
    expected = expected_wrong([one.seen for one in latest], found, delta=watched.traffic.delta)
    state = {**found.as_json(), "expected": expected and expected.as_json()}
    standing.begin(
        connection,
        watched.model,
        watched.artifact,
        "comparison",
        role=watched.role,
        counts_from=watched.since,
        settings={"window": watched.window},
        state=state,
    )
    row = standing.taken(connection, watched.model, watched.artifact, "comparison")
    if row is not None:
        standing.keep(connection, row, state=state, cursor={})
    return row is not None


def undo(connection: Connection, alarm_id: int, *, by: str, why: str) -> Alarm:
    """Let a person undo an alarm: what it did ends, and its monitor starts again with the records that are decided from
    now on; one without labels takes them for its new reference. An audit has none. Raises `AlarmNotFound`."""
    alarm = alarms.find(connection, alarm_id)
    if alarm.kind == AlarmKind.AUDIT:
        return alarms.mark_undone(connection, alarm_id, by=by, why=why)
    kind: standing.MonitorKind = "risk" if alarm.kind == AlarmKind.RISK else "traffic"
    row = standing.held(connection, alarm.model, alarm.artifact, kind)  # before the alarm, as whoever feeds does it
    undone = alarms.mark_undone(connection, alarm_id, by=by, why=why)
    if row is None:
        return undone
    if kind == "risk":
        state = risk_state_from_json(row.state)
        _restart_risk(connection, row, state.settings, state.floor, after_seconds=KNOWN_AFTER_SECONDS)
    else:
        settings = traffic_state_from_json(row.state).settings
        _restart_traffic(connection, row, settings, after_seconds=KNOWN_AFTER_SECONDS)
    return undone


def _restart_risk(
    connection: Connection, row: MonitorState, settings: RiskSettings, floor: float, *, after_seconds: float
) -> None:
    state = new_risk_state(settings, floor).as_json()
    standing.restart(
        connection, row, settings=settings.as_json(), state=state, cursor=row.cursor, after_seconds=after_seconds
    )


def _restart_traffic(
    connection: Connection, row: MonitorState, settings: TrafficSettings, *, after_seconds: float
) -> None:
    state = TrafficState(settings=settings).as_json()
    standing.restart(connection, row, settings=asdict(settings), state=state, cursor={}, after_seconds=after_seconds)
    for kind in ("reference", "comparison"):
        standing.forget(connection, row.model, row.artifact, kind)


def _reference(
    connection: Connection,
    watched: WatchedArtifact,
    row: MonitorState,
    state: TrafficState,
    records: Sequence[MonitorRecord],
) -> tuple[TrafficState, int]:
    """Add records to the reference until it is complete; return the state then, and how many went into it."""
    standing.begin(
        connection,
        watched.model,
        watched.artifact,
        "reference",
        role=watched.role,
        counts_from=row.counts_from,
        settings=asdict(watched.traffic),
        state={"complete": False, "sample": ReferenceSample().as_json()},
    )
    kept = standing.held(connection, watched.model, watched.artifact, "reference")
    assert kept is not None
    sample = sample_from_json(kept.state["sample"])
    wanted = records[: watched.traffic.reference - sample.n]
    sample = sample.added([one.seen for one in wanted])
    complete = sample.n == watched.traffic.reference
    standing.keep(
        connection,
        kept,
        state={"complete": complete, "sample": sample.as_json()},
        cursor=record_cursor({}).moved(wanted[-1]).as_json(),
    )
    return (state.begun(sample) if complete else state), len(wanted)


def _risk_alarm(connection: Connection, row: MonitorState, watched: WatchedArtifact, state: RiskState) -> Alarm | None:
    action, floor = watched.on_alarm, None
    if action is OnAlarm.TIGHTEN:
        now = [one.floor for one in alarms.safeguards(connection) if one.model == watched.model]
        if None not in now:
            least = max((one for one in now if one is not None), default=0.0)
            confidences = [
                one for one in lately_answered(connection, watched.model, most=LATELY) if one is None or one >= least
            ]
            floor = floor_for(confidences, watched.tighten_to)
    assert state.bets is not None
    assert state.deciding is not None
    reviewers = reviewer_error(decided_checks(connection, watched.model, until=datetime.now(UTC)))
    corrected = corrected_risk(state, reviewers)
    return raise_alarm(
        connection,
        model=watched.model,
        artifact=watched.artifact,
        kind=AlarmKind.RISK,
        round=row.round,
        words=risk_words(state),
        evidence={
            "target": state.settings.target,
            "delta": state.settings.delta,
            "p_value": state.deciding.p_value,
            "log_wealth": state.deciding.log_wealth,
            "called_wrong": state.corrected_bets and state.corrected_bets.target,
            "observed_p_value": state.bets.p_value,
            "observed_log_wealth": state.bets.log_wealth,
            "n_labelled": state.n_labelled,
            "late": state.late,
            "errors": state.errors,
            "estimate": state.estimate,
            "lower": state.lower,
            "upper": state.upper,
            "corrected_lower": corrected and corrected.lower,
            "corrected_upper": corrected and corrected.upper,
        },
        action=action,
        floor=floor,
    )


def _traffic_alarm(
    connection: Connection, row: MonitorState, watched: WatchedArtifact, state: TrafficState, kind: AlarmKind
) -> Alarm | None:
    common: dict[str, Any] = {"delta": state.settings.delta, "n": state.n, "reference": state.settings.reference}
    if kind is AlarmKind.CONFIDENCE:
        assert state.jumper is not None
        evidence = {**common, "log_martingale": state.jumper.log_wealth, "p_value": state.jumper.p_value}
        words = confidence_words(state)
    else:
        evidence = {
            **common,
            "held": state.n_held,
            "compared": state.n_compared,
            "at_most": state.too_much and state.too_much.target,
            "at_least": state.too_little and state.too_little.target,
        }
        words = held_words(state)
    return raise_alarm(
        connection,
        model=watched.model,
        artifact=watched.artifact,
        kind=kind,
        round=row.round,
        words=words,
        evidence=evidence,
    )

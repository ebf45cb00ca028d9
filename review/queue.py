"""The queue: every move that a person makes with a case. Each function works inside the transaction it is given.

One clock rules all leases, that of the database. The table itself refuses a move that `item.TRANSITIONS` does not list,
and notes every other one as an event.
"""

import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from demur.review import cases, corrections, given_back
from demur.review.cases import IN_ORDER, IN_SCOPE, NOT_ANOTHERS, NOT_YET_BY
from demur.review.item import ENDED, EVERYTHING, Case, Claim, NewCase, QueueOrder, ReviewerScope, ReviewVerdict, Status
from demur.review.outbox import WebhookEvent, announce_all
from demur.traffic import log
from demur.traffic.database import Connection, migrations_in

REVIEW_MIGRATIONS = migrations_in("review", Path(__file__).parent / "migrations")

SEATS = (
    "status = case when adjudicating then 'adjudication' else 'waiting' end, lease_until = null, claimed_by = null,"
    " ahead = false"
)
"""What a case is after a claim that led to nothing."""


TURN_SECONDS = 2.0
"""How long a claim waits for others of the same person."""

TRY_SECONDS = 0.02
"""How long it waits between two looks."""


class ClaimLost(RuntimeError):
    """Somebody else holds the case, your time for it ran out, or it has ended. Take another one."""


class NotYours(PermissionError):
    """This person may not see cases like this, may not decide about it, or has spoken about it before."""


ENQUEUE = (
    'insert into review_items (id, record_id, kind, model, status, created_at, "group", confidence, priority, due_at,'
    " opinions_wanted, blind)"
    " select record_id, record_id, kind, model, 'waiting', created_at, \"group\", confidence, priority, due_at,"
    " opinions_wanted, blind from json_to_recordset(%s::json) as told ("
    ' record_id uuid, kind text, model text, created_at timestamptz, "group" text, confidence float8, priority integer,'
    " due_at timestamptz, opinions_wanted integer, blind boolean)"
    " on conflict do nothing"
)


def enqueue(connection: Connection, new: Sequence[NewCase]) -> None:
    """Put records into the queue, all by one statement. Doing it again changes nothing."""
    connection.execute(ENQUEUE, (orjson.dumps(new).decode(),), prepare=True)


def claim(
    connection: Connection, case_id: UUID, reviewer: str, *, lease_seconds: float, scope: ReviewerScope = EVERYTHING
) -> Claim:
    """Take one case. A reviewer who holds it already gets the lease anew, under the same token."""
    lapse(connection, case_id)
    # locked before it is judged: what this person may do with it hangs on a state that may be changing just now
    connection.execute("select from review_items where id = %s for update", (case_id,))
    wanted = cases.case(connection, case_id)
    _check_may(connection, wanted, reviewer, scope)
    taken = _claim(
        connection,
        "id = %(id)s and (status in ('waiting', 'adjudication') or (status = 'claimed' and claimed_by = %(reviewer)s))",
        {"id": case_id, "reviewer": reviewer, "seconds": lease_seconds, "ahead": False},
    )
    if taken is None:
        raise ClaimLost(f"{_why_lost(connection, case_id)}; take another one")
    return taken


def take_turns(connection: Connection, reviewer: str) -> None:
    """Wait until no other transaction claims cases for this person, and keep others waiting until this one ends. Two
    tabs, or a page and what it asks for ahead, would else pass over the case that the other is about to get. Whoever
    holds others up for long (a machine that is gone, say) is waited for `TURN_SECONDS` and no longer."""
    until = time.monotonic() + TURN_SECONDS
    while not _has_turn(connection, reviewer) and time.monotonic() < until:
        time.sleep(TRY_SECONDS)


def _has_turn(connection: Connection, reviewer: str) -> bool:
    asked = connection.execute("select pg_try_advisory_xact_lock(hashtextextended(%s, 0))", (f"claims of {reviewer}",))
    return asked.fetchone() == (True,)


def claim_next(
    connection: Connection,
    reviewer: str,
    *,
    lease_seconds: float,
    scope: ReviewerScope = EVERYTHING,
    order: QueueOrder = QueueOrder.AGE,
    model: str | None = None,
    again: bool = False,
    ahead: bool = False,
) -> Claim | None:
    """Take the case that comes first of those that are free and that this person may answer; None when there is none.
    What is kept for this person comes before all others, and then cases about which people disagree. What is kept for
    somebody else is left out until its due time is over. Two callers never get the same one.

    A case that this person gave back a while ago is left out, unless they ask for such cases too (`again`); one that
    they skipped (`demur.review.skips`) always is. `ahead`: they do not look at it yet (`demur.review.ahead`).
    """
    lapse(connection)
    values = {
        "ahead": ahead,
        "again": again,
        "reviewer": reviewer,
        "seconds": lease_seconds,
        "models": None if scope.models is None else list(scope.models),
        "groups": None if scope.groups is None else list(scope.groups),
        "model": model,
    }
    statuses = (Status.ADJUDICATION, Status.WAITING) if scope.adjudicates else (Status.WAITING,)
    for whose, status in product(("assigned_to = %(reviewer)s and ended_at is null", NOT_ANOTHERS), statuses):
        taken = _claim(
            connection,
            f"id = (select id from review_items i where status = '{status.value}' and {IN_SCOPE} and {NOT_YET_BY}"
            f" and {whose}"
            " and (%(model)s::text is null or model = %(model)s)"
            f" and (%(again)s or not {given_back.KEPT_AWAY}) and not {given_back.SKIPPED}"
            f" order by {IN_ORDER[order]} limit 1 for update skip locked)",
            values,
        )
        if taken:
            return taken
    return None


def heartbeat(
    connection: Connection,
    case_id: UUID,
    reviewer: str,
    *,
    token: int,
    lease_seconds: float,
    draft: dict[str, Any] | None = None,
) -> Claim:
    """Prolong a claim, and keep what the person has typed so far. A case that was claimed ahead is open from now on."""
    row = connection.execute(
        "update review_items set lease_until = clock_timestamp() + make_interval(secs => %(seconds)s),"
        " opened_at = case when ahead then clock_timestamp() else opened_at end, ahead = false"
        " where id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s and token = %(token)s"
        " and lease_until >= clock_timestamp() returning lease_until, adjudicating",
        {"id": case_id, "reviewer": reviewer, "token": token, "seconds": lease_seconds},
    ).fetchone()
    if row is None:
        raise ClaimLost(_why_lost(connection, case_id))
    if draft is not None:  # after the case, as an answer does it: else the two could wait for each other
        keep_draft(connection, case_id, reviewer, draft)
    return Claim(case_id=case_id, reviewer=reviewer, token=token, lease_until=row[0], adjudicating=row[1])


def keep_draft(connection: Connection, case_id: UUID, reviewer: str, content: dict[str, Any]) -> None:
    """Keep what somebody typed, in place of what they typed before; no text for a reply that is no longer kept."""
    if content.get("text") is not None and not corrections.is_reply_kept(connection, case_id):
        content = {**content, "text": None}
    connection.execute(
        "insert into review_drafts (case_id, reviewer, content) values (%s, %s, %s)"
        " on conflict (case_id, reviewer) do update set content = excluded.content, at = clock_timestamp()",
        (case_id, reviewer, orjson.dumps(content).decode()),
    )


def answer(
    connection: Connection, case_id: UUID, reviewer: str, *, token: int, verdict: ReviewVerdict, undo_seconds: float
) -> Case:
    """Say what a claimed case is. It settles (`demur.review.settling`) when the time to take it back is over.

    Sending the same again changes nothing. Raises `ClaimLost` if it is not this claim that holds the case.
    """
    row = connection.execute(
        "update review_items set status = 'answered', lease_until = null, ahead = false,"
        " settles_at = clock_timestamp() + make_interval(secs => %(undo)s), moved_by = %(reviewer)s,"
        " moved_detail = %(detail)s where id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s"
        " and token = %(token)s and lease_until >= clock_timestamp() returning adjudicating, opened_at",
        {
            "id": case_id,
            "reviewer": reviewer,
            "token": token,
            "undo": undo_seconds,
            "detail": _json({"saw_prediction": verdict.saw_prediction}),
        },
    ).fetchone()
    if row is None:
        if not _said_before(connection, case_id, reviewer, token, verdict):
            raise ClaimLost(_why_lost(connection, case_id))
        return cases.case(connection, case_id)
    connection.execute(
        "insert into review_opinions"
        " (case_id, token, reviewer, adjudicates, label, reason, comment, codes, saw_prediction, seconds)"
        " values (%(id)s, %(token)s, %(reviewer)s, %(adjudicates)s, %(label)s, %(reason)s, %(comment)s, %(codes)s,"
        "   %(saw)s,"
        "   extract(epoch from clock_timestamp() - coalesce(%(opened)s::timestamptz, (select at from review_events"
        "     where case_id = %(id)s and token = %(token)s and to_status = 'claimed' order by id limit 1))))",
        {
            "id": case_id,
            "token": token,
            "reviewer": reviewer,
            "adjudicates": row[0],
            "opened": row[1],
            "label": None if verdict.label is None else _json(verdict.label),
            "reason": verdict.reason,
            "comment": verdict.comment,
            "codes": list(verdict.codes) or None,
            "saw": verdict.saw_prediction,
        },
    )
    if verdict.text is not None:
        corrections.keep(connection, case_id, token, verdict.text)
    connection.execute("delete from review_drafts where case_id = %s and reviewer = %s", (case_id, reviewer))
    return cases.case(connection, case_id)


def undo(connection: Connection, case_id: UUID, reviewer: str, *, token: int, lease_seconds: float) -> Claim:
    """Take an answer back while there is time, and hold the case again, under a new token. What was said stays on
    record as taken back. Doing it again changes nothing."""
    row = connection.execute(
        "update review_items set status = 'claimed', settles_at = null, token = token + 1, opened_at = null,"
        " lease_until = clock_timestamp() + make_interval(secs => %(seconds)s), moved_by = %(reviewer)s,"
        " moved_detail = '{\"why\": \"taken back\"}' where id = %(id)s and status = 'answered'"
        " and claimed_by = %(reviewer)s and token = %(token)s and settles_at >= clock_timestamp()"
        " returning token, lease_until, adjudicating",
        {"id": case_id, "reviewer": reviewer, "token": token, "seconds": lease_seconds},
    ).fetchone()
    if row is None:
        now = cases.case(connection, case_id)
        if now.status is Status.CLAIMED and (now.claimed_by, now.token) == (reviewer, token + 1):
            return heartbeat(connection, case_id, reviewer, token=now.token, lease_seconds=lease_seconds)
        raise ClaimLost("it is too late to take this answer back: it counts")
    connection.execute(
        "update review_opinions set undone_at = clock_timestamp() where case_id = %s and token = %s", (case_id, token)
    )
    if (draft := corrections.as_draft(connection, case_id, token)) is not None:  # nobody writes a text twice
        keep_draft(connection, case_id, reviewer, draft)
    return Claim(case_id=case_id, reviewer=reviewer, token=row[0], lease_until=row[1], adjudicating=row[2])


def release(
    connection: Connection,
    case_id: UUID,
    reviewer: str,
    *,
    token: int,
    away_seconds: float = 0,
    why: str | None = None,
) -> None:
    """Give a claimed case back unanswered. For `away_seconds` it does not come to this person by itself."""
    changed = connection.execute(
        f"update review_items set {SEATS}, moved_by = %(reviewer)s, moved_detail = %(detail)s"
        " where id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s and token = %(token)s",
        {"id": case_id, "reviewer": reviewer, "token": token, "detail": None if why is None else _json({"why": why})},
    ).rowcount
    if changed == 0:
        raise ClaimLost(_why_lost(connection, case_id))
    if away_seconds > 0:
        given_back.keep_away(connection, case_id, reviewer, seconds=away_seconds)


def free(connection: Connection, case_id: UUID, reviewer: str, *, why: str, only_ahead: bool = False) -> None:
    """Let go of a case if this person holds it: it waits for anybody again, for this person too. `only_ahead`: not
    where they have opened it."""
    connection.execute(
        f"update review_items set {SEATS}, moved_by = %(reviewer)s, moved_detail = %(detail)s"
        " where id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s and (ahead or not %(only_ahead)s)",
        {"id": case_id, "reviewer": reviewer, "detail": _json({"why": why}), "only_ahead": only_ahead},
    )


def withdraw(connection: Connection, case_id: UUID, actor: str | None, *, why: str) -> Case:
    """End a case that nobody need look at any more, whoever holds it. Doing it again changes nothing. `actor`: who
    said so; None: no person."""
    changed = withdraw_all(connection, [case_id], actor, why=why)
    now = cases.case(connection, case_id)
    if not changed and now.status is not Status.WITHDRAWN:
        raise ClaimLost(f"this case has ended: it is {now.status.value}")
    return now


def withdraw_all(connection: Connection, case_ids: Sequence[UUID], actor: str | None, *, why: str) -> list[UUID]:
    """End all these cases that have not ended, whoever holds them; return which."""
    rows = connection.execute(
        "update review_items set status = 'withdrawn', lease_until = null, settles_at = null, ahead = false,"
        " ended_at = clock_timestamp(), moved_by = %(actor)s, moved_detail = %(detail)s"
        " where id = any(%(ids)s) and status <> all(%(ended)s) returning id",
        {
            "ids": list(case_ids),
            "actor": actor,
            "detail": _json({"why": why}),
            "ended": [status.value for status in ENDED],
        },
    ).fetchall()
    ended = [row[0] for row in rows]
    announce_all(connection, ended, WebhookEvent.WITHDRAWN)
    return ended


def lapse(connection: Connection, case_id: UUID | None = None) -> int:
    """Free the cases whose lease ran out (or that one); return how many."""
    return connection.execute(
        f'update review_items set {SEATS}, moved_by = null, moved_detail = \'{{"why": "the lease ran out"}}\''
        " where id in (select id from review_items where status = 'claimed' and lease_until < clock_timestamp()"
        "   and (%(id)s::uuid is null or id = %(id)s) for update skip locked)",
        {"id": case_id},
    ).rowcount


def forget_inputs(connection: Connection) -> int:
    """Delete the inputs whose time is up, except of cases that a person has yet to look at; return how many."""
    gone = connection.execute(
        "with gone as (delete from payloads p where expires_at < clock_timestamp() and not exists ("
        "  select 1 from review_items i where i.record_id = p.record_id and i.ended_at is null) returning record_id),"
        f" keys as ({log.FORGET_KEYS.format(ids='select record_id from gone')}) select record_id from gone"
    ).fetchall()
    corrections.forget(connection, [row[0] for row in gone])
    return len(gone)


def _claim(connection: Connection, which: str, values: dict[str, Any]) -> Claim | None:
    row: tuple[UUID, int, Any, bool] | None = connection.execute(
        # the row is locked before it is judged, so of two claims the second sees what the first did
        f"with free as (select id, status from review_items where {which} for update)"
        " update review_items i set status = 'claimed', claimed_by = %(reviewer)s,"
        "   lease_until = clock_timestamp() + make_interval(secs => %(seconds)s),"
        "   adjudicating = i.adjudicating or free.status = 'adjudication',"
        "   first_claimed_at = coalesce(first_claimed_at, clock_timestamp()),"
        "   moved_by = %(reviewer)s, moved_detail = null, ahead = %(ahead)s,"
        "   opened_at = case when free.status <> 'claimed' then null when i.ahead then clock_timestamp()"
        "     else i.opened_at end,"
        "   token = i.token + case when free.status = 'claimed' then 0 else 1 end"
        " from free where i.id = free.id returning i.id, i.token, i.lease_until, i.adjudicating",
        values,
    ).fetchone()
    if row is None:
        return None
    given_back.forget(connection, row[0], values["reviewer"])
    return Claim(case_id=row[0], reviewer=values["reviewer"], token=row[1], lease_until=row[2], adjudicating=row[3])


def check_covers(scope: ReviewerScope, case: Case) -> None:
    """Raise `NotYours` for a case that lies outside of the scope."""
    if not scope.covers(case):
        raise NotYours(f"cases of {case.model!r}, group {case.group or 'none'}, are not among those you review")


def _check_may(connection: Connection, wanted: Case, reviewer: str, scope: ReviewerScope) -> None:
    check_covers(scope, wanted)
    if wanted.status is Status.ADJUDICATION and not scope.adjudicates:
        raise NotYours("people disagree about this case, and you are not among those who decide")
    if wanted.status is Status.ANSWERED or wanted.status in ENDED:
        return
    free, not_anothers = connection.execute(
        f"select {NOT_YET_BY}, {NOT_ANOTHERS} from review_items i where id = %(id)s",
        {"id": wanted.id, "reviewer": reviewer},
    ).fetchone() or (True, True)
    if not free:
        raise NotYours("you have answered this case before; it waits for somebody else")
    if not not_anothers and wanted.claimed_by != reviewer:
        raise NotYours(f"this case is kept for {wanted.assigned_to}{_until_due(wanted)}; whoever leads can change that")


def _until_due(case: Case) -> str:
    return "" if case.due_at is None else f" until {case.due_at.astimezone():%Y-%m-%d %H:%M %Z}, when it is due"


def _said_before(connection: Connection, case_id: UUID, reviewer: str, token: int, verdict: ReviewVerdict) -> bool:
    row: tuple[Any, ...] | None = connection.execute(
        "select label, reason, comment, text, coalesce(codes, '{}')"
        " from review_opinions left join review_corrections using (case_id, token)"
        " where case_id = %s and token = %s and reviewer = %s and undone_at is null",
        (case_id, token, reviewer),
    ).fetchone()
    said = (verdict.label, verdict.reason, verdict.comment, verdict.text, list(verdict.codes))
    return row is not None and row == said


def _why_lost(connection: Connection, case_id: UUID) -> str:
    now = cases.case(connection, case_id)
    if now.status in (Status.WAITING, Status.ADJUDICATION):
        return "your time for this case ran out; claim it again"
    if now.status is Status.CLAIMED:
        return f"this case is with {now.claimed_by}"
    if now.status is Status.ANSWERED:
        return f"this case was just answered by {now.claimed_by}"
    return f"this case has ended: it is {now.status.value}"


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

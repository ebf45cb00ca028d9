"""What happens to cases by themselves: leases run out, answers settle, due times pass.

`settle` decides a case from all that was said about it; `sweep` does everything whose time has come, and is called
again and again by whoever serves the pages. Any number may sweep at once: what one has locked, the others leave out.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import orjson
import psycopg
from uuid_utils.compat import uuid7

from demur.review import cases, corrections, queue
from demur.review.adjudication import Agreement, adjudicate
from demur.review.corrections import Correction
from demur.review.item import Case, Kind, Opinion, Status
from demur.review.outbox import WebhookEvent, announce
from demur.traffic import log
from demur.traffic.database import Connection
from demur.traffic.draw import Draws, limit
from demur.traffic.outcomes import REVIEW
from demur.traffic.record import Answer

logger = logging.getLogger("demur.settling")

AT_ONCE = 500
"""Cases settled in one transaction."""

ESCALATED = 1000
"""The priority of a case whose due time passed, above all that a caller may ask for."""

AtDue = Literal["escalate", "notify", "unanswered"]


@dataclass(frozen=True, kw_only=True)
class DisagreementRule:
    """Groups about whose cases people disagree get more opinions."""

    disagreement_above: float
    """Share of the cases with several opinions on which these were not all the same."""

    at_least: int = 20
    """So many such cases must be known, of the latest `among`."""

    among: int = 200
    opinions: int = 2


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """How cases are settled."""

    unanimous: bool = False
    """Whether all must agree; else more than half."""

    re_review: float = 0.0
    """Share of the resolved cases that a second person looks at blindly."""

    draws: Draws | None = None
    """Of purpose `re-review`; needed where a share is drawn."""

    prone: DisagreementRule | None = None
    at_due: AtDue = "escalate"


def sweep(connection: Connection, rules: Settlement) -> int:
    """Do what the clock says; return how many cases have moved."""
    return queue.lapse(connection) + settle(connection, rules) + pass_due(connection, rules.at_due)


def settle(connection: Connection, rules: Settlement, case_id: UUID | None = None) -> int:
    """Settle the answers that can no longer be taken back (or that one); return how many."""
    ids = [
        row[0]
        for row in connection.execute(
            "select id from review_items where status = 'answered' and settles_at <= clock_timestamp()"
            " and (%(id)s::uuid is null or id = %(id)s) limit %(most)s for update skip locked",
            {"id": case_id, "most": AT_ONCE},
        ).fetchall()
    ]
    if not ids:
        return 0
    said = cases.opinions_of(connection, ids)
    settled = 0
    for one in ids:
        try:
            with connection.transaction():  # a case that cannot be settled keeps no other waiting
                _settle(connection, cases.case(connection, one), said[one], rules)
            settled += 1
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise  # that is not about this case
        except Exception:
            logger.exception("case %s cannot be settled", one)
    return settled


def _settle(connection: Connection, case: Case, opinions: Sequence[Opinion], rules: Settlement) -> None:
    counting = [opinion for opinion in opinions if opinion.undone_at is None]
    latest = counting[-1]
    if latest.adjudicates:
        how = "undecided" if latest.label is None else "adjudicated"
        _resolve(connection, case, latest.label, how, rules, corrections.agreed([latest], latest.label))
        return
    wanted = 1 if case.kind is Kind.RE_REVIEW else case.opinions_wanted
    if len(counting) >= wanted and rules.prone and case.kind is not Kind.RE_REVIEW:
        wanted = max(wanted, _wanted_in_group(connection, case, rules.prone))
    if len(counting) < wanted:
        _move(connection, case, Status.WAITING, {"why": f"{len(counting)} of {wanted} opinions"}, wanted=wanted)
        return
    verdicts = [opinion.label for opinion in counting]
    if case.kind is Kind.RE_REVIEW:
        verdicts.append(cases.case(connection, case.record_id).label)  # what it checks
    found = adjudicate(verdicts, minimum=len(verdicts))  # who cannot tell leaves it to somebody else
    if found.status is Agreement.AGREED or (found.status is Agreement.MAJORITY and not rules.unanimous):
        assert found.verdict is not None  # else nobody would agree
        if corrections.differ(counting, found.verdict):
            _move(connection, case, Status.ADJUDICATION, {"why": "they correct it differently"})
            return
        correction = corrections.agreed(counting, found.verdict)
        _resolve(connection, case, found.verdict, found.status.value, rules, correction)
    else:
        _move(connection, case, Status.ADJUDICATION, {"why": "cannot tell" if None in verdicts else "they disagree"})


def _resolve(
    connection: Connection,
    case: Case,
    label: Answer | None,
    resolution: str,
    rules: Settlement,
    correction: Correction,
) -> None:
    connection.execute(
        "update review_items set status = 'resolved', settles_at = null, ended_at = clock_timestamp(),"
        " label = %(label)s, resolution = %(resolution)s, moved_by = null, moved_detail = %(detail)s where id = %(id)s",
        {
            "id": case.id,
            "label": None if label is None else _json(label),
            "resolution": resolution,
            "detail": _json({"resolution": resolution}),
        },
    )
    if label is not None and not (case.kind is Kind.RE_REVIEW and resolution == "agreed"):  # that says nothing new
        log.add_outcome(
            connection,
            case.record_id,
            label=label,
            source=REVIEW,
            author=correction.author or case.claimed_by,
            text=correction.text,
            codes=correction.codes,
        )
    if label is None and case.kind is not Kind.RE_REVIEW:  # an answer that was changed: what it had said is not known
        connection.execute("delete from outcomes where record_id = %s and source = %s", (case.record_id, REVIEW))
    announce(connection, case.id, WebhookEvent.RESOLVED)
    if case.kind is not Kind.RE_REVIEW and label is not None:
        _draw_re_review(connection, case, rules)


def _draw_re_review(connection: Connection, case: Case, rules: Settlement) -> None:
    """Ask once more about a share of what was resolved, blindly, as long as the input is still there.

    It looks as a held case does: the same kind of id, as urgent, wanted of as many; but one opinion is enough.
    """
    if not rules.re_review or rules.draws is None:
        return
    if rules.draws.of(str(case.record_id)) < limit(rules.re_review):
        connection.execute(
            'insert into review_items (id, record_id, kind, model, status, created_at, "group", confidence, blind,'
            "   priority, due_at, opinions_wanted)"
            " select %(new)s, %(record)s, 're_review', model, 'waiting', clock_timestamp(), \"group\", confidence,"
            f"  true, case when priority < {ESCALATED} then priority else 0 end,"
            "   clock_timestamp() + (due_at - created_at), opinions_wanted"
            " from review_items where id = %(id)s and exists (select from payloads where record_id = %(record)s)"
            " on conflict do nothing",
            {"new": uuid7(), "record": case.record_id, "id": case.id},
        )


def _wanted_in_group(connection: Connection, case: Case, prone: DisagreementRule) -> int:
    row = connection.execute(
        "select count(*), count(*) filter (where resolution <> 'agreed') from ("
        '  select resolution from review_items where model = %(model)s and "group" is not distinct from %(group)s'
        "  and opinions_wanted > 1 and kind <> 're_review' and status = 'resolved'"
        "  order by ended_at desc limit %(among)s) latest",
        {"model": case.model, "group": case.group, "among": prone.among},
    ).fetchone()
    assert row is not None
    known, apart = row
    return prone.opinions if known >= prone.at_least and apart > prone.disagreement_above * known else 1


def pass_due(connection: Connection, at_due: AtDue) -> int:
    """Note the cases whose due time has passed, each once, and do with them what is to be done; return how many."""
    busy = () if at_due == "unanswered" else ("claimed", "answered")  # looked at when whoever is at it is done
    statuses = ("waiting", "adjudication", *busy)
    rows = connection.execute(  # the time of the statement stands still, so an index can be searched for it
        "select id from review_items where due_at <= statement_timestamp() and overdue_at is null"
        f" and status in ({', '.join(map(repr, statuses))}) limit %s for update skip locked",
        (AT_ONCE,),
    ).fetchall()
    for (case_id,) in rows:
        if at_due == "unanswered":
            connection.execute(
                "update review_items set status = 'expired', overdue_at = clock_timestamp(),"
                ' ended_at = clock_timestamp(), moved_by = null, moved_detail = \'{"why": "the due time passed"}\''
                " where id = %s",
                (case_id,),
            )
            announce(connection, case_id, WebhookEvent.EXPIRED)
        else:
            raised = f", priority = greatest(priority, {ESCALATED})" if at_due == "escalate" else ""
            connection.execute(
                f"update review_items set overdue_at = clock_timestamp(){raised} where id = %s", (case_id,)
            )
            announce(connection, case_id, WebhookEvent.OVERDUE)
    return len(rows)


def withdraw_known(connection: Connection) -> int:
    """Withdraw held cases of which a caller has told the outcome, unless somebody is at them; return how many. Drawn
    cases stay, because what people say of them measures the model, or other people."""
    rows = connection.execute(
        "select id from review_items i where kind = 'held' and status in ('waiting', 'adjudication')"
        " and exists (select from outcomes o where o.record_id = i.record_id and o.source <> %s)"
        " limit %s for update skip locked",
        (REVIEW, AT_ONCE),
    ).fetchall()
    for (case_id,) in rows:
        queue.withdraw(connection, case_id, None, why="its outcome was told")
    return len(rows)


def _move(connection: Connection, case: Case, to: Status, detail: dict[str, str], *, wanted: int | None = None) -> None:
    """Let a case wait for others: it is not kept for whoever has spoken, nor for anybody where it is to be decided."""
    connection.execute(
        "update review_items i set status = %(to)s, settles_at = null, claimed_by = null, moved_by = null,"
        " moved_detail = %(detail)s, opinions_wanted = coalesce(%(wanted)s, opinions_wanted),"
        " assigned_to = case when %(to)s = 'waiting' and not exists (select from review_opinions o"
        "   where o.case_id = i.id and o.reviewer = i.assigned_to and o.undone_at is null) then assigned_to end"
        " where id = %(id)s",
        {"to": to.value, "detail": _json(detail), "wanted": wanted, "id": case.id},
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()

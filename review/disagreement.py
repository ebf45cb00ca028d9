"""Where people differ: from the model, from each other, and from what was decided in the end.

Only opinions count that were not taken back. Answers are the same if their JSON is: a set of labels is always written
in the order of its task.
"""

from dataclasses import dataclass
from datetime import datetime
from math import nan

from demur.review.cases import IN_SCOPE
from demur.review.statistics import RESOLVED, StatisticsWindow
from demur.traffic.database import Connection
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class OverturnCount:
    """Resolved cases of one range of the model's confidence, and in how many people said otherwise."""

    lower: float | None
    """None, as `upper`: the confidence was not known."""

    upper: float | None
    saw_prediction: bool
    """Whether any of those who spoke about the case had seen the prediction."""

    n: int
    overturned: int
    confidence: float
    """The mean one; NaN where it was not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelPair:
    """`n` cases about which people said `labels`, in no order."""

    labels: tuple[Answer, ...]
    saw_prediction: bool | None
    """None: some of them had seen it, and some had not."""

    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondLooks:
    """`n` resolved cases that somebody else looked at once more, blindly."""

    first: Answer
    second: Answer
    saw_prediction: bool
    """Whether any of those who had spoken first had seen the prediction."""

    first_overturns: bool
    """Whether the first answer says that the model was wrong."""

    truth_overturns: bool | None
    """Whether what was decided in the end says so; None while nothing is."""

    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedCheck:
    """`n` cases that somebody else looked at once more, blindly, and about which it was then decided what is true."""

    first_overturns: bool
    """Whether the first answer says that the model was wrong."""

    truth_overturns: bool
    """Whether what was decided in the end says so."""

    n: int
    spot_check: bool = True
    """Whether the model had answered, and the case was a spot check; False: the prediction was held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonsWork:
    """What one person did in a window."""

    reviewer: str
    opinions: int
    median_seconds: float
    """From the claim to the answer."""

    cannot_tell: int
    decided: int
    """Opinions that settled a disagreement."""

    compared: int
    """Opinions with a label, on resolved cases about which somebody else spoke as well."""

    agreed: int
    """Of these, those that say what was decided in the end."""

    skipped: int
    """Cases that they do not want again."""


ITEMS = f"(select * from review_items where {IN_SCOPE})"
SAID = "(select * from review_opinions where undone_at is null)"
JUDGED = f"(select * from {SAID} standing where not adjudicates and label is not null)"


def overturned(connection: Connection, window: StatisticsWindow, *, bins: int = 10) -> list[OverturnCount]:
    """How often people overturned the model, by confidence in bins of equal width; empty bins are left out.

    Of the cases resolved in the window with a label whose record has a prediction. They are no sample of all traffic:
    what is unsure is held more often.
    """
    rows = connection.execute(
        "with done as (select i.id, i.confidence, i.label::jsonb <> r.prediction::jsonb as otherwise"
        f"   from {ITEMS} i join records r on r.id = i.record_id"
        f"   where {RESOLVED} and kind <> 're_review' and label is not null and prediction is not null),"
        f" seen as (select case_id, bool_or(saw_prediction) as saw from {SAID} o"
        "   where case_id in (select id from done) group by case_id)"
        " select case when confidence is not null then"
        "   least(greatest(floor(confidence * %(bins)s), 0), %(bins)s - 1)::int end as bin,"
        " coalesce(saw, true) as saw, count(*), count(*) filter (where otherwise), avg(confidence)"
        " from done left join seen on seen.case_id = done.id group by 1, 2 order by 1 nulls last, 2",
        {**window.values, "bins": bins},
    ).fetchall()
    return [
        OverturnCount(
            lower=None if part is None else part / bins,
            upper=None if part is None else (part + 1) / bins,
            saw_prediction=saw,
            n=n,
            overturned=otherwise,
            confidence=nan if mean is None else mean,
        )
        for part, saw, n, otherwise, mean in rows
    ]


def together(connection: Connection, window: StatisticsWindow) -> list[LabelPair]:
    """What people said who spoke about the same case, the last of them in the window; adjudicators left out."""
    rows = connection.execute(
        f"with units as (select case_id, array_agg(label::text order by label::text) as labels,"
        "   bool_and(saw_prediction) as all_saw, bool_or(saw_prediction) as any_saw"
        f"  from {JUDGED} o where case_id in (select case_id from review_opinions where at >= %(since)s)"
        "   group by case_id having count(*) > 1 and max(at) >= %(since)s and max(at) < %(until)s)"
        " select labels::json[], case when all_saw = any_saw then all_saw end as saw, count(*)"
        f" from units join {ITEMS} i on i.id = case_id group by labels, saw order by count(*) desc, units.labels, saw",
        window.values,
    ).fetchall()
    return [LabelPair(labels=tuple(labels), saw_prediction=saw, n=n) for labels, saw, n in rows]


def checked(connection: Connection, window: StatisticsWindow) -> list[SecondLooks]:
    """The re-reviews whose answer fell in the window."""
    rows = connection.execute(
        "with second as (select distinct on (o.case_id) i.record_id, i.label as truth, o.label, o.at"
        f"   from {ITEMS} i join {JUDGED} o on o.case_id = i.id where i.kind = 're_review' order by o.case_id, o.token)"
        " select f.label::jsonb, second.label::jsonb, coalesce(saw, true) as saw,"
        " f.label::jsonb is distinct from r.prediction::jsonb as first_overturns,"
        " case when truth is not null then truth::jsonb is distinct from r.prediction::jsonb end as truth_overturns,"
        " count(*) from second join review_items f on f.id = second.record_id join records r on r.id = f.id,"
        f" lateral (select bool_or(saw_prediction) as saw from {SAID} o where case_id = f.id) shown"
        " where second.at >= %(since)s and second.at < %(until)s and f.label is not null"
        " group by 1, 2, 3, 4, 5 order by count(*) desc, 1, 2, 3, 4, 5",
        window.values,
    ).fetchall()
    return [
        SecondLooks(
            first=row[0],
            second=row[1],
            saw_prediction=row[2],
            first_overturns=row[3],
            truth_overturns=row[4],
            n=row[5],
        )
        for row in rows
    ]


def decided_checks(connection: Connection, model: str, *, until: datetime) -> list[DecidedCheck]:
    """Return all blind second looks at a model's cases that were decided before that moment."""
    rows = connection.execute(
        "select f.label::jsonb <> r.prediction::jsonb, i.label::jsonb <> r.prediction::jsonb, f.kind = 'spot_check',"
        " count(*)"
        " from review_items i join review_items f on f.id = i.record_id join records r on r.id = f.id"
        " where i.kind = 're_review' and i.model = %s and i.status = 'resolved' and i.ended_at < %s"
        " and i.label is not null and f.label is not null and r.prediction is not null group by 1, 2, 3"
        " order by 1, 2, 3",
        (model, until),
    ).fetchall()
    return [
        DecidedCheck(first_overturns=first, truth_overturns=truth, spot_check=answered, n=n)
        for first, truth, answered, n in rows
    ]


def work(connection: Connection, window: StatisticsWindow) -> list[PersonsWork]:
    """What each person did, who did most first."""
    rows = connection.execute(
        "with said as (select o.*, i.label::jsonb as final,"
        "   i.status = 'resolved' and i.label is not null and o.label is not null and not o.adjudicates"
        f"  and (i.kind = 're_review' or exists (select from {SAID} other"
        "     where other.case_id = o.case_id and other.reviewer <> o.reviewer)) as compared"
        f"  from {SAID} o join {ITEMS} i on i.id = o.case_id where o.at >= %(since)s and o.at < %(until)s)"
        " , answers as (select reviewer, count(*) as n, percentile_cont(0.5) within group (order by seconds) as took,"
        "   count(*) filter (where label is null) as unclear, count(*) filter (where adjudicates) as decided,"
        "   count(*) filter (where compared) as compared,"
        "   count(*) filter (where compared and label::jsonb = final) as agreed from said group by reviewer),"
        " skips as (select reviewer, count(*) as skipped from review_skips s"
        f"  where exists (select from {ITEMS} i where i.id = s.case_id) and at >= %(since)s and at < %(until)s"
        "   group by reviewer)"
        " select reviewer, coalesce(n, 0), coalesce(took, 'NaN'), coalesce(unclear, 0), coalesce(decided, 0),"
        " coalesce(compared, 0), coalesce(agreed, 0), coalesce(skipped, 0)"
        " from answers full join skips using (reviewer) order by coalesce(n, 0) desc, reviewer",
        window.values,
    ).fetchall()
    return [
        PersonsWork(
            reviewer=row[0],
            opinions=row[1],
            median_seconds=row[2],
            cannot_tell=row[3],
            decided=row[4],
            compared=row[5],
            agreed=row[6],
            skipped=row[7],
        )
        for row in rows
    ]

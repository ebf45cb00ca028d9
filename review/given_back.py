"""Cases that a person gave back: others get them at once, the same person only after a while."""

from dataclasses import dataclass
from uuid import UUID

from demur.review.cases import IN_SCOPE, NOT_YET_BY
from demur.review.item import EVERYTHING, ReviewerScope, Status
from demur.traffic.database import Connection

KEPT_AWAY = (
    "exists (select from review_given_back g where g.reviewer = %(reviewer)s and g.case_id = i.id"
    " and until > clock_timestamp())"
)
"""Whether a case `i` does not come to a person yet."""

SKIPPED = "exists (select from review_skips s where s.reviewer = %(reviewer)s and s.case_id = i.id)"
"""Whether a person does not want a case `i` again: `demur.review.skips`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenBack:
    """The free cases that a person may answer, and gave back a while ago."""

    cases: int

    seconds: float
    """Until the first of them comes to this person again."""


def keep_away(connection: Connection, case_id: UUID, reviewer: str, *, seconds: float) -> None:
    """Note that a case does not come to this person for so long, counted from now."""
    connection.execute(
        "insert into review_given_back (case_id, reviewer, until)"
        " values (%(id)s, %(reviewer)s, clock_timestamp() + make_interval(secs => %(seconds)s))"
        " on conflict (reviewer, case_id) do update set until = excluded.until",
        {"id": case_id, "reviewer": reviewer, "seconds": seconds},
    )


def forget(connection: Connection, case_id: UUID, reviewer: str) -> None:
    """Forget that this person gave the case back: they have taken it again."""
    connection.execute("delete from review_given_back where reviewer = %s and case_id = %s", (reviewer, case_id))


def left_for(
    connection: Connection, reviewer: str, *, scope: ReviewerScope = EVERYTHING, model: str | None = None
) -> GivenBack | None:
    """Return what only their own giving back keeps from this person; None where there is no such case."""
    free = [Status.WAITING, Status.ADJUDICATION] if scope.adjudicates else [Status.WAITING]
    row = connection.execute(
        "select count(*), extract(epoch from min(until) - clock_timestamp())::float8"
        " from review_given_back g join review_items i on i.id = g.case_id"
        " where g.reviewer = %(reviewer)s and until > clock_timestamp() and status = any(%(free)s)"
        f" and (%(model)s::text is null or model = %(model)s) and {IN_SCOPE} and {NOT_YET_BY} and not {SKIPPED}",
        {
            "reviewer": reviewer,
            "free": [status.value for status in free],
            "model": model,
            "models": None if scope.models is None else list(scope.models),
            "groups": None if scope.groups is None else list(scope.groups),
        },
    ).fetchone()
    assert row is not None
    return GivenBack(cases=row[0], seconds=max(0.0, row[1])) if row[0] else None

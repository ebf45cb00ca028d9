"""The case that comes next for a person, claimed in advance so that their browser can show it at once.

It is a claim like any other, with a short lease. Opening it makes it a claim of full length; until then whoever made
it can let go of it, and nobody holds more than one. Every function works inside the transaction it is given."""

from uuid import UUID

from demur.review import queue
from demur.review.item import EVERYTHING, Claim, QueueOrder, ReviewerScope
from demur.traffic.database import Connection


def claim_ahead(
    connection: Connection,
    reviewer: str,
    *,
    lease_seconds: float,
    scope: ReviewerScope = EVERYTHING,
    order: QueueOrder = QueueOrder.AGE,
    model: str | None = None,
) -> Claim | None:
    """Claim the case that comes next for this person, beside the one that they hold; None when nothing is free. Where
    one is claimed ahead already it is that one, unless it is of another model than is wanted: then it is let go
    of."""
    queue.take_turns(connection, reviewer)
    held = connection.execute(
        "select id, model, token from review_items where status = 'claimed' and claimed_by = %s and ahead"
        " and lease_until >= clock_timestamp() order by id for update",
        (reviewer,),
    ).fetchall()
    found = None
    for case_id, of_model, token in held:
        if found is None and model in (None, of_model):
            found = renew(connection, case_id, reviewer, token=token, lease_seconds=lease_seconds)
        else:
            let_go(connection, reviewer, case_id)
    return found or queue.claim_next(
        connection, reviewer, lease_seconds=lease_seconds, scope=scope, order=order, model=model, ahead=True
    )


def renew(connection: Connection, case_id: UUID, reviewer: str, *, token: int, lease_seconds: float) -> Claim | None:
    """Prolong a claim that was made ahead; None where it does not hold any more."""
    row = connection.execute(
        "update review_items set lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)"
        " where id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s and token = %(token)s and ahead"
        " and lease_until >= clock_timestamp() returning lease_until, adjudicating",
        {"id": case_id, "reviewer": reviewer, "token": token, "seconds": lease_seconds},
    ).fetchone()
    if row is None:
        return None
    return Claim(case_id=case_id, reviewer=reviewer, token=token, lease_until=row[0], adjudicating=row[1])


def let_go(connection: Connection, reviewer: str, case_id: UUID) -> None:
    """Let go of a case that this person claimed ahead and has not opened: it waits for anybody again."""
    queue.free(connection, case_id, reviewer, why="it was claimed ahead, and not opened", only_ahead=True)

"""Several cases before one person at once, each under a claim of its own. Every function works inside the transaction
it is given."""

from dataclasses import replace

from demur.review import cases, queue
from demur.review.cases import IN_ORDER, IN_SCOPE, scope_values
from demur.review.item import EVERYTHING, Case, QueueOrder, ReviewerScope, Status
from demur.traffic.database import Connection

MOST_TILES = 24

OPEN = (
    "claimed_by = %(reviewer)s and model = %(model)s and not adjudicating"
    " and status = 'claimed' and lease_until >= clock_timestamp()"
)


def on_grid(connection: Connection, reviewer: str, model: str, scope: ReviewerScope = EVERYTHING) -> list[Case]:
    """The cases of a model that this person holds, then those that they have just answered and can still take back;
    none that they are to decide, because for that they must read what others said. `MOST_TILES` at most."""
    return cases.cases_where(
        connection,
        f"where ({OPEN} or claimed_by = %(reviewer)s and model = %(model)s and not adjudicating"
        f" and status = 'answered' and settles_at > clock_timestamp()) and {IN_SCOPE}"
        f" order by status desc, {IN_ORDER[QueueOrder.AGE]} limit %(most)s",
        {"reviewer": reviewer, "model": model, "most": MOST_TILES, **scope_values(scope)},
    )


def claim_together(
    connection: Connection,
    reviewer: str,
    model: str,
    *,
    lease_seconds: float,
    scope: ReviewerScope = EVERYTHING,
    order: QueueOrder = QueueOrder.AGE,
) -> None:
    """Claim cases of a model, in the order in which they come, until this person holds `MOST_TILES` of it."""
    queue.take_turns(connection, reviewer)
    keep_together(connection, reviewer, model, lease_seconds=lease_seconds)
    held = [one for one in on_grid(connection, reviewer, model, scope) if one.status is Status.CLAIMED]
    for _ in range(MOST_TILES - len(held)):
        alone = replace(scope, adjudicates=False)
        if (
            queue.claim_next(connection, reviewer, lease_seconds=lease_seconds, scope=alone, order=order, model=model)
            is None
        ):
            return


def keep_together(connection: Connection, reviewer: str, model: str, *, lease_seconds: float) -> None:
    """Prolong the claims of this person on cases of a model: they are before them. One that was claimed ahead is open
    from now on."""
    connection.execute(
        "update review_items set lease_until = clock_timestamp() + make_interval(secs => %(seconds)s),"
        f" opened_at = case when ahead then clock_timestamp() else opened_at end, ahead = false where {OPEN}",
        {"reviewer": reviewer, "model": model, "seconds": lease_seconds},
    )


def let_go_together(connection: Connection, reviewer: str, model: str) -> None:
    """Let go of the cases of a model that this person holds and has not answered: they wait for anybody again."""
    for case in sorted(on_grid(connection, reviewer, model), key=lambda one: one.id):  # as leads change many
        queue.free(connection, case.id, reviewer, why="it was left on a grid, unanswered")

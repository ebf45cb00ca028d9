"""The ledger of a model, straight from PostgreSQL: columns all the way, in one snapshot."""

from collections.abc import Callable
from datetime import UTC, datetime

from demur.audit.ledger.gathering import Gathering
from demur.audit.ledger.ledger import Extent, Ledger
from demur.audit.ledger.snapshot import snapshot
from demur.traffic.database import Database
from demur.traffic.outcomes import Precedence

Progress = Callable[[int, int], None]
"""Is told how many of how many records have been read."""

IN_RANGE = "r.model = {model} and r.created_at >= {since} and r.created_at < {until}"

FIRST = "select min(r.created_at) as first from records r where r.model = {model} and r.created_at < {until}"

COUNT = f"select count(*) as n from records r where {IN_RANGE}"

RECORDS = (
    'select r.id, r.created_at, r.action, r.artifact, r."group", r.cluster, r.prediction::text as prediction,'
    "       r.confidence, r.top_probabilities[1] as top_probability, r.label_probability, r.prediction_set,"
    "       r.scores::text as scores, q.id is not null as asked, r.label_confidence,"
    "       r.top_labels, r.top_probabilities"
    " from records r left join review_items q on q.id = r.id and q.created_at <= {as_of}"
    f" where {IN_RANGE}"
)
"""Not in order: to sort columns afterwards takes less time than it takes PostgreSQL to sort rows."""

OUTCOMES = (
    "select o.id, o.record_id, o.label::text as label, o.source from outcomes o join records r on r.id = o.record_id"
    f" where o.created_at <= {{as_of}} and {IN_RANGE}"
)


def read_ledger(
    database: Database | str,
    model: str,
    *,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    as_of: datetime,
    exact: bool = False,
    progress: Progress | None = None,
) -> Ledger:
    """Return all records of a model decided in [since, until), as they were known at `as_of`.

    From the model's first record on where `since` is None, and never beyond `as_of`. With `exact` a predicted set of
    labels is right where it is the same as the right one, and wrong otherwise. Everything is read in one snapshot: as
    of a settled moment (`demur.audit.ledger.settled`) it is the same whenever it is read.
    """
    as_of = as_of.astimezone(UTC)
    until = as_of if until is None else min(until, as_of).astimezone(UTC)
    with snapshot(database) as read:
        if since is None:
            row = next(read(FIRST, model=model, until=until), None)
            first = row.column("first")[0].as_py() if row is not None and row.num_rows else None
            since = first.astimezone(UTC) if first else until
        extent = Extent(model=model, since=min(since, until).astimezone(UTC), until=until, as_of=as_of)
        which = {"model": model, "since": extent.since, "until": until, "as_of": as_of}
        total = 0
        if progress is not None:
            total = sum(batch.column("n")[0].as_py() for batch in read(COUNT, **which))
            progress(0, total)
        gathering, done = Gathering(precedence), 0
        for batch in read(RECORDS, **which):
            gathering.add_records(batch)
            done += batch.num_rows
            if progress is not None:
                progress(done, total)
        for batch in read(OUTCOMES, **which):
            gathering.add_outcomes(batch)
    return gathering.ledger(extent, exact=exact)

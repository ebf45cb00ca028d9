"""What the latest traffic of a model was like."""

from demur.traffic.database import Connection


def recent_unheld(connection: Connection, model: str, *, latest: int) -> list[tuple[str | None, float | None]]:
    """Group and confidence of those of the `latest` records of a model that were not held for review."""
    return connection.execute(
        'select "group", confidence from (select "group", confidence, action from records where model = %s'
        " order by created_at desc limit %s) latest where action <> 'review'",
        (model, latest),
    ).fetchall()


def answers_per_day(connection: Connection, model: str, *, days: float = 7) -> float | None:
    """Return how many records of the model were answered on a day, over the last `days`, or since its first record if
    that is less; None where its records span less than a day."""
    row = connection.execute(
        "select count(*) filter (where action = 'answer'), extract(epoch from now() - min(created_at)) / 86400"
        " from records where model = %s and created_at >= now() - make_interval(secs => %s) and created_at <= now()",
        (model, 86400 * days),
    ).fetchone()
    if row is None or row[1] is None or row[1] < 1:
        return None
    return float(row[0]) / float(row[1])

"""What the latest traffic of a model was like."""

from demur.traffic.database import Connection


def recent_unheld(connection: Connection, model: str, *, latest: int) -> list[tuple[str | None, float | None]]:
    """Group and confidence of those of the `latest` records of a model that were not held for review."""
    return connection.execute(
        'select "group", confidence from (select "group", confidence, action from records where model = %s'
        " order by created_at desc limit %s) latest where action <> 'review'",
        (model, latest),
    ).fetchall()

"""What reviewers said, as examples: inputs that are still kept, each with the label that counts."""

from typing import Any

from traffic.database import Connection
from traffic.record import Answer

MOST = 5_000
"""How many are enough to choose a few near ones from."""


def reviewed_inputs(connection: Connection, model: str, *, most: int = MOST) -> list[tuple[Any, Answer]]:
    """The latest `most` inputs of a model whose latest outcome came from a review, oldest first."""
    rows = connection.execute(
        "select p.input, o.label from payloads p join records r on r.id = p.record_id join lateral ("
        "   select label, source, id from outcomes where record_id = r.id order by id desc limit 1"
        " ) o on true"
        " where r.model = %s and o.source = 'review' order by o.id desc limit %s",
        (model, most),
    ).fetchall()
    return [(value, label) for value, label in reversed(rows)]

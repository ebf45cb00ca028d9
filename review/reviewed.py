"""What reviewers said, as examples: inputs that are still kept, each with the label that counts."""

from typing import Any

from demur.traffic.database import Connection
from demur.traffic.outcomes import THE_ONE_OF_R, Precedence, listed
from demur.traffic.record import Answer

MOST = 5_000
"""How many are enough to choose a few near ones from."""


def reviewed_inputs(
    connection: Connection, model: str, *, precedence: Precedence, most: int = MOST
) -> list[tuple[Any, Answer]]:
    """The latest `most` inputs of a model whose outcome that counts came from a review, oldest first."""
    rows = connection.execute(
        "select p.input, o.label from payloads p join records r on r.id = p.record_id"
        f" join lateral {THE_ONE_OF_R} o on true"
        " where r.model = %(model)s and o.source = 'review' order by o.id desc limit %(most)s",
        {"model": model, "most": most, "precedence": listed(precedence)},
    ).fetchall()
    return [(value, label) for value, label in reversed(rows)]

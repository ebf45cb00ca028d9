"""Which records go before people, and how."""

from policies.decision import Action
from review.item import Kind, NewCase
from serve.config import ModelConfig
from traffic.draw import Draws, limit
from traffic.record import Record


class NewCases:
    """The cases that come of a model's records."""

    def __init__(self, draw_key: str) -> None:
        self._spot_checks = Draws(draw_key, "spot-check")

    def of(self, record: Record, model: ModelConfig) -> NewCase | None:
        """A case where the record is held or drawn for a spot check; None where nobody is asked."""
        if record.action == Action.REVIEW:
            kind = Kind.HELD
        elif model.spot_check > 0 and self._spot_checks.of(str(record.id)) < limit(model.spot_check):
            kind = Kind.SPOT_CHECK
        else:
            return None
        return NewCase(
            record_id=record.id,
            kind=kind,
            model=record.model,
            created_at=record.created_at,
            group=record.group,
            confidence=record.confidence,
            blind=model.blind,
        )

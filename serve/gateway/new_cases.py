"""Which records go before people, and how."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from demur.policies.decision import Action
from demur.review.item import Kind, NewCase
from demur.serve.config.file import ModelConfig
from demur.serve.config.review import ReviewConfig, ReviewRule
from demur.serve.contract.wire import ReviewWishes
from demur.traffic.draw import Draws, limit
from demur.traffic.record import Record

NO_WISHES = ReviewWishes()


class NewCases:
    """The cases that come of records: which ones do, and what the rules and the callers want for them."""

    def __init__(self, draw_key: str, review: ReviewConfig) -> None:
        self._spot_checks = Draws(draw_key, "spot-check")
        self._rules = [(rule, Draws(draw_key, f"review-rule-{n}")) for n, rule in enumerate(review.rules, start=1)]
        self._second_looks = review.re_review > 0

    def of(self, record: Record, model: ModelConfig, wishes: ReviewWishes | None = None) -> NewCase | None:
        """A case where the record is held or drawn for a spot check; None where nobody is asked.

        Rules and wishes are the same for both kinds: a reviewer cannot tell one from the other by them.
        """
        if record.action == Action.REVIEW:
            kind = Kind.HELD
        elif self.is_drawn(record.id, record.label_probability):
            kind = Kind.SPOT_CHECK
        else:
            return None
        wanted, applying = wishes or NO_WISHES, self._applying(record)
        due_after = _known([wanted.due_after, *(rule.due_after for rule in applying)])
        return NewCase(
            record_id=record.id,
            kind=kind,
            model=record.model,
            created_at=record.created_at,
            group=record.group,
            confidence=record.confidence,
            priority=max(wanted.priority or 0, *(rule.priority or 0 for rule in applying), 0),
            due_at=record.created_at + min(due_after) if due_after else None,
            opinions_wanted=max((rule.opinions or 1 for rule in applying), default=1),
            blind=model.spot_check != 0 or self._second_looks if model.blind_review is None else model.blind_review,
        )

    def is_drawn(self, record_id: UUID, probability: float) -> bool:
        """Whether a prediction that is not held is drawn for a spot check."""
        return probability > 0 and self._spot_checks.of(str(record_id)) < limit(probability)

    def _applying(self, record: Record) -> list[ReviewRule]:
        """The rules about this record. A share is drawn by the id of the record, for each rule by itself."""
        return [
            rule
            for rule, draws in self._rules
            if rule.when.holds(record) and (rule.when.share == 1 or draws.of(str(record.id)) < limit(rule.when.share))
        ]


def _known(times: Sequence[timedelta | None]) -> list[timedelta]:
    return [time for time in times if time is not None]

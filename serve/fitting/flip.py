"""A record about which two artifacts decide differently."""

from dataclasses import dataclass

from demur.traffic.record import Answer

MOST_FLIPS = 20
"""How many records with another decision are named."""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """`a` and `b` are the actions of the two artifacts, `prediction` is what the second one says."""

    id: str
    prediction: Answer | None
    a: str
    b: str
    confidence_a: float | None
    confidence_b: float | None

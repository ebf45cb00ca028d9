"""Records go to monitors in blocks whose reviews are complete, so that no error is seen before a right answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.sampling import reviews
from demur.uncertainty.checks import InvalidInput, finite, same_length, whole_number


@dataclass(frozen=True, kw_only=True)
class CompleteBlocks:
    feed: Sequence[int]
    """Positions of the records that may be handed on, in order."""

    late: Sequence[int]
    """Of these, the ones that were drawn and are not reviewed: they count as the outcome that favours silence."""

    waiting_block: int | None
    """The first block that is not handed on yet."""


def complete_blocks(blocks: Any, drawn: Any, completed: Any, late_after: Any = None) -> CompleteBlocks:
    """Return which records [n], in order of arrival, a monitor may take now.

    `blocks` [n] are whole numbers that never fall, such as days; `drawn` and `completed` are 0/1. Blocks are taken
    whole and in order, and the first with an open review stops the feed. With `late_after`, a block is waited for only
    while (newest block - its number) <= late_after. A late record enters an alarm as right, a certificate as wrong
    (METHODS 10.14).
    """
    number = finite("blocks", blocks)
    chosen, done, _ = reviews(drawn, completed, np.ones(np.size(number)))
    same_length(blocks=number, drawn=chosen)
    if (number != np.floor(number)).any() or (np.diff(number) < 0).any():
        raise InvalidInput("blocks are whole numbers that never fall")
    wait = None if late_after is None else whole_number("late_after", late_after)
    is_open = chosen & ~done
    stopping = is_open if wait is None else is_open & (number[-1] - number <= wait)
    first = np.flatnonzero(stopping)
    waiting = int(number[first[0]]) if len(first) else None
    fed = np.ones(len(number), dtype=bool) if waiting is None else number < waiting
    return CompleteBlocks(
        feed=np.flatnonzero(fed).tolist(), late=np.flatnonzero(fed & is_open).tolist(), waiting_block=waiting
    )

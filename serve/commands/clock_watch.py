"""A wall clock that is set back under Ray Serve, and what then has to be done.

Ray Serve notes by the wall clock when it last asked a replica whether it is well. Where that lies in the future it asks
nobody until then: a replica that dies meanwhile is not replaced. A controller that starts anew knows no such time, and
nothing that is asked passes through it.
"""

import time
from collections.abc import Callable

SET_BACK_SECONDS = 2.0
"""A clock that is corrected by less, as time services do all the time, harms nothing."""


class ClockWatch:
    """Looks whether the wall clock was set back, which the monotonic one tells."""

    def __init__(
        self, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._ahead = wall() - monotonic()

    def was_set_back(self) -> float:
        """By how many seconds since the last look; 0 where it was not, or by little."""
        ahead = self._wall() - self._monotonic()
        back, self._ahead = self._ahead - ahead, ahead
        return back if back > SET_BACK_SECONDS else 0.0

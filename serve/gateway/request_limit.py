"""Room for so many things at a time, of which no caller takes all."""

import asyncio

from demur.serve.contract.batching import Overloaded

LOOK_SECONDS = 0.02


class RequestLimit:
    """Room for so many requests, or so many bytes of them, whichever way they come in. It is used from one event loop.

    Of what the others leave, an owner takes up to `share`. So there is room for one more owner, however many of them
    take as much as they can: each next one gets less. Callers whom nobody asks who they are have the name "", and all
    of it.
    """

    def __init__(self, *, most: int, share: float = 1.0, what: str = "requests are open here") -> None:
        self._most, self._share, self._what = most, share, what
        self._taken = 0
        self._by_owner: dict[str, int] = {}
        self._closed = False

    @property
    def taken(self) -> int:
        return self._taken

    def has(self, more: int) -> bool:
        """Whether there is room for so many more, whoever wants it."""
        return self._taken + more <= self._most

    def why_not(self, owner: str = "", more: int = 1) -> str | None:
        """Why an owner gets no room for so many more; None where it does."""
        if self._closed:
            return "this service is about to stop; ask again in a while"
        if not self.has(more):
            return f"{self._taken:,} {self._what} already; try again a little later"
        own = self._by_owner.get(owner, 0)
        if own and own + more > self._share * (self._most - self._taken + own):
            return f"{own:,} {self._what} already for {owner!r} alone; try again a little later (limits.share_per_key)"
        return None

    def check(self, owner: str = "", more: int = 1) -> None:
        """Raise `Overloaded` where `why_not` has a reason."""
        if (why := self.why_not(owner, more)) is not None:
            raise Overloaded(why)

    def enter(self, owner: str = "", more: int = 1) -> None:
        """Take room, which is given back with `leave`; raises as `check` does."""
        self.check(owner, more)
        self._taken += more
        if owner:
            self._by_owner[owner] = self._by_owner.get(owner, 0) + more

    def leave(self, owner: str = "", fewer: int = 1) -> None:
        self._taken -= fewer
        if owner:
            self._by_owner[owner] -= fewer
            if not self._by_owner[owner]:
                del self._by_owner[owner]

    async def close(self, seconds: float) -> int:
        """Let nobody in any more, and come back when the last one has left, or after so many seconds; return how many
        are still inside."""
        self._closed = True
        deadline = asyncio.get_running_loop().time() + seconds
        while self._taken and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        return self._taken

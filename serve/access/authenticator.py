"""Who stands at the door: from the headers of a request to the caller, or to why nobody is let in."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from time import monotonic

from demur.serve.access.caller import Caller
from demur.serve.access.key_cache import KeyRing
from demur.serve.access.proxy import TrustedProxy
from demur.serve.access.refusals import NotAllowed, NotKnown
from demur.serve.access.sessions import is_still_in_force
from demur.serve.access.tokens import KEY, SESSION, SecretToken, read_token
from demur.serve.config.access import Scope
from demur.traffic.database import Database, DatabaseUnavailable

MOST_STRANGERS = 256
"""So many wait at most until it is looked whether their keys were made a moment ago; others are refused at once."""

LOOK_APART_SECONDS = 0.2
"""What nobody knows is looked for, though not more often than this, however many strangers come."""

SEEN_APART_SECONDS = 15.0
"""It is asked at most so often whether a session goes on, and noted that its person is there."""

HOW = "send a key as `Authorization: Bearer demur_...`"


class Authenticator:
    """Lets callers in. One for each process; it is used from one event loop."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime], proxy: TrustedProxy | None = None) -> None:
        self.ring = KeyRing(database, clock=clock)
        self._proxy = proxy
        self._database = database
        self._seen: dict[str, float] = {}
        self._coming: asyncio.Future[None] | None = None
        """The next look, as long as it has not begun."""

        self._strangers = 0
        self._one_at_a_time = asyncio.Lock()
        self._looked_at = -LOOK_APART_SECONDS
        self._thread = ThreadPoolExecutor(1, "access")  # its own, so that strangers keep nobody else's work waiting

    async def admit(self, headers: Mapping[str, str], needs: Scope) -> Caller:
        """The caller that headers, or the metadata of gRPC, with names in lower case tell of, where they may do this.

        Raises `NotKnown`, `NotAllowed` or `TooOften`, and `DatabaseUnavailable` where that could not be found out.
        """
        caller = await self.caller(headers.get("authorization"), headers.get("x-api-key"))
        self.check(caller, needs)
        caller.take_request()
        return caller

    def check(self, caller: Caller, needs: Scope) -> None:
        """Raise `NotAllowed` for whoever may not do what needs this scope."""
        if not caller.may(needs):
            has = ", ".join(sorted(caller.scopes)) or "none"
            raise NotAllowed(f"this needs the scope `{needs}`, and {caller.name!r} has: {has}")

    async def caller(self, authorization: str | None, api_key: str | None) -> Caller:
        """Whose key these headers hold, or raise `NotKnown`."""
        token = _token(authorization, api_key)
        return self.ring.caller(token) or await self._stranger(token)

    def told(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller | None:
        """Who a trusted proxy says it is; None where there is none, or it says nothing. Raises `NotKnown`."""
        return None if self._proxy is None else self._proxy.caller(headers)

    async def person(self, cookie: str, *, seen: bool) -> Caller:
        """Whose session this cookie holds, or raise `NotKnown`. `seen` if they did something, and not just a script."""
        token = read_token(cookie)
        if token is None or token.kind != SESSION:
            raise NotKnown("you are not logged in")
        caller = self.ring.caller(token) or await self._stranger(token)
        now = monotonic()
        if now - self._seen.get(token.id, -SEEN_APART_SECONDS) >= SEEN_APART_SECONDS:
            if not await asyncio.to_thread(self._goes_on, token.id, seen):
                self._seen.pop(token.id, None)
                raise NotKnown("you were away for long, and are no longer logged in")
            if seen:
                self._seen[token.id] = now
        return caller

    def _goes_on(self, session_id: str, seen: bool) -> bool:
        with self._database.transaction() as connection:
            return is_still_in_force(connection, session_id, seen=seen)

    async def _stranger(self, token: SecretToken) -> Caller:
        """Look again, since keys are made at any time, and raise `NotKnown` if it is not there."""
        if self._strangers < MOST_STRANGERS:
            self._strangers += 1
            try:
                if self._coming is None:
                    self._coming = asyncio.ensure_future(self._look())
                await asyncio.shield(self._coming)
            finally:
                self._strangers -= 1
        caller = self.ring.caller(token)
        if caller is not None:
            return caller
        if self.ring.trouble is not None:
            raise DatabaseUnavailable(self.ring.trouble)  # it may be a good key that was made a moment ago
        if token.kind == SESSION:
            raise NotKnown("you are no longer logged in")
        raise NotKnown(f"this key is not known, has expired or was revoked; {HOW} that is in force")

    async def _look(self) -> None:
        """Look once for all who wait. Who comes while it is looked waits for the next time."""
        async with self._one_at_a_time:
            await asyncio.sleep(self._looked_at + LOOK_APART_SECONDS - monotonic())
            self._coming, self._looked_at = None, monotonic()
            await asyncio.get_running_loop().run_in_executor(self._thread, self.ring.look)


def _token(authorization: str | None, api_key: str | None) -> SecretToken:
    """The key that was sent; raises `NotKnown` where none was, or what was sent cannot be one."""
    if authorization is None:
        text = api_key
    else:
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            text = None
    if not text:
        raise NotKnown(f"nobody knows who you are; {HOW}")
    token = read_token(text.strip())
    if token is None or token.kind != KEY:
        raise NotKnown(f"what was sent is no key of this service; {HOW}")
    return token

"""The keys and sessions that one process knows: read from the database when they change, and found in memory."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from time import monotonic

from demur.serve.access.caller import Caller, RateBuckets, Via
from demur.serve.access.keys import Key, usable
from demur.serve.access.rates import Bucket
from demur.serve.access.sessions import Session, open_sessions
from demur.serve.access.tokens import KEY, SESSION, SecretToken
from demur.traffic.database import Database, DatabaseUnavailable

log = logging.getLogger("demur.access")


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A secret that is in force, and whose it is."""

    hash: bytes = field(repr=False)
    caller: Caller
    expires_at: datetime | None
    of: Key | Session


class KeyRing:
    """What is in force, as of the last second. While the database is away what was last known goes on."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database, self._clock = database, clock
        self._entries: dict[tuple[str, str], KeyEntry] = {}
        self._seen = -1
        self._one_at_a_time = Lock()
        self.trouble: str | None = None
        """Why the last look failed."""

    def look(self) -> None:
        """Learn what has changed; called at the start, and again and again. Never raises `DatabaseUnavailable`."""
        with self._one_at_a_time:
            try:
                self._learn()
            except DatabaseUnavailable as error:
                if self.trouble is None:
                    log.warning("keys cannot be read; the %d known ones go on: %s", len(self._entries), error)
                self.trouble = str(error)
            else:
                if self.trouble is not None:
                    log.info("keys are read again")
                self.trouble = None

    def caller(self, token: SecretToken) -> Caller | None:
        """Whose this token is; None where it is none that is known and in force. Asks nobody."""
        entry = self._entries.get((token.kind, token.id))
        if entry is None or not token.fits(entry.hash):
            return None
        if entry.expires_at is not None and entry.expires_at <= self._clock():
            return None
        return entry.caller

    def _learn(self) -> None:
        with self._database.transaction() as connection:
            # read first: what is committed meanwhile is seen now, and looked for again next time
            (n,) = connection.execute("select coalesce(max(n), 0) from access_changes").fetchone() or (0,)
            if n == self._seen:
                return
            keys, sessions = usable(connection), open_sessions(connection)
        known: dict[tuple[str, str], KeyEntry] = {}
        for key, kept in keys:
            before = self._entries.get((KEY, key.id))
            # one that has not changed keeps its caller, and with it what is left of its rates
            known[KEY, key.id] = before if before and before.of == key else _entry(key, kept)
        for session, kept in sessions:
            known[SESSION, session.id] = _session_entry(session, kept)
        self._entries, self._seen = known, n


def _entry(key: Key, kept: bytes) -> KeyEntry:
    now, rates = monotonic(), key.rates
    buckets = RateBuckets(
        requests=None if rates.requests is None else Bucket(rates.requests, now),
        predictions=None if rates.predictions is None else Bucket(rates.predictions, now),
        models={model: Bucket(rate, now) for model, rate in rates.models.items()},
    )
    caller = Caller(
        name=key.name,
        scopes=frozenset(key.scopes),
        via=Via.KEY,
        key_id=key.id,
        models=None if key.models is None else frozenset(key.models),
        buckets=buckets if rates.requests or rates.predictions or rates.models else None,
    )
    return KeyEntry(kept, caller, key.expires_at, key)


def _session_entry(session: Session, kept: bytes) -> KeyEntry:
    person = session.person
    caller = Caller(
        name=person.name,
        scopes=frozenset(person.scopes),
        via=Via.SESSION,
        key_id=person.key_id,
        session_id=session.id,
    )
    return KeyEntry(kept, caller, session.expires_at, session)

"""The hashes of the codes and keys with which people log in, in memory: made-up ones are known without asking the
database."""

from threading import BoundedSemaphore, Lock
from time import monotonic, sleep

from demur.serve.access.tokens import CODE, KEY, SecretToken
from demur.traffic.database import Database, DatabaseUnavailable

LOOK_APART_SECONDS = 0.2
"""What is not known here is looked for, though not more often than this, however many strangers come."""

MADE = (
    "select %(code)s, id, secret_hash from access_codes where expires_at > now() - interval '1 day' union all"
    " select %(key)s, id, secret_hash from access_keys"
    " where revoked_at is null and (expires_at is null or expires_at > now())"
)
"""Codes also when their time is up, for a while, so that whoever shows one is told that."""

MOST_STRANGERS = 8
"""So many wait at most until it is looked whether their codes were made a moment ago; others are refused at once."""


class TokenHashes:
    """Tells whether a code or key was made here. Whether it is still good, the database says."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hashes: dict[tuple[str, str], bytes] = {}
        self._looked_at = -LOOK_APART_SECONDS
        self._trouble: DatabaseUnavailable | None = None
        self._one_at_a_time = Lock()
        self._places = BoundedSemaphore(MOST_STRANGERS)

    def look_for(self, token: SecretToken) -> bool:
        """Whether this code or key, which is not known yet, was made here all the same; raises `DatabaseUnavailable`
        where that could not be found out."""
        if self._places.acquire(blocking=False):
            try:
                self._look_after(monotonic())
            finally:
                self._places.release()
        return self.knows(token)

    def knows(self, token: SecretToken) -> bool:
        """Whether it is known that this code or key was made here. Asks nobody."""
        kept = self._hashes.get((token.kind, token.id))
        return kept is not None and token.fits(kept)

    def _look_after(self, moment: float) -> None:
        """Look for what is new, unless somebody else has since this moment."""
        with self._one_at_a_time:
            if self._looked_at < moment:
                sleep(max(0.0, self._looked_at + LOOK_APART_SECONDS - monotonic()))
                self._looked_at = monotonic()
                self._look()
            if self._trouble is not None:
                raise DatabaseUnavailable(str(self._trouble))

    def _look(self) -> None:
        self._trouble = None
        try:
            with self._database.transaction() as connection:
                rows = connection.execute(MADE, {"code": CODE, "key": KEY}).fetchall()
        except DatabaseUnavailable as error:
            self._trouble = error
        else:
            self._hashes = {(kind, id): bytes(kept) for kind, id, kept in rows}

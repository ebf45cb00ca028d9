"""Open demur's database, with the schema of all parts."""

from demur.audit.state.schema import AUDIT_MIGRATIONS
from demur.review import queue
from demur.serve.access.schema import ACCESS_MIGRATIONS
from demur.traffic.database import TRAFFIC_MIGRATIONS, Database, migrate

MIGRATIONS = [*TRAFFIC_MIGRATIONS, *queue.REVIEW_MIGRATIONS, *AUDIT_MIGRATIONS, *ACCESS_MIGRATIONS]


def open_database(dsn: str) -> Database:
    """Connect, and bring the schema of both rooms of the memory up to date."""
    database = Database(dsn)
    try:
        migrate(database, MIGRATIONS)
    except BaseException:
        database.close()
        raise
    return database

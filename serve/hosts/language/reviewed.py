"""The reviews of the log, for language models that are shown the nearest of them before they are asked."""

from contextlib import ExitStack
from typing import Any

from demur.review.reviewed import reviewed_inputs
from demur.serve.config.file import Config
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.hosts.language.few_shot import Reviewed
from demur.traffic.record import Answer


def reviewed_of(config: Config, model: str) -> Reviewed:
    """Return what reads them, once they are wanted, from the configured database."""

    def read() -> list[tuple[Any, Answer]]:
        with ExitStack() as opened:
            embedded = config.database == "embedded"
            dsn = opened.enter_context(EmbeddedPostgres(config.data)).dsn if embedded else config.database
            database = open_database(dsn)
            opened.callback(database.close)
            with database.transaction() as connection:
                return reviewed_inputs(connection, model, precedence=config.precedence(model))

    return read

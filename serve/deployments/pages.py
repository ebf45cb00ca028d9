"""Ray Serve's shells of the pages for people: the console and the audits, with the jobs that run beside them."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
from ray import serve as ray_serve
from starlette.types import ASGIApp

from demur.audit.state.retention import forget_records
from demur.calibration_store.store import ArtifactStore
from demur.review import outbox, queue
from demur.serve.access import needs
from demur.serve.config.file import Config
from demur.serve.database.opening import open_database
from demur.serve.deployments.every import every
from demur.serve.deployments.guarded import guarded, keeper_of, received
from demur.serve.jobs.canary_watch import CanaryWatch
from demur.serve.jobs.webhooks import webhook_senders
from demur.serve.telemetry.logs import log_to_stderr
from demur.serve.telemetry.telemetry import Telemetry
from demur.serve.web.review.service import ReviewService
from demur.traffic.database import Database
from demur.traffic.decision_counts import DecisionCounter

log = logging.getLogger("demur.deployments")

Build = Callable[[], ASGIApp]

WATCH_SECONDS = 5.0
"""How often it is looked whether canaries keep within their bounds."""

SWEEP_SECONDS = 1.0
"""How often it is looked whether leases ran out, answers settle and due times have passed."""

SEND_SECONDS = 1.0
"""How often it is looked what is due for a webhook."""

TALLY_SECONDS = 15.0
"""How often it is counted what was answered and held, for the front page."""

FORGET_SECONDS = 3600.0
"""How often inputs and records are looked for whose time is up, and deliveries that arrived long ago."""


@ray_serve.ingress()
class Console:
    """One replica of the pages for people."""

    def __init__(self, config: Config, dsn: str) -> None:
        log_to_stderr(config.telemetry.logs)
        self._built = started_console(config, dsn)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return self._built()


@ray_serve.ingress()
class Audits:
    """One replica of the auditors' pages, which also makes the audits that are due."""

    def __init__(self, config: Config, dsn: str) -> None:
        log_to_stderr(config.telemetry.logs)
        self._built = started_audits(config, dsn)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return self._built()


def started_console(config: Config, dsn: str) -> Build:
    """Start what happens to cases by itself; return what builds the pages for people."""
    database = open_database(dsn)
    watch = CanaryWatch(config, ArtifactStore(config.artifacts), database, clock=lambda: datetime.now(UTC))
    every(FORGET_SECONDS, lambda: _forget(config, database), name="forgetting")
    every(WATCH_SECONDS, watch.look, name="canaries")
    every(TALLY_SECONDS, DecisionCounter(database, list(config.models)).count, name="counts")
    every(SWEEP_SECONDS, ReviewService(config, database).sweep, name="settling")
    senders = webhook_senders(config, database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng())
    for sender in senders:
        every(SEND_SECONDS, sender.send, name=f"webhook {sender.name}")
    keeper = keeper_of(config, database)

    def build() -> ASGIApp:
        from demur.serve.web.review.app import console_app

        behind = guarded(console_app(config, database), config, keeper, needs.REVIEW, has_pages=True)
        return received(behind, config, Telemetry())

    return build


def started_audits(config: Config, dsn: str) -> Build:
    """Start what makes audits by itself; return what builds the auditors' pages."""
    from demur.serve.jobs.audits import jobs  # brings what audits need, which gateway and hosts do without

    database = open_database(dsn)
    for job in jobs(config, database):
        every(job.seconds, job.do, name=job.name)
    keeper = keeper_of(config, database)

    def build() -> ASGIApp:
        from demur.serve.web.audit.app import audits_app

        behind = guarded(audits_app(config, database), config, keeper, needs.AUDIT, has_pages=True)
        return received(behind, config, Telemetry())

    return build


def _forget(config: Config, database: Database) -> None:
    with database.transaction() as connection:
        forgotten = queue.forget_inputs(connection)
    if forgotten:
        log.info("%d inputs whose time was up are deleted", forgotten)
    with database.transaction() as connection:
        outbox.forget_delivered(connection)
    if days := config.keep_records_days:
        for gone in forget_records(database, before=datetime.now(UTC) - timedelta(days=days)):
            log.info(
                "%d records of %s whose time was up are deleted, with %d outcomes and %d cases",
                gone.records, gone.model, gone.outcomes, gone.cases,
            )  # fmt: skip

"""Ray Serve's shells of the pages for people: the console and the audits, with the jobs that run beside them."""

import logging
from datetime import UTC, datetime, timedelta

import numpy as np
from ray import serve as ray_serve
from starlette.types import ASGIApp

from audit.retention import forget_records
from calibration_store.store import ArtifactStore
from review import outbox, queue
from serve.access import needs
from serve.canary_watch import CanaryWatch
from serve.config.file import Config
from serve.console.desk import Desk
from serve.deployments.every import every
from serve.deployments.guarded import guarded, keeper_of, received
from serve.gateway.journal import open_database
from serve.telemetry.logs import log_to_stderr
from serve.telemetry.telemetry import Telemetry
from serve.webhooks import webhook_senders

log = logging.getLogger("demur.deployments")

WATCH_SECONDS = 5.0
"""How often it is looked whether canaries keep within their bounds."""

SWEEP_SECONDS = 1.0
"""How often it is looked whether leases ran out, answers settle and due times have passed."""

SEND_SECONDS = 1.0
"""How often it is looked what is due for a webhook."""

FORGET_SECONDS = 3600.0
"""How often inputs and records are looked for whose time is up, and deliveries that arrived long ago."""


@ray_serve.ingress()
class Console:
    """One replica of the pages for people."""

    def __init__(self, config: Config, dsn: str) -> None:
        log_to_stderr(config.telemetry.logs)
        self._config = config
        self._database = open_database(dsn)
        watch = CanaryWatch(config, ArtifactStore(config.artifacts), self._database, clock=lambda: datetime.now(UTC))
        every(FORGET_SECONDS, self._forget, name="forgetting")
        every(WATCH_SECONDS, watch.look, name="canaries")
        every(SWEEP_SECONDS, Desk(config, self._database).sweep, name="settling")
        senders = webhook_senders(config, self._database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng())
        for sender in senders:
            every(SEND_SECONDS, sender.send, name=f"webhook {sender.url}")
        self._keeper = keeper_of(config, self._database)

    def _forget(self) -> None:
        with self._database.transaction() as connection:
            forgotten = queue.forget_inputs(connection)
        if forgotten:
            log.info("%d inputs whose time was up are deleted", forgotten)
        with self._database.transaction() as connection:
            outbox.forget_delivered(connection)
        if days := self._config.keep_records_days:
            for gone in forget_records(self._database, before=datetime.now(UTC) - timedelta(days=days)):
                log.info(
                    "%d records of %s whose time was up are deleted, with %d outcomes and %d cases",
                    gone.records, gone.model, gone.outcomes, gone.cases,
                )  # fmt: skip

    def __serve_build_asgi_app__(self) -> ASGIApp:
        from serve.console.app import console_app

        app = console_app(self._config, self._database)
        behind = guarded(app, self._config, self._keeper, needs.REVIEW, has_pages=True)
        return received(behind, self._config, Telemetry())


@ray_serve.ingress()
class Audits:
    """One replica of the auditors' pages, which also makes the audits that are due."""

    def __init__(self, config: Config, dsn: str) -> None:
        from serve.audits.jobs import jobs  # brings what audits need, which gateway and hosts do without

        log_to_stderr(config.telemetry.logs)
        self._config = config
        self._database = open_database(dsn)
        for job in jobs(config, self._database):
            every(job.seconds, job.do, name=job.name)
        self._keeper = keeper_of(config, self._database)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        from serve.audits.app import audits_app

        app = audits_app(self._config, self._database)
        behind = guarded(app, self._config, self._keeper, needs.AUDIT, has_pages=True)
        return received(behind, self._config, Telemetry())

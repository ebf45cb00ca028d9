"""Telling others of cases and alarms: what is in the outbox goes out, to programs signed as Standard Webhooks says
(1.0.0), to people in words for Slack, Teams or mail.

Each webhook has a sender of its own, so that a slow one keeps no other waiting. Several processes may send to one
webhook: what one has leased, no other sends.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx
import numpy as np
from standardwebhooks.webhooks import Webhook

from demur.audit.state import alarms
from demur.review import cases, outbox
from demur.review.outbox import Delivery
from demur.serve.config.file import Config
from demur.serve.config.webhooks import NoSecret, WebhookConfig
from demur.serve.contract.alarm_wire import alarm_json
from demur.serve.contract.wire import dump, prediction_view_json
from demur.serve.jobs.mail import send_mail
from demur.serve.jobs.webhook_messages import WebhookMessage, mail_of, message_of, slack_message, teams_message
from demur.traffic import log
from demur.traffic.database import Connection, Database, DatabaseUnavailable

logger = logging.getLogger("demur.webhooks")
logging.getLogger("httpx").setLevel(logging.WARNING)  # it notes each address, and that of a channel is a secret

AT_ONCE = 20
"""Deliveries that are on their way to one webhook together."""

SPARE_SECONDS = 30.0
"""How much longer a lease is than the longest attempt: for all that is written before and after it."""

GONE = 410


class WebhookSender:
    """Sends what is due for one webhook."""

    def __init__(
        self,
        webhook: WebhookConfig,
        config: Config,
        database: Database,
        *,
        clock: Callable[[], datetime],
        rng: np.random.Generator,
    ) -> None:
        self.name = webhook.key
        self._webhook = webhook
        webhook.check_secret()
        self._signer = Webhook(webhook.secret()) if webhook.format == "json" else None
        self._config = config
        self._database = database
        self._clock = clock
        self._rng = rng
        self._trusted: ssl.SSLContext | None = None

    def send(self) -> int:
        """Send everything that is due now, each thing once; return how many attempts that were."""
        attempts = 0
        while taken := self._take():
            asyncio.run(self._send_all(taken))
            attempts += len(taken)
            if len(taken) < AT_ONCE:
                break
        return attempts

    def _take(self) -> list[Delivery]:
        with self._database.transaction() as connection:
            return outbox.take(
                connection,
                self.name,
                lease_seconds=self._webhook.timeout_seconds + SPARE_SECONDS,
                most_attempts=self._webhook.most_attempts,
                limit=AT_ONCE,
            )

    async def _send_all(self, deliveries: Sequence[Delivery]) -> None:
        if self._trusted is None:
            self._trusted = httpx.create_ssl_context()  # takes a while, so once
        async with httpx.AsyncClient(verify=self._trusted, timeout=None) as client:  # noqa: S113 - see `_post`
            results = await asyncio.gather(
                *(self._send_one(client, delivery) for delivery in deliveries), return_exceptions=True
            )
        for delivery, result in zip(deliveries, results, strict=True):
            if isinstance(result, BaseException):  # it is sent again when its lease has run out
                shown = None if isinstance(result, DatabaseUnavailable) else result
                logger.error(
                    "webhook %s: delivery %s was not noted: %s", self.name, delivery.id, result, exc_info=shown
                )

    async def _send_one(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        try:
            body = await asyncio.to_thread(self._first_body, delivery) if delivery.body is None else delivery.body
        except Exception as error:
            logger.exception("webhook %s: delivery %s cannot be put into words", self.name, delivery.id)
            await asyncio.to_thread(self._note, delivery, f"it could not be put into words: {error}", gone=False)
            return
        wrong, gone = await self._hand_over(client, delivery, body)
        await asyncio.to_thread(self._note, delivery, wrong, gone=gone)

    async def _hand_over(self, client: httpx.AsyncClient, delivery: Delivery, body: str) -> tuple[str | None, bool]:
        """What went wrong, None where it arrived, and whether the receiver is gone for good."""
        webhook = self._webhook
        if webhook.format == "json":
            return await self._post(client, delivery, body)
        try:
            told = message_of(json.loads(body), case_id=delivery.case_id, service_url=webhook.service_url)
            if webhook.format == "email":
                return await self._mail(delivery, told)
            return await self._post(
                client,
                delivery,
                dump(slack_message(told) if webhook.format == "slack" else teams_message(told)).decode(),
            )
        except NoSecret as error:
            return str(error), False

    async def _mail(self, delivery: Delivery, told: WebhookMessage) -> tuple[str | None, bool]:
        """What went wrong, None where it arrived, and whether some have it, so that it is not tried again."""
        mail, seconds = self._webhook.email, self._webhook.timeout_seconds
        assert mail is not None  # the configuration sees to it
        message = mail_of(told, mail, delivery_id=delivery.id, at=self._clock())
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.to_thread(send_mail, mail, message, timeout_seconds=seconds)
        except TimeoutError:
            return f"no answer within {seconds:g} s", False

    async def _post(self, client: httpx.AsyncClient, delivery: Delivery, body: str) -> tuple[str | None, bool]:
        """What went wrong, None where it arrived, and whether the receiver is gone for good."""
        now = self._clock()
        url = self._webhook.address()
        headers = {"content-type": "application/json", "user-agent": "demur", "webhook-id": str(delivery.id)}
        if self._signer is not None:
            headers["webhook-timestamp"] = str(int(now.timestamp()))
            headers["webhook-signature"] = self._signer.sign(msg_id=str(delivery.id), timestamp=now, data=body)
        try:
            async with (
                asyncio.timeout(self._webhook.timeout_seconds),  # of everything together, unlike that of httpx
                client.stream("POST", url, content=body.encode(), headers=headers) as response,
            ):
                if response.is_success:
                    return None, False
                also = ", and redirects are not followed" if response.has_redirect_location else ""
                return f"it answered {response.status_code}{also}", response.status_code == GONE
        except TimeoutError:
            return f"no answer within {self._webhook.timeout_seconds:g} s", False
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            return (why if self._signer is not None else why.replace(url, self.name)), False

    def _first_body(self, delivery: Delivery) -> str:
        with self._database.transaction() as connection:
            body = dump(body_of(connection, delivery, self._config)).decode()
            outbox.keep_body(connection, delivery.id, body)
        return body

    def _note(self, delivery: Delivery, wrong: str | None, *, gone: bool) -> None:
        with self._database.transaction() as connection:
            if wrong is None:
                outbox.delivered(connection, delivery.id)
                return
            given_up = outbox.failed(
                connection,
                delivery,
                wrong,
                most_attempts=self._webhook.most_attempts,
                rng=self._rng,
                for_good=gone,
            )
        if given_up:
            logger.error(
                "webhook %s: delivery %s is given up after %d attempts: %s; /review/webhooks sends it again",
                self.name,
                delivery.id,
                delivery.attempts,
                wrong,
            )


def body_of(connection: Connection, delivery: Delivery, config: Config) -> dict[str, Any]:
    """What a webhook is told. Of a case all that GET /v1/predictions/{id} says, but for a text that the model wrote; of
    an alarm what it found, and what it does."""
    if delivery.alarm_id is not None:
        return {
            "type": "audit.alarm",
            "timestamp": delivery.created_at.isoformat(),
            "data": alarm_json(alarms.find(connection, delivery.alarm_id)),
        }
    assert delivery.case_id is not None  # the table sees to it
    case = cases.case(connection, delivery.case_id)
    record = log.find_one(connection, case.record_id)
    return {
        "type": f"review.{delivery.event}",
        "timestamp": delivery.created_at.isoformat(),
        "data": prediction_view_json(
            replace(record, reply=None),  # texts stay where the inputs are
            cases.find(connection, record.id),
            log.outcomes_of(connection, record.id),
            config.precedence(record.model),
        ),
    }


def webhook_senders(
    config: Config, database: Database, *, clock: Callable[[], datetime], rng: np.random.Generator
) -> list[WebhookSender]:
    """A sender for each configured webhook; from now on cases are announced to these and to no other."""
    webhooks = config.review.webhooks
    senders = [
        WebhookSender(webhook, config, database, clock=clock, rng=own)
        for webhook, own in zip(webhooks, rng.spawn(len(webhooks)), strict=True)
    ]
    with database.transaction() as connection:
        outbox.subscribe(connection, [webhook.subscription for webhook in webhooks])
    return senders

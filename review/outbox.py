"""The outbox: what other systems are to be told of, cases and alarms. Every function works inside the transaction it is
given.

A delivery is written in the transaction of the move that it tells of, so neither is ever there without the other. It is
sent under a lease and noted afterwards: a sender that dies in between has its delivery sent again, with the same id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import numpy as np
from psycopg.rows import class_row

from demur.traffic.database import Connection
from demur.traffic.leases import FREE, LAPSED, TAKEN, change_held
from demur.traffic.log import OUTCOMES_CHANNEL

FIRST_SECONDS, FACTOR, LONGEST_SECONDS = 10.0, 3.0, 6 * 3600.0
"""The longest pause after the first attempt, how much longer each further one may be, and what none exceeds: twelve
attempts take half a day on average."""

KEPT_DAYS = 30
"""How long deliveries stay that have arrived."""

TO_DO = "delivered_at is null and dead_at is null"


class WebhookEvent(StrEnum):
    """What other systems can be told of: a case, but for the last."""

    RESOLVED = "resolved"  # people have decided, or even who was to decide could not tell
    OVERDUE = "overdue"  # its due time has passed, and it goes on waiting
    EXPIRED = "expired"  # its due time has passed, and nobody is asked any more
    WITHDRAWN = "withdrawn"  # somebody said that it need not be looked at
    ALARM = "alarm"  # a monitor has found something: `demur.audit.monitors`


class DeliveryNotFound(LookupError):
    """No delivery with this id was given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """One webhook, and what it is told of."""

    webhook: str
    events: tuple[str, ...]
    models: tuple[str, ...] | None = None
    """None: all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """Something to be told to one webhook."""

    id: UUID
    webhook: str
    event: str
    case_id: UUID | None
    """None where it is about an alarm."""

    body: str | None
    """None before the first attempt."""

    created_at: datetime
    attempts: int
    """Begun so far, this one included."""

    dead_at: datetime | None
    last_error: str | None
    alarm_id: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """What has not arrived at one webhook."""

    webhook: str
    waiting: int
    dead: int
    oldest: datetime | None
    """Since when the oldest of those that wait has been waiting."""


DELIVERY = "id, webhook, event, case_id, alarm_id, body::text as body, created_at, attempts, dead_at, last_error"


def subscribe(connection: Connection, subscriptions: Sequence[Subscription]) -> None:
    """Let exactly these webhooks be told from now on. What waits for any other is given up, and can be seen."""
    webhooks = [one.webhook for one in subscriptions]
    connection.execute("delete from webhook_subscriptions where webhook <> all(%s)", (webhooks,))
    connection.execute(
        "update webhook_deliveries set dead_at = clock_timestamp(),"
        f" last_error = 'this webhook is no longer configured' where webhook <> all(%s) and {TO_DO}",
        (webhooks,),
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into webhook_subscriptions (webhook, events, models) values (%s, %s, %s)"
            " on conflict (webhook) do update set events = excluded.events, models = excluded.models",
            [(one.webhook, list(one.events), one.models and list(one.models)) for one in subscriptions],
        )


def subscriptions(connection: Connection) -> list[Subscription]:
    rows = connection.execute("select webhook, events, models from webhook_subscriptions order by webhook").fetchall()
    return [
        Subscription(webhook=webhook, events=tuple(events), models=None if models is None else tuple(models))
        for webhook, events, models in rows
    ]


def announce(connection: Connection, case_id: UUID, event: WebhookEvent) -> None:
    """Put what has just become of a case into the outbox, see `announce_all`."""
    announce_all(connection, [case_id], event)


def announce_all(connection: Connection, case_ids: Sequence[UUID], event: WebhookEvent) -> None:
    """Put what has just become of cases into the outbox, for every webhook that wants to know, and wake whoever waits
    for their records. Doing it again changes nothing.

    Of a re-review only a verdict that changes something is told.
    """
    ids = list(case_ids)
    connection.execute(
        "insert into webhook_deliveries (webhook, event, case_id)"
        " select s.webhook, %(event)s, i.id from webhook_subscriptions s, review_items i"
        " where i.id = any(%(ids)s) and %(event)s = any(s.events) and (s.models is null or i.model = any(s.models))"
        "   and (i.kind <> 're_review'"
        "     or (%(event)s = 'resolved' and i.label is not null and i.resolution <> 'agreed' and i.label::jsonb"
        "       is distinct from (select first.label::jsonb from review_items first where first.id = i.record_id)))"
        " on conflict do nothing",
        {"ids": ids, "event": event.value},
    )
    if event is not WebhookEvent.OVERDUE:
        connection.execute(
            "select pg_notify(%s, record_id::text) from review_items where id = any(%s)", (OUTCOMES_CHANNEL, ids)
        )


def announce_alarm(connection: Connection, alarm_id: int, model: str) -> None:
    """Put an alarm about a model into the outbox, for every webhook that wants to know. Doing it again changes
    nothing."""
    connection.execute(
        "insert into webhook_deliveries (webhook, event, alarm_id)"
        " select webhook, %(event)s, %(id)s from webhook_subscriptions"
        " where %(event)s = any(events) and (models is null or %(model)s = any(models)) on conflict do nothing",
        {"id": alarm_id, "event": WebhookEvent.ALARM.value, "model": model},
    )


def take(
    connection: Connection, webhook: str, *, lease_seconds: float, most_attempts: int, limit: int
) -> list[Delivery]:
    """Take what is due for a webhook, the longest due first, for `lease_seconds`: so long nobody else gets it. Each
    take is an attempt, whatever becomes of it."""
    connection.execute(
        "update webhook_deliveries set dead_at = clock_timestamp(),"
        " last_error = coalesce(last_error, 'every sender died of it')"
        f" where webhook = %s and {TO_DO} and attempts >= %s and {LAPSED}",
        (webhook, most_attempts),
    )
    with connection.cursor(row_factory=class_row(Delivery)) as cursor:
        cursor.execute(
            "with taken as (select id from webhook_deliveries"
            f"   where webhook = %(webhook)s and {TO_DO} and next_at <= clock_timestamp()"
            f"     and {FREE}"
            "   order by next_at limit %(limit)s for update skip locked)"
            f" update webhook_deliveries d set {TAKEN}"
            f" from taken where d.id = taken.id returning {DELIVERY.replace('id,', 'd.id,', 1)}",
            {"webhook": webhook, "limit": limit, "lease": lease_seconds},
        )
        return sorted(cursor.fetchall(), key=lambda delivery: delivery.created_at)


def keep_body(connection: Connection, delivery_id: UUID, body: str) -> None:
    """Keep what is sent, so that every attempt sends the same."""
    connection.execute("update webhook_deliveries set body = %s where id = %s", (body, delivery_id))


def delivered(connection: Connection, delivery_id: UUID) -> None:
    """Note that it has arrived, even where the lease was lost meanwhile."""
    connection.execute(
        "update webhook_deliveries set delivered_at = clock_timestamp(), dead_at = null, leased_until = null,"
        " last_error = null where id = %s and delivered_at is null",
        (delivery_id,),
    )


def failed(
    connection: Connection,
    delivery: Delivery,
    error: str,
    *,
    most_attempts: int,
    rng: np.random.Generator,
    for_good: bool = False,
) -> bool:
    """Note that it has not arrived, and when it is tried again; return whether it was given up: `for_good`, or after
    the last attempt. A sender whose lease was lost changes nothing."""
    dead = for_good or delivery.attempts >= most_attempts
    changed = change_held(
        connection,
        "webhook_deliveries",
        delivery,
        "leased_until = null, last_error = %(error)s, dead_at = case when %(dead)s then clock_timestamp() end,"
        " next_at = clock_timestamp() + make_interval(secs => %(pause)s)",
        while_=TO_DO,
        error=error,
        dead=dead,
        pause=pause_seconds(delivery.attempts, rng),
    )
    return dead and changed


def pause_seconds(attempts: int, rng: np.random.Generator) -> float:
    """The pause after so many attempts: anything up to a bound that grows with each, so that deliveries which failed
    together do not come back together (full jitter)."""
    bound = min(LONGEST_SECONDS, FIRST_SECONDS * FACTOR ** min(attempts - 1, 50))
    return float(rng.uniform(0, bound))


def dead_letters(connection: Connection, *, limit: int) -> list[Delivery]:
    """What was given up, the latest first."""
    with connection.cursor(row_factory=class_row(Delivery)) as cursor:
        cursor.execute(
            f"select {DELIVERY} from webhook_deliveries where dead_at is not null order by dead_at desc, id limit %s",
            (limit,),
        )
        return cursor.fetchall()


def send_again(connection: Connection, delivery_id: UUID) -> None:
    """Let what was given up be due at once, with all its attempts before it."""
    changed = connection.execute(
        "update webhook_deliveries set dead_at = null, attempts = 0, next_at = clock_timestamp(), leased_until = null"
        " where id = %s and dead_at is not null",
        (delivery_id,),
    ).rowcount
    if changed == 0:
        raise DeliveryNotFound(f"no delivery with the id {delivery_id} was given up; look at the list again")


def pending(connection: Connection) -> list[Pending]:
    """What has not arrived, by webhook; those that are subscribed and have nothing waiting as well."""
    with connection.cursor(row_factory=class_row(Pending)) as cursor:
        cursor.execute(
            "select webhook, count(d.id) filter (where dead_at is null) as waiting,"
            " count(d.id) filter (where dead_at is not null) as dead,"
            " min(created_at) filter (where dead_at is null) as oldest"
            " from (select * from webhook_deliveries where delivered_at is null) d"
            " full join webhook_subscriptions using (webhook) group by webhook order by webhook"
        )
        return cursor.fetchall()


def forget_delivered(connection: Connection) -> int:
    """Delete what arrived long ago; return how many."""
    return connection.execute(
        "delete from webhook_deliveries where delivered_at < clock_timestamp() - make_interval(days => %s)",
        (KEPT_DAYS,),
    ).rowcount

-- Who wants to be told of which cases. Written from the configuration by whoever serves the pages.
create table webhook_subscriptions (
    webhook text primary key,                    -- its address
    events  text[] not null,
    models  text[]                               -- null: all
);

-- What is to be told to whom: written in the transaction of the move that it tells of.
create table webhook_deliveries (
    id           uuid primary key default gen_random_uuid(),  -- the same in every attempt: a receiver can drop repeats
    webhook      text not null,
    event        text not null check (event in ('resolved', 'overdue', 'expired', 'withdrawn')),
    case_id      uuid not null references review_items,
    body         json,                           -- made for the first attempt, and the same in every other one
    created_at   timestamptz not null default clock_timestamp(),
    attempts     integer not null default 0,
    next_at      timestamptz not null default clock_timestamp(),
    leased_until timestamptz,                    -- until then one sender has it
    delivered_at timestamptz,
    dead_at      timestamptz,                    -- given up
    last_error   text,
    unique (case_id, event, webhook),
    check (delivered_at is null or dead_at is null)
);
create index webhook_deliveries_to_do on webhook_deliveries (webhook, next_at)
    where delivered_at is null and dead_at is null;
create index webhook_deliveries_dead on webhook_deliveries (dead_at) where dead_at is not null;
create index webhook_deliveries_done on webhook_deliveries (delivered_at) where delivered_at is not null;

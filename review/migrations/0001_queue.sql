-- Held predictions that wait for a person. `token` grows with every claim: an answer under an old token is refused.
create table review_items (
    record_id   uuid primary key references records,
    model       text not null,
    status      text not null check (status in ('waiting', 'claimed', 'resolved')),
    created_at  timestamptz not null,
    token       bigint not null default 0,
    claimed_by  text,
    lease_until timestamptz,
    check ((status = 'claimed') = (lease_until is not null)),
    check (status = 'waiting' or claimed_by is not null)
);
create index review_items_by_age on review_items (created_at, record_id) where status <> 'resolved';

-- Every change of status, append-only.
create table review_events (
    id          bigint generated always as identity primary key,
    record_id   uuid not null references review_items,
    at          timestamptz not null default clock_timestamp(),
    actor       text,                            -- null: the service itself
    from_status text,
    to_status   text not null,
    token       bigint not null
);
create index review_events_by_record on review_events (record_id, id);

-- What retention has deleted: numbers, and nothing of what the records said.
create table forgotten_records (
    id       bigint generated always as identity primary key,
    model    text not null,
    at       timestamptz not null default clock_timestamp(),
    before   timestamptz not null,               -- records older than this were deleted, but for those still needed
    records  bigint not null,
    outcomes bigint not null,
    cases    bigint not null
);
create index forgotten_records_by_model on forgotten_records (model, before desc);

-- A key goes with its record.
create index idempotency_keys_by_record on idempotency_keys (record_id);

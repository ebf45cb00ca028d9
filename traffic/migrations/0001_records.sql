-- One row for each prediction. Narrow: no input, so that the log can outlive the text.
create table records (
    id                uuid primary key,
    created_at        timestamptz not null,
    model             text not null,
    artifact          text,                      -- null: no artifact decided, the model gave no output
    "group"           text,                      -- the caller's word for where the input comes from
    prediction        text,                      -- null: the output was unusable
    top_labels        text[] not null,
    top_probabilities float8[] not null,
    prediction_set    text[] not null,
    scores            json not null,             -- name -> number; null where a score is undefined
    confidence        float8,
    action            text not null check (action in ('answer', 'review', 'abstain')),
    reason            text not null,
    label_probability float8 not null check (label_probability between 0 and 1),
    timings           json not null              -- name -> milliseconds
);
create index records_by_time on records (model, created_at);

-- The input, apart from the record, with a life of its own.
create table payloads (
    record_id  uuid primary key references records,
    input      json not null,
    expires_at timestamptz                       -- null: kept for ever
);
create index payloads_by_expiry on payloads (expires_at) where expires_at is not null;

-- The truth as it became known. Append-only: a correction is one more row, and the latest row counts.
create table outcomes (
    id         bigint generated always as identity primary key,
    record_id  uuid not null references records,
    created_at timestamptz not null default clock_timestamp(),
    label      text not null,
    source     text not null,                    -- 'review', or the caller's word for where it knows it from
    author     text
);
create index outcomes_by_record on outcomes (record_id, id);

-- What an Idempotency-Key was first used for. A batch uses one key for all its positions.
create table idempotency_keys (
    key         text not null,
    position    integer not null,
    fingerprint bytea not null,
    record_id   uuid not null,
    primary key (key, position)
);

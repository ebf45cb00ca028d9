-- Work on the artifacts of a model that takes long: a fit on logged traffic, a comparison, a replay. A process takes a job
-- under a lease; `attempts` is the token of whoever holds it.
create table model_jobs (
    id           uuid primary key,
    model        text not null,
    kind         text not null check (kind in ('fit', 'compare', 'replay')),
    settings     json not null,
    asked_by     text not null,
    asked_at     timestamptz not null default clock_timestamp(),
    status       text not null default 'waiting' check (status in ('waiting', 'running', 'done', 'failed')),
    attempts     integer not null default 0,
    leased_until  timestamptz,
    share        float8,                          -- how much of it is done; null: nobody has said
    error        text,                            -- why it failed, for whoever asked
    result       json,
    ended_at     timestamptz
);
create index model_jobs_open on model_jobs (asked_at) where status in ('waiting', 'running');
create index model_jobs_by_model on model_jobs (model, asked_at);

-- Reports as they were made: nothing in them is ever changed.
create table audit_reports (
    id uuid primary key,
    model text not null,
    since timestamptz not null,
    until timestamptz not null,
    as_of timestamptz not null,
    planned boolean not null,       -- made by the schedule, and not because somebody asked
    made_by text not null,
    made_at timestamptz not null default clock_timestamp(),
    command text not null,          -- which makes the same report again
    version text not null,          -- of demur
    verdict text not null,
    summary json not null,          -- what lists and comparisons show
    document json not null,         -- every number, byte for byte
    html bytea not null,            -- compressed by zlib
    rows_at text,                   -- where the rows behind it lie, if they were kept
    previous_id uuid references audit_reports (id) on delete set null
);
create index audit_reports_by_model on audit_reports (model, until desc, made_at desc);
create index audit_reports_by_age on audit_reports (made_at);
create index audit_reports_by_previous on audit_reports (previous_id);

-- Audits that are to be made, are being made, or were tried: one row each, taken under a lease.
create table audit_runs (
    id uuid primary key,
    model text not null,
    since timestamptz not null,
    until timestamptz not null,
    planned boolean not null,
    asked_by text not null,
    asked_at timestamptz not null default clock_timestamp(),
    status text not null default 'waiting'
        check (status in ('waiting', 'running', 'done', 'nothing', 'failed', 'overtaken')),
    attempts integer not null default 0,    -- begun so far; also the token of whoever is at it
    try_at timestamptz not null default clock_timestamp(),
    leased_until timestamptz,
    stage text,
    share double precision,
    error text,
    ended_at timestamptz,
    report_id uuid references audit_reports (id) on delete set null
);
create unique index audit_runs_planned on audit_runs (model, until) where planned;
create index audit_runs_open on audit_runs (try_at) where status in ('waiting', 'running');
create index audit_runs_latest on audit_runs (model, asked_at desc);
create index audit_runs_by_report on audit_runs (report_id);

-- Since when audits of a model are on schedule: what lay before is not made up for.
create table audit_schedules (
    model text primary key,
    begun_at timestamptz not null
);

-- Values that steer a model's stream (METHODS 9.5): one lane for each process that moves one of its own, and one for
-- all of those that labels move.
create table control_states (
    lane       uuid primary key,
    model      text not null,
    settings   jsonb not null,           -- of the control; with other settings another lane begins
    course     jsonb not null,           -- where the value began, where it is, and what came of it
    read_until jsonb,                    -- where labels move it: what has been counted already
    artifact   text,                     -- that decided last
    holder     uuid,                     -- the process that moves it; null: whoever comes, one at a time
    began_at   timestamptz not null,
    updated_at timestamptz not null
);
create index control_states_by_model on control_states (model, updated_at);

-- How it came there, for the picture: thinned as it grows, the older the thinner.
create table control_history (
    lane    uuid not null references control_states on delete cascade,
    at      timestamptz not null,
    value   float8 not null,
    average float8,                      -- null: nothing had been decided yet
    n       bigint not null,
    primary key (lane, at)
);

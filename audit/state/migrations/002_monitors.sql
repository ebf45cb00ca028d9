-- Where each monitor stands: one row for each model, artifact and kind. Whoever feeds it holds the row.
create table monitors (
    model       text not null,
    artifact    text not null,
    kind        text not null check (kind in ('risk', 'traffic', 'reference', 'comparison')),
    role        text check (role in ('in force', 'canary')),  -- null: it decides nothing any more
    round       integer not null default 1,                   -- grows with every restart
    counts_from timestamptz not null,                         -- only records decided from then on count
    settings    json not null,                                -- what it was started with
    state       json not null,
    cursor      json not null,                                -- what it has taken in
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (model, artifact, kind)
);

-- When somebody last looked at the monitors of a model, and what kept them from it.
create table monitor_looks (
    model   text primary key,
    at      timestamptz not null,
    trouble text not null
);

create table alarms (
    id        bigint generated always as identity primary key,
    model     text not null,
    artifact  text not null,
    kind      text not null check (kind in ('risk', 'confidence', 'held', 'audit')),
    round     integer not null,                  -- of the monitor: each raises it once
    raised_at timestamptz not null default clock_timestamp(),
    words     text not null,
    evidence  json not null,
    action    text not null check (action in ('notify', 'tighten', 'hold_all')),
    floor     float8,                            -- tighten: the least confidence that is still answered; null: none is
    acted_at  timestamptz,                       -- null: it did nothing but tell
    undone_at timestamptz,
    undone_by text,
    undo_why  text,
    unique (model, artifact, kind, round),
    check ((undone_at is null) = (undone_by is null) and (undone_at is null) = (undo_why is null)),
    check ((action = 'notify') = (acted_at is null)),
    check (action = 'tighten' or floor is null)
);
create index alarms_in_force on alarms (model) where undone_at is null;

-- Everything that happened to alarms, noted by the table itself.
create table alarm_events (
    id       bigint generated always as identity primary key,
    alarm_id bigint not null references alarms,
    at       timestamptz not null default clock_timestamp(),
    what     text not null check (what in ('raised', 'acted', 'undone')),
    actor    text,                               -- null: the service itself
    why      text not null
);
create index alarm_events_by_alarm on alarm_events (alarm_id, id);

create function note_alarm() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into alarm_events (alarm_id, what, why) values (new.id, 'raised', new.words);
        if new.acted_at is not null then
            insert into alarm_events (alarm_id, what, why)
                values (new.id, 'acted', new.action || coalesce(' below confidence ' || new.floor, ''));
        end if;
    elsif old.undone_at is null and new.undone_at is not null
        and row_to_json(old)::jsonb - '{undone_at,undone_by,undo_why}'::text[]
          = row_to_json(new)::jsonb - '{undone_at,undone_by,undo_why}'::text[] then
        insert into alarm_events (alarm_id, what, actor, why) values (new.id, 'undone', new.undone_by, new.undo_why);
    else
        raise exception 'of an alarm nothing changes but that it is undone, once' using errcode = 'check_violation';
    end if;
    return null;
end $$;
create trigger note_alarm after insert or update on alarms for each row execute function note_alarm();

create function refuse_alarm_change() returns trigger language plpgsql as $$
begin
    raise exception 'the history of alarms is only ever added to' using errcode = 'check_violation';
end $$;
create trigger never_deleted before delete on alarms for each row execute function refuse_alarm_change();
create trigger only_added_to before update or delete on alarm_events
    for each row execute function refuse_alarm_change();

-- Webhooks are told of alarms as they are of cases.
alter table webhook_deliveries
    alter column case_id drop not null,
    add column alarm_id bigint references alarms,
    drop constraint webhook_deliveries_event_check,
    add check (event in ('resolved', 'overdue', 'expired', 'withdrawn', 'alarm')),
    add check ((event = 'alarm') = (alarm_id is not null)),
    add check (num_nonnulls(case_id, alarm_id) = 1),
    add unique (alarm_id, event, webhook);

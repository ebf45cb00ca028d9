-- Who saw what came with which case. Only ever added to, and kept when the case is gone.
create table case_views (
    id      bigint generated always as identity primary key,
    case_id uuid not null,
    person  text not null,
    at      timestamptz not null default clock_timestamp(),
    through text not null check (through in ('page', 'list', 'api', 'export')),
    shown   text[] not null                      -- of: beginning, input, prediction, opinions, everything
);
create index case_views_by_case on case_views (case_id, id);
create index case_views_by_person on case_views (person, id);
create index case_views_by_time on case_views (at);

create function refuse_to_unsee() returns trigger language plpgsql as $$
begin
    raise exception 'who saw a case is only ever added to' using errcode = 'check_violation';
end $$;
create trigger only_added_to before update or delete on case_views for each row execute function refuse_to_unsee();

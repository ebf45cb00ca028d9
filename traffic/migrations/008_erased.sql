-- Inputs and replies that somebody asked to be erased: that, by whom and when, and nothing of what they said.
create table erased_payloads (
    record_id uuid primary key,                  -- of a record that may itself be gone by now
    at        timestamptz not null default clock_timestamp(),
    by_whom   text not null
);

create function refuse_to_unerase() returns trigger language plpgsql as $$
begin
    raise exception 'what was erased is only ever added to' using errcode = 'check_violation';
end $$;
create trigger only_added_to before update or delete on erased_payloads for each row
    execute function refuse_to_unerase();

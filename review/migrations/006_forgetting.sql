-- A case may go once it has ended, and its history goes with it: as a whole, and never by itself.
alter table review_events
    drop constraint review_events_case_id_fkey,
    add foreign key (case_id) references review_items on delete cascade;
alter table review_opinions
    drop constraint review_opinions_case_id_fkey,
    add foreign key (case_id) references review_items on delete cascade;
alter table review_drafts
    drop constraint review_drafts_case_id_fkey,
    add foreign key (case_id) references review_items on delete cascade;
alter table webhook_deliveries
    drop constraint webhook_deliveries_case_id_fkey,
    add foreign key (case_id) references review_items on delete cascade;

create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and not exists (select from review_items where id = old.case_id) then
        return old;
    end if;
    raise exception 'the history of reviews is only ever added to' using errcode = 'check_violation';
end $$;

create function refuse_to_forget() returns trigger language plpgsql as $$
begin
    raise exception 'a case that is open is not deleted' using errcode = 'check_violation';
end $$;
create trigger only_once_ended before delete on review_items for each row
    when (old.ended_at is null) execute function refuse_to_forget();

-- Else each record that is deleted would have all cases looked through for its own.
create index review_items_by_record on review_items (record_id);

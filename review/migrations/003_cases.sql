-- A case is one asking of people about one record. Its id is that of the record, but for a re-review, which asks again.
alter table review_events drop constraint review_events_record_id_fkey;
alter table review_items drop constraint review_items_pkey;
drop index review_items_by_age, review_events_by_record;

alter table review_items
    add column id               uuid,
    add column "group"          text,
    add column confidence       float8,
    add column priority         integer not null default 0,      -- higher first
    add column due_at           timestamptz,
    add column overdue_at       timestamptz,                     -- when it was noted that the due time had passed
    add column opinions_wanted  integer not null default 1 check (opinions_wanted >= 1),
    add column blind            boolean not null default false,  -- the prediction is shown after the answer only
    add column adjudicating     boolean not null default false,  -- the next answer decides
    add column settles_at       timestamptz,                     -- until then an answer can be taken back
    add column first_claimed_at timestamptz,
    add column ended_at         timestamptz,
    add column label            json,                            -- what it was resolved to; null: nobody could tell
    add column resolution       text,
    add column moved_by         text,                            -- of the last move, for the event that notes it
    add column moved_detail     json;

update review_items i set id = record_id, "group" = r."group", confidence = r.confidence,
    moved_by = claimed_by,
    first_claimed_at = (select min(at) from review_events e where e.record_id = i.record_id and to_status = 'claimed'),
    ended_at = (select max(at) from review_events e where e.record_id = i.record_id and to_status = 'resolved'),
    label = (select label from outcomes o where o.record_id = i.record_id and source = 'review' order by o.id desc limit 1),
    resolution = case when status = 'resolved' then 'agreed' end
    from records r where r.id = i.record_id;

alter table review_items
    alter column id set not null,
    add primary key (id),
    add foreign key (record_id) references records,
    drop constraint review_items_status_check,
    drop constraint review_items_kind_check,
    drop constraint review_items_check,
    drop constraint review_items_check1,
    add check (status in ('waiting', 'claimed', 'answered', 'adjudication', 'resolved', 'expired', 'withdrawn')),
    add check (kind in ('held', 'spot_check', 're_review')),
    add check ((id = record_id) = (kind <> 're_review')),
    add check ((status = 'claimed') = (lease_until is not null)),
    add check ((status = 'answered') = (settles_at is not null)),
    add check (status not in ('claimed', 'answered') or claimed_by is not null),
    add check ((status = 'resolved') = (resolution is not null)),
    add check (label is null or resolution is not null);

create unique index review_items_re_review on review_items (record_id) where kind = 're_review';
create index review_items_by_age on review_items (priority desc, due_at, created_at, id) where status = 'waiting';
create index review_items_by_doubt on review_items (priority desc, due_at, confidence nulls first, id)
    where status = 'waiting';
create index review_items_under_way on review_items (status, created_at)
    where status in ('claimed', 'answered', 'adjudication');
create index review_items_by_due on review_items (due_at)
    where overdue_at is null and status in ('waiting', 'claimed', 'answered', 'adjudication');
create index review_items_by_end on review_items (ended_at desc, id) where ended_at is not null;

-- What one person said about one case. One that was taken back stays, and does not count.
create table review_opinions (
    case_id        uuid not null references review_items,
    token          bigint not null,              -- of the claim under which it was given
    at             timestamptz not null default clock_timestamp(),
    reviewer       text not null,
    adjudicates    boolean not null,
    label          json,                         -- null: the person cannot tell
    reason         text,                         -- why not
    comment        text,
    saw_prediction boolean not null,
    seconds        float8 not null,              -- since the claim
    undone_at      timestamptz,
    primary key (case_id, token),
    check (label is not null or reason is not null)
);
create unique index review_opinions_once on review_opinions (case_id, reviewer) where undone_at is null;
create index review_opinions_by_reviewer on review_opinions (reviewer, at) where undone_at is null;

insert into review_opinions (case_id, token, at, reviewer, adjudicates, label, saw_prediction, seconds)
    select i.id, i.token, i.ended_at, i.claimed_by, false, i.label, true,
           extract(epoch from i.ended_at - (select max(at) from review_events e
                                             where e.record_id = i.record_id and to_status = 'claimed'))
      from review_items i where status = 'resolved' and label is not null and ended_at is not null;

-- What somebody typed and did not send, or sent too late.
create table review_drafts (
    case_id  uuid not null references review_items,
    reviewer text not null,
    at       timestamptz not null default clock_timestamp(),
    content  json not null,
    primary key (case_id, reviewer)
);

-- Every move, noted by the table itself.
alter table review_events rename column record_id to case_id;
alter table review_events add column detail json, add foreign key (case_id) references review_items;
create index review_events_by_case on review_events (case_id, id);
create index review_events_by_time on review_events (at);

create table review_transitions (from_status text, to_status text, primary key (from_status, to_status));
insert into review_transitions values
    ('waiting', 'claimed'), ('waiting', 'expired'), ('waiting', 'withdrawn'),
    ('claimed', 'waiting'), ('claimed', 'adjudication'), ('claimed', 'answered'), ('claimed', 'withdrawn'),
    ('answered', 'claimed'), ('answered', 'waiting'), ('answered', 'adjudication'), ('answered', 'resolved'),
    ('answered', 'withdrawn'),
    ('adjudication', 'claimed'), ('adjudication', 'expired'), ('adjudication', 'withdrawn');

create function note_review_move() returns trigger language plpgsql as $$
declare
    before text;
begin
    if tg_op = 'INSERT' then
        if new.status <> 'waiting' then
            raise exception 'a case begins as waiting, not as %', new.status using errcode = 'check_violation';
        end if;
    else
        before := old.status;
        if not exists (select from review_transitions where from_status = before and to_status = new.status) then
            raise exception 'a case cannot go from % to %', before, new.status using errcode = 'check_violation';
        end if;
    end if;
    insert into review_events (case_id, actor, from_status, to_status, token, detail)
        values (new.id, new.moved_by, before, new.status, new.token, new.moved_detail);
    return null;
end $$;

create trigger note_new_case after insert on review_items for each row execute function note_review_move();
create trigger note_move after update on review_items for each row
    when (old.status <> new.status) execute function note_review_move();

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the history of reviews is only ever added to' using errcode = 'check_violation';
end $$;
create trigger only_added_to before update or delete on review_events for each row execute function refuse_change();

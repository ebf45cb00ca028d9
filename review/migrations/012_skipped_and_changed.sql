-- Who does not want which case again, and why. It stays, so that it can be counted.
create table review_skips (
    case_id  uuid not null references review_items on delete cascade,
    reviewer text not null,
    at       timestamptz not null default clock_timestamp(),
    reason   text,
    primary key (reviewer, case_id)
);
create index review_skips_by_case on review_skips (case_id);  -- for the cascade
create index review_skips_by_time on review_skips (at);

-- Whoever has resolved a case alone may change their answer, as long as nobody has built on it.
insert into review_transitions values ('resolved', 'claimed');

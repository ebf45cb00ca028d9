-- Who gave which case back, and until when it does not come to them by itself. Others get it at once.
create table review_given_back (
    case_id  uuid not null references review_items on delete cascade,
    reviewer text not null,
    until    timestamptz not null,
    primary key (reviewer, case_id)
);
create index review_given_back_by_case on review_given_back (case_id);  -- for the cascade

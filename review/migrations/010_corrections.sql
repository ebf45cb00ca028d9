-- What a reviewer wrote in the place of a reply. It lives as long as the input and the reply do.
create table review_corrections (
    case_id   uuid not null,
    token     bigint not null,                   -- of the opinion that it came with
    record_id uuid not null references payloads on delete cascade,
    text      text not null,
    primary key (case_id, token),
    foreign key (case_id, token) references review_opinions on delete cascade
);
create index review_corrections_by_record on review_corrections (record_id);  -- for the cascade

-- Why a reply is wrong, in the codes of the configuration. Null: nobody said.
alter table review_opinions add column codes text[];

-- What somebody wrote in the place of a reply that is wrong. It lives as long as the input and the reply do.
create table corrected_replies (
    outcome_id bigint primary key references outcomes on delete cascade,
    record_id  uuid not null references payloads on delete cascade,
    text       text not null
);
create index corrected_replies_by_record on corrected_replies (record_id);  -- for the cascade

-- Why a reply is wrong, in the codes of the configuration. Null: nobody said.
alter table outcomes add column codes text[];

-- What an artifact in the shadow decided on the same output. The caller was told what `records` says.
create table shadow_decisions (
    record_id      uuid primary key references records,
    artifact       text not null,
    prediction     json,                         -- null: the output was unusable
    confidence     float8,
    action         text not null check (action in ('answer', 'review', 'abstain')),
    reason         text not null,
    prediction_set text[] not null
);

-- The secret from which every draw is made: who is in a canary, whose answer is checked by a person. Made once: who
-- knows it can foresee draws, and with another one retries would be drawn anew.
create table draw_key (
    only_one boolean primary key default true check (only_one),
    key      text not null
);
insert into draw_key (key) values (replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

-- What each model of a cascade said before the last one decided. Null: there was one model.
alter table records add column steps json;

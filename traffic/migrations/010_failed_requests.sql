-- Requests that got an error because a model could not be asked. Apart from records: nothing was predicted, so nothing
-- that counts, reviews or audits predictions reads them.
create table failed_requests (
    id          uuid primary key,
    created_at  timestamptz not null,
    model       text not null,
    "group"     text,
    status      smallint not null,
    reason      text not null,
    retry_after float8,                          -- seconds that the model's side named
    passed_to   text,                            -- the model that was asked instead; null: the caller got the error
    request_id  text
);
create index failed_requests_by_time on failed_requests (model, created_at);

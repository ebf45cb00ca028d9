-- What is kept of an input under an Idempotency-Key is a digest that only this database can make (HMAC with two keys that
-- were drawn independently, each as long as a block), and only for that Idempotency-Key. It has 33 bytes: its first one
-- tells it from the plain digests of an older version, which may go on writing them for a while.
create table digest_keys (
    only_one  boolean primary key default true check (only_one),
    inner_key bytea not null,
    outer_key bytea not null
);
insert into digest_keys (inner_key, outer_key)
    select decode(replace(string_agg(gen_random_uuid()::text, '') filter (where n <= 4), '-', ''), 'hex'),
           decode(replace(string_agg(gen_random_uuid()::text, '') filter (where n > 4), '-', ''), 'hex')
      from generate_series(1, 8) n;

update idempotency_keys set fingerprint = '\x01'::bytea
    || sha256(outer_key || sha256(inner_key || convert_to(key, 'UTF8') || '\x00'::bytea || fingerprint)) from digest_keys;

-- Of a key whose input was deleted no more is kept than it takes to recognise it when somebody shows it again. No key of
-- a caller holds a blank.
update idempotency_keys k set key = 'forgotten '
    || encode(sha256(outer_key || sha256(inner_key || '\x00'::bytea || convert_to(key, 'UTF8'))), 'hex') from digest_keys
    where not exists (select from payloads p where p.record_id = k.record_id);

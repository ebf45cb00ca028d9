-- Who gets in. No secret is here, only SHA-256 of secrets that are drawn from more than 200 bits.

create table access_keys (
    id text primary key,
    secret_hash bytea not null,
    name text not null,
    scopes text[] not null,
    models text[], -- null: all
    rates jsonb not null default '{}',
    created_at timestamptz not null default now(),
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    check ((revoked_at is null) = (revoked_by is null))
);

-- One-time codes with which a person logs in.
create table access_codes (
    id text primary key,
    secret_hash bytea not null,
    name text not null,
    scopes text[] not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    expires_at timestamptz not null,
    used_at timestamptz
);

create table access_sessions (
    id text primary key,
    secret_hash bytea not null,
    name text not null,
    scopes text[] not null,
    key_id text references access_keys (id), -- the session ends with the key that was used to log in
    began_by text not null, -- 'key', 'code' or 'oidc'
    began_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    idle_seconds double precision not null,
    expires_at timestamptz not null,
    ended_at timestamptz
);

create index access_sessions_open on access_sessions (expires_at) where ended_at is null;

-- Logins at a provider that have begun: what must come back, and what is needed then.
create table access_logins (
    state_hash bytea primary key,
    nonce text not null,
    verifier text not null,
    back text not null,
    expires_at timestamptz not null
);

-- Counts what replicas must learn of. Each looks at the number every second, and reads the tables when it has changed.
create table access_changes (
    one boolean primary key default true check (one),
    n bigint not null
);

create function access_changed() returns trigger language plpgsql as $$
begin
    insert into access_changes (one, n) values (true, 1) on conflict (one) do update set n = access_changes.n + 1;
    return null;
end $$;

create trigger access_keys_changed after insert or update or delete on access_keys
    for each statement execute function access_changed();

create trigger access_sessions_changed after insert or delete or update of ended_at on access_sessions
    for each statement execute function access_changed();

-- A case that a person's browser holds in advance, so that it is there when they have answered the one before. It is a
-- claim with a short lease, and anybody's again unless it is opened.
alter table review_items
    add column ahead     boolean not null default false,
    add column opened_at timestamptz;            -- when a claim that was made ahead came before the person
alter table case_views
    drop constraint case_views_through_check,
    add constraint case_views_through_check check (through in ('page', 'list', 'api', 'export', 'ahead'));

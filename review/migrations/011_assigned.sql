-- For whom a case is kept: it comes to that person first, and to others only once its due time is over.
alter table review_items add column assigned_to text;
create index review_items_assigned on review_items (assigned_to) where assigned_to is not null and ended_at is null;

-- The queue as people see it, fast at 100,000 cases: the open ones in the order in which they are worked, how many there
-- are of what, and those that have ended, newest first. Each query reads one of these indexes, and its page.
create index review_items_open on review_items (priority desc, due_at, created_at, id) where ended_at is null;
create index review_items_open_counts on review_items (status, model, "group", due_at, created_at)
    where ended_at is null;
drop index review_items_by_end;
create index review_items_by_end on review_items (ended_at desc, id) include (status, model, "group")
    where ended_at is not null;

-- The order by doubt is written in another way than that by age. If both began alike, the planner would at times read
-- one of them and sort what it is not in the order of: half the queue.
drop index review_items_by_doubt;
create index review_items_by_doubt on review_items ((-priority), due_at, confidence nulls first, id)
    where status = 'waiting';
create index review_items_open_by_doubt on review_items ((-priority), due_at, confidence nulls first, id)
    where ended_at is null;

-- Why a person is asked: the prediction was held, or it was drawn to see whether answers are right.
alter table review_items add column kind text not null default 'held' check (kind in ('held', 'spot_check'));

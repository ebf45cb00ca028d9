-- How many decisions each minute had, so that pages need not count the records of a day.
create table decision_minutes (
    model     text not null,
    minute    timestamptz not null,
    answered  bigint not null,
    held      bigint not null,
    abstained bigint not null,
    primary key (model, minute)
);

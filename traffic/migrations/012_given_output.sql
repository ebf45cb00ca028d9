-- What a model said that runs elsewhere, as the request brought it: a later fit reads it again. Null where demur asked
-- the model itself. It lies beside the input, and goes with it.
alter table payloads add column output json;

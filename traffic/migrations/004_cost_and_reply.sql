-- What a prediction cost: {"prompt_tokens", "completion_tokens", "calls", "seconds"}. Null: no language model was asked.
alter table records add column cost jsonb;

-- What a language model wrote where that is its prediction: {"text", "finish_reason"}. It lives as long as the input.
alter table payloads add column reply json;

-- Predictions and outcomes are JSON: "label" where labels exclude each other, ["label", ...] where they do not.
alter table records alter column prediction type json using to_json(prediction);
alter table outcomes alter column label type json using to_json(label);

-- Calibrated probability of each of top_labels, where labels do not exclude each other.
alter table records add column label_confidence float8[];

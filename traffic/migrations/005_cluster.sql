-- The caller's word for what an input belongs to where several do: a patient, a user, a document. Null: it is by itself.
alter table records add column cluster text;

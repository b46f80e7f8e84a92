-- A memory's questions as a list in JSON; '' for none, since SQLite reads what is empty without the body before it.
ALTER TABLE memories ADD COLUMN questions TEXT NOT NULL DEFAULT '';
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

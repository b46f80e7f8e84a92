-- The record of a session is one document, and each of its passages has its own time and trust.
ALTER TABLE chunks ADD COLUMN at TEXT NOT NULL DEFAULT '';
ALTER TABLE chunks ADD COLUMN trust TEXT NOT NULL DEFAULT '';
CREATE INDEX memories_by_source ON memories (source);

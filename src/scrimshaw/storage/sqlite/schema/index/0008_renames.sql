-- What references to a name mean that no memory has any more: the id that its file was renamed to.
CREATE TABLE renames (reference TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX renames_by_id ON renames (id);

-- What references to a name mean that no memory has any more: the id that its file was renamed to.
CREATE TABLE renames (reference bytewise PRIMARY KEY, id bytewise NOT NULL);
CREATE INDEX renames_by_id ON renames (id);

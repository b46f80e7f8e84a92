-- The file a call is about and whether it failed, for drafts; NULL where nothing tells.
ALTER TABLE events ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN failed INTEGER;

-- The last draft of each session: how many events it was made of, and the memory it became, '' where it was rejected.
CREATE TABLE drafts (
    session TEXT PRIMARY KEY REFERENCES sessions,
    events INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;

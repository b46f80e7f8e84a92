-- Vectors by the hash of their text, for all work trees of a repository, in the order in which they were made.
CREATE TABLE vectors (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    key TEXT NOT NULL,
    vector BLOB NOT NULL,
    packed BLOB,
    UNIQUE (model, key)
);

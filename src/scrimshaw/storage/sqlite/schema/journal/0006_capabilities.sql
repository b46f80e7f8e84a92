-- What each part could do when it was last looked at: a row when it is first seen, and one for every change.
CREATE TABLE capabilities (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX capabilities_by_name ON capabilities (name, seq);

-- What clients reported, redacted. A call that is reported twice is kept once.
CREATE TABLE events (
    session TEXT NOT NULL REFERENCES sessions,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tool TEXT NOT NULL,
    call_id TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE UNIQUE INDEX events_by_call ON events (session, kind, call_id) WHERE call_id <> '';

-- Runs of a client on the project. `counter` counts events; `last_event` and `started` are seconds since 1970.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    client TEXT NOT NULL,
    process INTEGER NOT NULL,
    state TEXT NOT NULL,
    counter INTEGER NOT NULL,
    task TEXT NOT NULL,
    started REAL NOT NULL,
    last_event REAL NOT NULL,
    context_used REAL,
    continues TEXT NOT NULL
);
CREATE INDEX sessions_by_event ON sessions (last_event);
CREATE INDEX sessions_by_process ON sessions (process) WHERE state = 'active';

-- What happened in a session, redacted. Working memory is the part that is `held`; nothing is ever deleted here.
CREATE TABLE items (
    session TEXT NOT NULL REFERENCES sessions,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    kind TEXT NOT NULL,
    attention REAL NOT NULL,
    event INTEGER NOT NULL,
    at REAL NOT NULL,
    mentions INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    path TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    held INTEGER NOT NULL,
    source_tool TEXT NOT NULL,
    source_call_id TEXT NOT NULL,
    extraction_rule_id TEXT NOT NULL,
    redaction_applied INTEGER NOT NULL,
    trust TEXT NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX items_held ON items (session, number) WHERE held;

-- The memories a session was shown, as they were then.
CREATE TABLE shown (
    session TEXT NOT NULL REFERENCES sessions,
    memory_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (session, memory_id)
) WITHOUT ROWID;

-- Self-assessments before and after a task.
CREATE TABLE learnings (
    folder TEXT NOT NULL,
    task TEXT NOT NULL,
    phase TEXT NOT NULL,
    session TEXT NOT NULL,
    knowledge REAL NOT NULL,
    uncertainty REAL NOT NULL,
    context REAL NOT NULL,
    gaps TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (folder, task, phase)
);

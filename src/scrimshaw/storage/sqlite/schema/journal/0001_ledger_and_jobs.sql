-- Append-only record of every change: hashes and ids, never content. Each row is chained to the one before it.
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    action TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    prior_hash TEXT NOT NULL,
    new_hash TEXT NOT NULL,
    linked_memory_ids TEXT NOT NULL,
    decision_meta TEXT NOT NULL,
    actor TEXT NOT NULL,
    session TEXT NOT NULL,
    chain TEXT NOT NULL
);
CREATE INDEX ledger_by_memory ON ledger (memory_id, seq);
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger
BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger
BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END;

-- What a change replaced, so that it can be undone; purge erases it.
CREATE TABLE contents (
    content_hash TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    content BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (content_hash, memory_id)
) WITHOUT ROWID;
CREATE INDEX contents_by_memory ON contents (memory_id);

CREATE TABLE reviews (
    memory_id TEXT PRIMARY KEY,
    stability REAL NOT NULL,
    difficulty REAL NOT NULL,
    last_review REAL NOT NULL,
    reviews INTEGER NOT NULL,
    useful INTEGER NOT NULL,
    not_useful INTEGER NOT NULL,
    confidence REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '',
    due REAL NOT NULL,
    lease_until REAL NOT NULL DEFAULT 0,
    created REAL NOT NULL
);
CREATE INDEX jobs_due ON jobs (state, due);
CREATE UNIQUE INDEX jobs_waiting ON jobs (kind, key) WHERE state = 'queued';

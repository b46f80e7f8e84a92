-- Everything here is derived from files and may be dropped.
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', 0);

CREATE TABLE files (
    path TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX files_by_source ON files (source);

CREATE TABLE memories (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    folded TEXT NOT NULL, -- the id without differences of case, which some file systems do not see
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    type TEXT NOT NULL,
    tier TEXT NOT NULL,
    artifact TEXT NOT NULL,
    triggers TEXT NOT NULL,
    topics TEXT NOT NULL,
    origin TEXT NOT NULL,
    trust TEXT NOT NULL,
    session TEXT NOT NULL,
    quality REAL,
    flags TEXT NOT NULL,
    created TEXT NOT NULL,
    updated TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    label_tokens INTEGER NOT NULL,
    length INTEGER NOT NULL,
    writable INTEGER NOT NULL,
    body TEXT NOT NULL -- last, so that the columns before it are read without it
);
CREATE INDEX memories_by_folded ON memories (folded);
CREATE INDEX memories_by_name ON memories (name);
CREATE INDEX memories_by_path ON memories (path);
CREATE INDEX memories_by_text_hash ON memories (text_hash);
CREATE INDEX memories_by_tier ON memories (tier);

-- A memory of several chunks stands here whole (rowid 2 x memories.row) and every chunk by itself
-- (rowid 2 x chunks.row + 1): judged queries are answered better by both than by either.
CREATE VIRTUAL TABLE memory_text USING fts5 (
    name, title, triggers, body,
    content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);

-- Phrases that bring a memory up, looked up by their first word or character.
CREATE TABLE phrases (
    head TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    phrase TEXT NOT NULL,
    is_title INTEGER NOT NULL,
    PRIMARY KEY (head, memory, phrase)
) WITHOUT ROWID;
CREATE INDEX phrases_by_memory ON phrases (memory);

-- The smallest hashes of a text's word triples: texts that share many are much alike.
CREATE TABLE sketches (
    hash INTEGER NOT NULL,
    memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    PRIMARY KEY (hash, memory)
) WITHOUT ROWID;
CREATE INDEX sketches_by_memory ON sketches (memory);

CREATE TABLE topics (
    topic TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    PRIMARY KEY (topic, memory)
) WITHOUT ROWID;
CREATE INDEX topics_by_memory ON topics (memory);

-- `reference` is the target as its author wrote it; it is resolved when read, so a memory that appears later is found.
CREATE TABLE edges (
    source INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    reference TEXT NOT NULL,
    relation TEXT NOT NULL,
    kind TEXT NOT NULL,
    strength REAL NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (source, reference, relation)
) WITHOUT ROWID;
CREATE INDEX edges_by_reference ON edges (reference);

CREATE TABLE chunks (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    anchor TEXT NOT NULL,
    heading TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    context TEXT NOT NULL,
    key TEXT NOT NULL
);
CREATE INDEX chunks_by_memory ON chunks (memory, ordinal);
CREATE INDEX chunks_by_key ON chunks (key);

-- A vector per model and chunk, float16. Rows are only added at the end or deleted, so that a reader can follow by
-- `seq`; `key` names the embedded text, so an edit that leaves a chunk as it was keeps its vector.
CREATE TABLE vectors (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    key TEXT NOT NULL,
    vector BLOB NOT NULL
);
CREATE UNIQUE INDEX vectors_by_chunk ON vectors (memory, ordinal, model);
CREATE INDEX vectors_by_key ON vectors (key);
CREATE INDEX vectors_by_model ON vectors (model, seq);

-- Everything here is derived from files and may be dropped. The tables are those of SQLite's index; words and vectors
-- are PostgreSQL's own.
CREATE DOMAIN bytewise AS text COLLATE "C";
CREATE FUNCTION instr(text, text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT strpos($1, $2)';
CREATE FUNCTION strftime(text, bigint, text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT to_char(to_timestamp($2) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') $$;

CREATE TABLE meta (key bytewise PRIMARY KEY, value bigint NOT NULL);
INSERT INTO meta VALUES ('generation', 0);

CREATE TABLE files (
    path bytewise PRIMARY KEY,
    source bytewise NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    content_hash bytewise NOT NULL,
    memory_id bytewise NOT NULL,
    reason bytewise NOT NULL DEFAULT ''
);
CREATE INDEX files_by_source ON files (source);

CREATE TABLE memories (
    "row" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytewise NOT NULL UNIQUE,
    folded bytewise NOT NULL,
    name bytewise NOT NULL,
    source bytewise NOT NULL,
    path bytewise NOT NULL,
    title bytewise NOT NULL,
    type bytewise NOT NULL,
    tier bytewise NOT NULL,
    artifact bytewise NOT NULL,
    triggers bytewise NOT NULL,
    topics bytewise NOT NULL,
    questions bytewise NOT NULL DEFAULT '',
    origin bytewise NOT NULL,
    trust bytewise NOT NULL,
    session bytewise NOT NULL,
    quality double precision,
    flags bytewise NOT NULL,
    created bytewise NOT NULL,
    updated bytewise NOT NULL,
    content_hash bytewise NOT NULL,
    text_hash bytewise NOT NULL,
    tokens bigint NOT NULL,
    label_tokens bigint NOT NULL,
    length integer NOT NULL,
    writable boolean NOT NULL,
    body bytewise NOT NULL
);
CREATE INDEX memories_by_folded ON memories (folded);
CREATE INDEX memories_by_name ON memories (name);
CREATE INDEX memories_by_path ON memories (path);
CREATE INDEX memories_by_text_hash ON memories (text_hash);
CREATE INDEX memories_by_source ON memories (source);

-- The texts that can be found, numbered as SQLite's full text numbers them, and how many words each has.
CREATE TABLE texts (
    part bigint PRIMARY KEY,
    length integer NOT NULL
);
-- The words of the texts, and how often each stands in one, times the weight of its field. tsvector can do neither: its
-- ranks know nothing of how rare a word is, and it holds no text of more than a megabyte.
CREATE TABLE words (
    term bytewise NOT NULL,
    part bigint NOT NULL REFERENCES texts ON DELETE CASCADE,
    weight real NOT NULL,
    places integer[] NOT NULL, -- of the word among all words of the text, for words that stand together
    PRIMARY KEY (term, part)
);
CREATE INDEX words_by_part ON words (part);

CREATE TABLE phrases (
    head bytewise NOT NULL,
    memory bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    phrase bytewise NOT NULL,
    is_title boolean NOT NULL,
    PRIMARY KEY (head, memory, phrase)
);
CREATE INDEX phrases_by_memory ON phrases (memory);

CREATE TABLE sketches (
    hash bigint NOT NULL,
    memory bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    PRIMARY KEY (hash, memory)
);
CREATE INDEX sketches_by_memory ON sketches (memory);

CREATE TABLE topics (
    topic bytewise NOT NULL,
    memory bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    PRIMARY KEY (topic, memory)
);
CREATE INDEX topics_by_memory ON topics (memory);

CREATE TABLE edges (
    source bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    reference bytewise NOT NULL,
    relation bytewise NOT NULL,
    kind bytewise NOT NULL,
    strength double precision NOT NULL,
    evidence bytewise NOT NULL,
    PRIMARY KEY (source, reference, relation)
);
CREATE INDEX edges_by_reference ON edges (reference);

CREATE TABLE chunks (
    "row" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    ordinal integer NOT NULL,
    anchor bytewise NOT NULL,
    heading bytewise NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    context bytewise NOT NULL,
    key bytewise NOT NULL,
    at bytewise NOT NULL DEFAULT '',
    trust bytewise NOT NULL DEFAULT ''
);
CREATE INDEX chunks_by_memory ON chunks (memory, ordinal);
CREATE INDEX chunks_by_key ON chunks (key);

-- The index over the vectors of a model has the model's dimension, so it is made when the model has many.
CREATE TABLE vectors (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model bytewise NOT NULL,
    memory bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    ordinal integer NOT NULL,
    key bytewise NOT NULL,
    vector public.halfvec NOT NULL
);
CREATE UNIQUE INDEX vectors_by_chunk ON vectors (memory, ordinal, model);
CREATE INDEX vectors_by_key ON vectors (key);
CREATE INDEX vectors_by_model ON vectors (model, seq);

CREATE TABLE token_vectors (
    vector bigint PRIMARY KEY REFERENCES vectors ON DELETE CASCADE,
    packed bytea NOT NULL
);

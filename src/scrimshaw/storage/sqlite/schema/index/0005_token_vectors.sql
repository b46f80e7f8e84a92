-- A vector per token of a passage, packed by search/token_vectors.py; empty where the model gives none.
CREATE TABLE token_vectors (
    vector INTEGER PRIMARY KEY REFERENCES vectors (seq) ON DELETE CASCADE,
    packed BLOB NOT NULL
);
CREATE INDEX token_vectors_by_vector ON token_vectors (vector); -- counts them without reading their pages

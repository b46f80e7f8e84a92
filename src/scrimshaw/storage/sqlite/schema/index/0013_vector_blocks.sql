-- Numbers, memories and ordinals of 4,096 vectors each, and the signs of their numbers (storage/sqlite/vectors.py).
-- They are derived from `vectors`, and may name rows that were removed since.
CREATE TABLE vector_blocks (
    model TEXT NOT NULL,
    last INTEGER NOT NULL, -- the highest `seq`
    rows BLOB NOT NULL,
    signs BLOB NOT NULL,
    PRIMARY KEY (model, last)
);

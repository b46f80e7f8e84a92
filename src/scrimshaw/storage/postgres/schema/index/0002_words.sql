-- The index of words has all that ranking needs, so that the table itself is not read for it.
ALTER TABLE words ADD COLUMN length integer NOT NULL DEFAULT 0;
UPDATE words SET length = t.length FROM texts t WHERE t.part = words.part;
ALTER TABLE words DROP CONSTRAINT words_pkey;
CREATE UNIQUE INDEX words_by_term ON words (term, part) INCLUDE (length, weight);
-- Without it the server thinks that hardly any vector has the right number of numbers, and joins them one by one.
CREATE STATISTICS vectors_width ON (public.vector_dims(vector)) FROM vectors;
-- A walk follows relations that few edges have.
CREATE INDEX edges_by_relation ON edges (relation);

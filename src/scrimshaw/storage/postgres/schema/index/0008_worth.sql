-- Passages of sessions with a memory have a worth, so the record of each is read again; their vectors stay.
ALTER TABLE chunks ADD COLUMN worth double precision;
UPDATE files SET size = -1 WHERE source = 'record';

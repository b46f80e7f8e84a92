-- The questions that a file answers are chunks from now on: every file is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

-- Phrases are found by their longest word from now on, and no longer by their first: every file is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

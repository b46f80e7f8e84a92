-- What is private, and which marks of a merge count, is decided anew: every file is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '' AND source <> 'record';

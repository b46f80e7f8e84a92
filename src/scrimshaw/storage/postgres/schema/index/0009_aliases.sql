-- Aliases and the status lines of decision records are read from now on: every file is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

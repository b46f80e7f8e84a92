-- Documents of a piece of work are related by their names from now on: every file is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

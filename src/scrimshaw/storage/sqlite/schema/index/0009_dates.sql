-- Files that state no time are dated by their commits, their names or the disk: each is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

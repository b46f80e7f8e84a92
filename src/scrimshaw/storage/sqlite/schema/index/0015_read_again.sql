-- Records of sessions name the files that were edited, and a heading goes with the text below it: all is read again.
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

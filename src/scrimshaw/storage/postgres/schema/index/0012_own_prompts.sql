-- A passage has no other prompt before its own, and what was pasted is one by itself: records are read again.
UPDATE files SET size = -1 WHERE source = 'record';

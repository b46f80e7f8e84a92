-- The record of a session has the files it edited as topics, so each is read again; their vectors stay.
UPDATE files SET size = -1 WHERE source = 'record';

-- A record has the tokens of all that its session said: records are read again.
UPDATE files SET size = -1 WHERE source = 'record';

-- A person's trust comes from the ledger: every file is read again, and until then nothing is taken for a person's word.
UPDATE memories SET trust = 'file' WHERE trust = 'human';
UPDATE memories SET tier = 'important' WHERE tier = 'constitutional';
UPDATE files SET size = -1, content_hash = '' WHERE memory_id <> '';

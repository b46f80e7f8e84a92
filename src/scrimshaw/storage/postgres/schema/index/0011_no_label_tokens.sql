-- Nothing reads how long the labels of a memory are.
ALTER TABLE memories DROP COLUMN label_tokens;

-- The number of a full-text row says whose it is, so that a match needs no look at the chunks:
-- memories.row << 20 for the whole of a memory of several chunks, and 1 + chunks.ordinal more for a chunk.
INSERT INTO memory_text (memory_text) VALUES ('delete-all');
INSERT INTO memory_text (rowid, name, title, triggers, body)
SELECT (m.row << 20) + p.part,
    iif(m.source = 'record', '', m.id),
    iif(m.source = 'record', '', m.title),
    iif(m.source = 'record', '', m.triggers || m.topics),
    substr(m.body, p.first + 1, p.last - p.first)
FROM memories m JOIN (
    SELECT memory, 1 + ordinal AS part, first, last FROM chunks
    UNION ALL SELECT row, 0, 0, length FROM memories WHERE (SELECT count(*) FROM chunks WHERE memory = memories.row) <> 1
) p ON p.memory = m.row;

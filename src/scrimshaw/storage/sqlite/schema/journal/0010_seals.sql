-- A sum over the rows of every table, which each transaction keeps in step with what it changes: rows that something
-- else changed, took out or put in do not agree with it any more.
CREATE TABLE seals (name TEXT PRIMARY KEY, digest INTEGER NOT NULL) WITHOUT ROWID;

-- A row that is put in the place of another (INSERT OR REPLACE) fires no DELETE trigger. SQLite shows -1 for a number
-- that it has yet to give.
CREATE TRIGGER ledger_no_replace BEFORE INSERT ON ledger
WHEN NEW.seq <> -1 AND NEW.seq <= (SELECT max(seq) FROM ledger)
BEGIN SELECT raise(ABORT, 'the ledger is append-only'); END;

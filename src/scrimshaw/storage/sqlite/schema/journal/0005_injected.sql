-- What was handed to the model of a session, summed up: how many texts on an occasion (the hook's event or the tool that
-- answered), their tokens, and the memories and items in them; `at` is when the last one was.
CREATE TABLE injected (
    session TEXT NOT NULL REFERENCES sessions,
    occasion TEXT NOT NULL,
    times INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (session, occasion)
) WITHOUT ROWID;

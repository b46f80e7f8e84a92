-- A path may be the same on several machines, so a checkout has an id of its own; empty until it is next opened.
ALTER TABLE place ADD COLUMN checkout bytewise NOT NULL DEFAULT '';

-- The folder whose files this vault is of. Another checkout would make the index follow its own files.
CREATE TABLE place (folder bytewise NOT NULL, only_one boolean NOT NULL DEFAULT true UNIQUE CHECK (only_one));

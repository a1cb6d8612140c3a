-- The tables of an SQLite output. Columns of `items` are added as fields are met.

CREATE TABLE items (
    _id INTEGER PRIMARY KEY,    -- order of arrival
    _key TEXT NOT NULL UNIQUE
);

CREATE TABLE _shoal_columns (
    position INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    field TEXT                  -- null: the column for the rest
);

CREATE TABLE _shoal_output (    -- one row, which tells this database from another one under the same name
    id BLOB NOT NULL
);
INSERT INTO _shoal_output VALUES (randomblob(16));

CREATE TABLE _shoal_flushes (   -- the last few
    number INTEGER PRIMARY KEY,
    last_id INTEGER NOT NULL    -- of the items, before it
);
INSERT INTO _shoal_flushes VALUES (0, 0);

CREATE TABLE _shoal_undo (      -- the rows that they replaced, as they were
    flush INTEGER NOT NULL,
    _id INTEGER NOT NULL,
    item BLOB NOT NULL,
    PRIMARY KEY (flush, _id)
) WITHOUT ROWID;

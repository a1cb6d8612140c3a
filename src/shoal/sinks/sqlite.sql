-- The tables of an SQLite output. The sink adds a column to `items` for each new field.

CREATE TABLE items (
    _id INTEGER PRIMARY KEY,    -- order of arrival
    _key TEXT NOT NULL UNIQUE
);

CREATE TABLE _shoal_columns (
    position INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    field TEXT                  -- null: the column for all other fields
);

CREATE TABLE _shoal_output (    -- one row: distinguishes this database from another one under the same name
    id BLOB NOT NULL
);
INSERT INTO _shoal_output VALUES (randomblob(16));

CREATE TABLE _shoal_flushes (   -- the last few
    number INTEGER PRIMARY KEY,
    last_id INTEGER NOT NULL    -- largest _id before the flush
);
INSERT INTO _shoal_flushes VALUES (0, 0);

CREATE TABLE _shoal_undo (      -- the rows that these flushes replaced
    flush INTEGER NOT NULL,
    _id INTEGER NOT NULL,
    item BLOB NOT NULL,
    PRIMARY KEY (flush, _id)
) WITHOUT ROWID;

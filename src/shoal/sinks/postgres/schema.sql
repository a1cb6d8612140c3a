-- The tables of the sink beside the tables of items; created once in each schema that has one.

CREATE TABLE IF NOT EXISTS {schema}_shoal_outputs (
    output text PRIMARY KEY,    -- the table of items
    id bytea NOT NULL,          -- distinguishes it from another one under the same name
    flushes bigint NOT NULL DEFAULT 0,
    items bigint NOT NULL DEFAULT 0,    -- written, including those that replaced another one or were rejected
    rows bigint NOT NULL DEFAULT 0,     -- in the table of items
    attempt bytea,              -- random id of the last flush: a sink that lost the answer knows it was committed
    note bytea                  -- position of the fleet's output writer
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_flushes ( -- the last few
    output text NOT NULL,
    number bigint NOT NULL,
    last_id bigint NOT NULL,    -- largest _id before the flush
    PRIMARY KEY (output, number)
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_undo (    -- the rows that these flushes replaced
    output text NOT NULL,
    flush bigint NOT NULL,
    _id bigint NOT NULL,
    item jsonb NOT NULL,
    PRIMARY KEY (output, flush, _id)
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_rejected ( -- items that PostgreSQL does not accept
    output text NOT NULL,
    flush bigint NOT NULL,
    _key text NOT NULL,
    reason text NOT NULL,
    beginning bytea NOT NULL,   -- first bytes of the JSON of the item
    rejected_at timestamptz NOT NULL DEFAULT now()
);

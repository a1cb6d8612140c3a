-- What Shoal keeps beside the tables of items; made once in each schema that holds one.

CREATE TABLE IF NOT EXISTS {schema}_shoal_outputs (
    output text PRIMARY KEY,    -- the table of items
    id bytea NOT NULL,          -- tells it from another one under the same name
    flushes bigint NOT NULL DEFAULT 0,
    items bigint NOT NULL DEFAULT 0,    -- taken in, those included that replaced another one or were rejected
    rows bigint NOT NULL DEFAULT 0,     -- that they came to
    attempt bytea,              -- of the last flush: whoever lost the answer finds out that it was heard
    note bytea                  -- how far the writer had read, if the output is what remembers it
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_flushes ( -- the last few
    output text NOT NULL,
    number bigint NOT NULL,
    last_id bigint NOT NULL,    -- of the items, before it
    PRIMARY KEY (output, number)
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_undo (    -- the rows that they replaced, as they were
    output text NOT NULL,
    flush bigint NOT NULL,
    _id bigint NOT NULL,
    item jsonb NOT NULL,
    PRIMARY KEY (output, flush, _id)
);

CREATE TABLE IF NOT EXISTS {schema}_shoal_rejected ( -- items that PostgreSQL does not take
    output text NOT NULL,
    flush bigint NOT NULL,
    _key text NOT NULL,
    reason text NOT NULL,
    beginning bytea NOT NULL,   -- of the item's JSON
    rejected_at timestamptz NOT NULL DEFAULT now()
);

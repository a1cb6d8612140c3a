-- Version 1. One row per request that has not ended, in the order of acceptance; append-only logs of what was seen
-- and of what has ended. Nothing is indexed by fingerprint: a random key dirties a block per row, and the owner has
-- all fingerprints in RAM anyway.
--
-- Instants are epoch seconds. Lists of integers in one BLOB are little-endian, 8 bytes each.
-- Isolation: one writer (BEGIN IMMEDIATE); readers see one snapshot per transaction.

CREATE TABLE meta(
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL           -- 'life': number of times the store was opened; makes lease tokens unique
) WITHOUT ROWID;

CREATE TABLE crawl(
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,
  settings    TEXT NOT NULL,        -- JSON: pace, max_crashes, slowdown
  counts      TEXT NOT NULL,        -- JSON: requests by state; written by every transaction that changes them
  paused      INTEGER NOT NULL DEFAULT 0,
  dropped     INTEGER NOT NULL DEFAULT 0   -- only its validators are left
);

CREATE TABLE crawl_state(
  crawl INTEGER NOT NULL,
  key   TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY(crawl, key)
) WITHOUT ROWID;

CREATE TABLE host(                  -- what survives a restart; turns and requests in flight are in RAM only
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,
  interval    REAL,                 -- set by the operator, as are the next two; NULL: the crawls' pace
  burst       INTEGER,
  concurrency INTEGER,
  crawl_delay REAL NOT NULL DEFAULT 0,
  rest_until  REAL NOT NULL DEFAULT 0,
  slow        REAL NOT NULL DEFAULT 1,
  paused      INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE lane(
  id    INTEGER PRIMARY KEY,
  crawl INTEGER NOT NULL,
  host  INTEGER NOT NULL,
  pool  TEXT NOT NULL,
  UNIQUE(crawl, host, pool)
);

CREATE TABLE request(               -- waiting, delayed (due in the future) or leased (named in a lease)
  id       INTEGER PRIMARY KEY,     -- crawl << 40 | place in the order of acceptance
  lane     INTEGER NOT NULL,
  fp       INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,   -- ended ones; a lease that is out is not counted here yet
  crashes  INTEGER NOT NULL DEFAULT 0,
  rests    INTEGER NOT NULL DEFAULT 0,
  due      REAL,                    -- NULL: never delayed
  first_at REAL,                    -- when it was first leased; NULL: never, or the first lease is still out
  request  BLOB NOT NULL
);

CREATE TABLE spent(                 -- requests that have ended and whose rows are yet to be deleted, many at a time
  number INTEGER PRIMARY KEY,
  ids    BLOB NOT NULL
);

CREATE TABLE lease(                 -- one row per batch; rows left by a dead owner are charged as crashes
  token      INTEGER PRIMARY KEY,
  holder     TEXT NOT NULL,
  granted_at REAL NOT NULL,
  ids        BLOB NOT NULL          -- of the requests still held
);

CREATE TABLE parsing(               -- fetched, archived, not acknowledged
  id       INTEGER PRIMARY KEY,
  lane     INTEGER NOT NULL,
  fp       INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  crashes  INTEGER NOT NULL,
  first_at REAL NOT NULL,
  holder   TEXT NOT NULL,
  request  BLOB NOT NULL,
  page     BLOB NOT NULL,
  strikes  INTEGER NOT NULL,
  taken    INTEGER NOT NULL         -- 1: being parsed; if that process dies, it is a strike
);

CREATE TABLE ended(                 -- done, gone, filtered; append only
  number     INTEGER PRIMARY KEY,
  crawl      INTEGER NOT NULL,
  fp         INTEGER NOT NULL,
  state      TEXT NOT NULL,
  ended_at   REAL NOT NULL,
  status     INTEGER,
  rule       TEXT,
  reason     TEXT,
  segment    TEXT,
  offset     INTEGER,
  length     INTEGER,
  fetched_at REAL,
  items      INTEGER,
  links      INTEGER,
  etag       TEXT,
  modified   TEXT,
  digest     TEXT,
  elapsed    REAL,                  -- seconds that the attempt took
  wire_bytes INTEGER,
  found_on   INTEGER                -- for gone and filtered; for a page, the archive has it
);

CREATE TABLE attempt(               -- those without a page; append only
  number  INTEGER PRIMARY KEY,
  crawl   INTEGER NOT NULL,
  fp      INTEGER NOT NULL,
  at      REAL NOT NULL,            -- when it ended
  elapsed REAL NOT NULL,
  status  INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  reason  TEXT NOT NULL
);

CREATE TABLE dead(                  -- dead letters, with everything that a replay needs
  id       INTEGER PRIMARY KEY,
  lane     INTEGER NOT NULL,
  fp       INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  reason   TEXT NOT NULL,           -- one line; below it, the traceback of a spider that raised
  status   INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  crashes  INTEGER NOT NULL,
  first_at REAL NOT NULL,
  died_at  REAL NOT NULL,
  holder   TEXT NOT NULL,
  request  BLOB NOT NULL,
  page     BLOB
);

CREATE TABLE seen(                  -- append only; every accepted fingerprint once
  number INTEGER PRIMARY KEY,
  crawl  INTEGER NOT NULL,
  fps    BLOB NOT NULL
);

CREATE TABLE validator(             -- pages of the previous generation, for conditional requests
  crawl    INTEGER NOT NULL,
  fp       INTEGER NOT NULL,
  etag     TEXT NOT NULL,
  modified TEXT NOT NULL,
  digest   TEXT NOT NULL,
  segment  TEXT NOT NULL,
  offset   INTEGER NOT NULL,
  length   INTEGER NOT NULL,
  PRIMARY KEY(crawl, fp)
) WITHOUT ROWID;

CREATE TABLE checkpoint(
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE robots(
  host    TEXT PRIMARY KEY,
  expires REAL NOT NULL,
  status  INTEGER NOT NULL,
  body    BLOB NOT NULL
);
CREATE INDEX robots_by_expiry ON robots(expires);

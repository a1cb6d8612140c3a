-- Version 4. What each page of an earlier generation was, for conditional requests and comparisons.

DROP TABLE validator;

ALTER TABLE ended ADD COLUMN history BLOB;   -- model/generations/page_history.py; NULL: nothing is kept for the next generation
ALTER TABLE crawl ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;

CREATE TABLE generation(            -- those that have ended
  crawl    INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  began    REAL NOT NULL,
  finished INTEGER NOT NULL,
  PRIMARY KEY(crawl, number)
) WITHOUT ROWID;

CREATE TABLE page_history(          -- of these generations; written once, in the order of its key
  crawl      INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  fp         INTEGER NOT NULL,
  history    BLOB NOT NULL,
  PRIMARY KEY(crawl, generation, fp)
) WITHOUT ROWID;

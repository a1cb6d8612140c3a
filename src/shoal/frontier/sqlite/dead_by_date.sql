-- Version 5. The dead letters of a crawl by date, so that a page of them is read without sorting all.

CREATE INDEX dead_by_date ON dead(id >> 40, died_at, id);   -- the first column is the crawl

-- Version 2. Which version of the spider parsed a page: a number that the crawl's values explain.

ALTER TABLE ended ADD COLUMN version INTEGER;   -- NULL: not parsed, or before this was recorded

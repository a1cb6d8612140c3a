-- Version 6. Requests that are held back, so that a release can queue them again.

ALTER TABLE ended ADD COLUMN request BLOB;   -- of those filtered by the rule `held`, and of no other

-- Version 3. The URLs of requests that ended without a page, for a list of them; for a page, the archive has it.

ALTER TABLE ended ADD COLUMN url TEXT;   -- NULL: a page, or before this was recorded

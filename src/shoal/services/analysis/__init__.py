"""Questions to the fetch log: SQL, and reports. Reads only, and works while a crawl runs."""

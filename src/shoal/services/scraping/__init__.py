"""One page on request, for the HTTP API: fetched and parsed like a page of a crawl, and kept nowhere."""

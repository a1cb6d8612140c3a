"""The demo: a small shop, the server it runs on, and a crawl of it."""

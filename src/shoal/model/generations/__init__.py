"""What the generations of a crawl keep of pages and links."""

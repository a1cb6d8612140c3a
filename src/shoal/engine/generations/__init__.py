"""What one generation of a crawl takes over from the one before."""

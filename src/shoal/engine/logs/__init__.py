"""What a running crawl tells people and collectors: a line per request, and spans for tracing."""

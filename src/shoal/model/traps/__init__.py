"""How pages and URLs that are almost the same are recognised."""

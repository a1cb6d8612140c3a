"""A crawl in a folder, from its command to its end. Above `engine.session`, which it opens."""

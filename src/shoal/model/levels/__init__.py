"""Levels of fetching: which there are, and what is learned about the level that a part of a site needs."""

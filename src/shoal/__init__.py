"""Shoal: a web scraping fleet in one Python package."""

__version__ = "0.1.0"

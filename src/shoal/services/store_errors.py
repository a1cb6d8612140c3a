"""Errors of stores that callers tell apart: another process owns it, or it has no such crawl."""

from shoal.stores.contract.store import StoreBusy, UnknownCrawl

__all__ = ["StoreBusy", "UnknownCrawl"]

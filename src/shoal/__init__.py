"""Shoal: a web scraping fleet in one Python package."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shoal.model.request import Request as Request
    from shoal.spider.failed import FailedRequest as FailedRequest
    from shoal.spider.html.selector import Selector as Selector
    from shoal.spider.html.selector import SelectorList as SelectorList
    from shoal.spider.page import Page as Page
    from shoal.spider.spider import Spider as Spider

__all__ = ["FailedRequest", "Page", "Request", "Selector", "SelectorList", "Spider", "__version__"]

_HOMES = {
    "FailedRequest": "shoal.spider.failed",
    "Page": "shoal.spider.page",
    "Request": "shoal.model.request",
    "Selector": "shoal.spider.html.selector",
    "SelectorList": "shoal.spider.html.selector",
    "Spider": "shoal.spider.spider",
}


def __getattr__(name: str) -> object:
    # On demand: `import shoal` is also how every part of Shoal begins, and most need none of these.
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

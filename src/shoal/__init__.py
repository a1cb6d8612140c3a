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

_MODULES = {
    "FailedRequest": "shoal.spider.failed",
    "Page": "shoal.spider.page",
    "Request": "shoal.model.request",
    "Selector": "shoal.spider.html.selector",
    "SelectorList": "shoal.spider.html.selector",
    "Spider": "shoal.spider.spider",
}


def __getattr__(name: str) -> object:
    # Imported on first use: every module of Shoal imports this package, and most need none of these.
    if name not in _MODULES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

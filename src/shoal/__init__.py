"""Shoal: a web scraping fleet in one Python package."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shoal.model import errors as errors
    from shoal.model.rendering import Click as Click
    from shoal.model.rendering import Fill as Fill
    from shoal.model.rendering import Rendering as Rendering
    from shoal.model.rendering import ScrollToEnd as ScrollToEnd
    from shoal.model.rendering import WaitFor as WaitFor
    from shoal.model.request import Request as Request
    from shoal.python_api.client import ApiClient as Client
    from shoal.python_api.result import Result as Result
    from shoal.python_api.run import arun as arun
    from shoal.python_api.run import run as run
    from shoal.python_api.run import stream as stream
    from shoal.python_api.stream import Stream as Stream
    from shoal.spider.failed import FailedRequest as FailedRequest
    from shoal.spider.html.form import Form as Form
    from shoal.spider.html.selector import Selector as Selector
    from shoal.spider.html.selector import SelectorList as SelectorList
    from shoal.spider.item_hooks import Drop as Drop
    from shoal.spider.page import Page as Page
    from shoal.spider.secret import secret as secret
    from shoal.spider.spider import Spider as Spider

__all__ = [
    "Click",
    "Client",
    "Drop",
    "FailedRequest",
    "Fill",
    "Form",
    "Page",
    "Rendering",
    "Request",
    "Result",
    "ScrollToEnd",
    "Selector",
    "SelectorList",
    "Spider",
    "Stream",
    "WaitFor",
    "__version__",
    "arun",
    "errors",
    "run",
    "secret",
    "stream",
]

_MODULES = {
    "Click": "shoal.model.rendering",
    "Client": "shoal.python_api.client",
    "Drop": "shoal.spider.item_hooks",
    "FailedRequest": "shoal.spider.failed",
    "Fill": "shoal.model.rendering",
    "Form": "shoal.spider.html.form",
    "Page": "shoal.spider.page",
    "Rendering": "shoal.model.rendering",
    "Request": "shoal.model.request",
    "Result": "shoal.python_api.result",
    "ScrollToEnd": "shoal.model.rendering",
    "Selector": "shoal.spider.html.selector",
    "SelectorList": "shoal.spider.html.selector",
    "Spider": "shoal.spider.spider",
    "Stream": "shoal.python_api.stream",
    "WaitFor": "shoal.model.rendering",
    "arun": "shoal.python_api.run",
    "errors": "shoal.model.errors",
    "run": "shoal.python_api.run",
    "secret": "shoal.spider.secret",
    "stream": "shoal.python_api.run",
}


def __getattr__(name: str) -> object:
    # Imported on first use: every module of Shoal imports this package, and most need none of these.
    if name not in _MODULES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_MODULES[name])
    return getattr(module, name, module)  # `errors` is a module


def __dir__() -> list[str]:
    return sorted(__all__)

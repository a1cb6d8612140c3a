"""Record which CSS and XPath queries a handler makes and how much they match, for `shoal try`.

While pages are watched, the methods that query are replaced by ones that record. A crawl has the plain ones
and pays nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.spider.html.lexbor import LexborDocument, LexborElement
from shoal.spider.html.lxml_element import LxmlElement
from shoal.spider.html.selector import SelectorList
from shoal.spider.page import Page

_METHODS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (Page, ("css", "xpath", "links")),
    (SelectorList, ("css", "xpath")),
    (LexborDocument, ("css", "xpath")),
    (LexborElement, ("css", "xpath")),
    (LxmlElement, ("css", "xpath")),
)


@contextmanager
def watch_queries() -> Iterator[dict[str, int]]:
    """Yield a dict that receives each query made while the block runs, with the number of its matches."""
    matches: dict[str, int] = {}
    inside = False  # a query answers itself by others

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def query(self: object, *arguments: Any, **options: Any) -> Any:
            nonlocal inside
            text = arguments[0] if arguments else options.get("selector", options.get("query"))
            if inside or not isinstance(text, str):
                return method(self, *arguments, **options)
            inside = True
            try:
                found = method(self, *arguments, **options)
                number = len(found.urls) if name == "links" else len(found)
            finally:
                inside = False
            shown = f"{name}({text!r})"
            matches[shown] = matches.get(shown, 0) + number
            return found

        return query

    plain = [(owner, name, vars(owner)[name]) for owner, names in _METHODS for name in names]
    for owner, name, method in plain:
        setattr(owner, name, watched(name, method))
    try:
        yield matches
    finally:
        for owner, name, method in plain:
            setattr(owner, name, method)

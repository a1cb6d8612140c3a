"""The address that a page calls its own: `<link rel=canonical>`, or a `Link` header (RFC 6596)."""

import re
from collections.abc import Callable, Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser

from shoal.model.url import join

_WEB = ("http://", "https://")
_TARGETS = re.compile(r"<([^<>]*)>([^<]*)").findall
_REL = re.compile(r""";\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))""", re.IGNORECASE).search


def canonical_link(tree: LexborHTMLParser, resolve: Callable[[str], str | None]) -> str | None:
    """Give the first canonical address in the markup that leads to the web."""
    hrefs = (
        (node.attributes.get("href") or "").strip()
        for node in tree.tags("link")
        if "canonical" in (node.attributes.get("rel") or "").lower().split()
    )
    return _first(hrefs, resolve)


def canonical_header(headers: Iterable[tuple[str, str]], url: str) -> str | None:
    """Give the first canonical address in `Link` headers; they are relative to the page, not to its base."""
    return _first(_canonical_targets(headers), lambda target: join(url, target))


def _canonical_targets(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in headers:
        if name == "link":
            for target, parameters in _TARGETS(value):
                rel = _REL(parameters)
                if rel and "canonical" in (rel[1] or rel[2]).lower().split():
                    yield target.strip()


def _first(hrefs: Iterable[str], resolve: Callable[[str], str | None]) -> str | None:
    found = (resolve(href) for href in hrefs)
    return next((url for url in found if url and url.startswith(_WEB)), None)

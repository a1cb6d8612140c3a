"""The canonical URL that a page declares: `<link rel=canonical>`, or a `Link` header (RFC 6596)."""

import re
from collections.abc import Callable, Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser

from shoal.model.url import join

_WEB = ("http://", "https://")
_TARGETS = re.compile(r"<([^<>]*+)>([^<]*+)").findall
_REL = re.compile(r""";\s*+rel\s*+=\s*+(?:"([^"]*+)"|([^\s;,"]++))""", re.IGNORECASE).search


def canonical_link(tree: LexborHTMLParser, resolve: Callable[[str], str | None]) -> str | None:
    """Return the first canonical http(s) URL in the markup, or None."""
    hrefs = (
        (node.attributes.get("href") or "").strip()
        for node in tree.tags("link")
        if "canonical" in (node.attributes.get("rel") or "").lower().split()
    )
    return _first(hrefs, resolve)


def canonical_header(headers: Iterable[tuple[str, str]], url: str) -> str | None:
    """Return the first canonical http(s) URL in `Link` headers, or None.

    It is relative to the page's URL, not to `<base href>`.
    """
    if not any(name == "link" for name, _ in headers):
        return None
    return _first(_canonical_targets(headers), lambda target: join(url, target))


def _canonical_targets(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in headers:
        if name == "link":
            for target, parameters in _TARGETS(value):
                rel = _REL(parameters)
                if rel and "canonical" in (rel[1] or rel[2] or "").lower().split():
                    yield target.strip()


def _first(hrefs: Iterable[str], resolve: Callable[[str], str | None]) -> str | None:
    found = (resolve(href) for href in hrefs)
    return next((url for url in found if url and url.startswith(_WEB)), None)

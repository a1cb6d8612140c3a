"""Links by the standard library and lxml alone: a second opinion that shares no line with Shoal's own."""

import re
from collections.abc import Iterator
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from lxml import etree
from w3lib.encoding import html_to_unicode

_PARSER = etree.HTMLParser(encoding="utf-8", huge_tree=True)
_SAFE = "!$&()*+,;=:@/?%[]|~"


def links_by_lxml(body: bytes, url: str) -> set[str]:
    """Return the URLs that a page links to, without fragments."""
    text = html_to_unicode("text/html", body)[1]
    root = etree.fromstring(text.encode("utf-8", "replace") or b"<html/>", _PARSER)
    if any(
        _attribute(meta, "name") == "robots" and "nofollow" in _attribute(meta, "content")
        for meta in root.iter("meta")
    ):
        return set()
    bases = [_attribute(element, "href") for element in root.iter("base")]
    base = urljoin(url, bases[0]) if bases else url
    found = (_resolved(base, href) for href in _hrefs(root))
    return {link for link in found if link.startswith(("http://", "https://"))}


def _hrefs(root: etree._Element) -> Iterator[str]:
    for element in root.iter("a", "area", "link"):
        rel = _attribute(element, "rel").lower().split()
        followed = bool({"next", "canonical"} & set(rel)) if element.tag == "link" else "nofollow" not in rel
        if followed and "href" in element.attrib:
            yield _attribute(element, "href")
    for meta in root.iter("meta"):
        if _attribute(meta, "http-equiv").lower() == "refresh":
            yield from re.findall(r"(?i)url\s*=\s*['\"]?([^'\"]+)", _attribute(meta, "content"))


def _attribute(element: etree._Element, name: str) -> str:
    return str(element.get(name, ""))


def _resolved(base: str, href: str) -> str:
    href = re.sub(r"[\t\r\n]", "", href.strip())
    try:
        url = urldefrag(urljoin(base, href)).url
        parts = urlsplit(url)
    except ValueError:
        return ""
    host = parts.netloc.lower().rpartition("@")[2]
    host = host.removesuffix(":80" if parts.scheme == "http" else ":443").removesuffix(":")
    if re.search(r"[<>^|%\s]", host):
        return ""
    path = quote(parts.path, safe=_SAFE + "'") or "/"
    query = "?" + quote(parts.query, safe=_SAFE) if "?" in url else ""  # an empty one is one, too
    return f"{parts.scheme}://{host}{path}{query}"

"""A page as it was archived, without anything that could act: for people to look at.

Safety does not rest on the cleaning here: the page is shown in a frame without scripts and without an origin.
Cleaning keeps a browser from asking for images, and from complaints about styles that the frame refuses.
"""

import asyncio

import lxml.etree
import lxml.html

from shoal.archive.reader import StoredPage
from shoal.model.api.live import ArchivedView
from shoal.model.errors import Misconfigured
from shoal.model.page import PageRef
from shoal.model.printable import printable
from shoal.stores.contract.store import require_crawl
from shoal.stores.open import open_store

MAX_BYTES = 2 << 20  # of a body that is shown
MAX_TREE_BYTES = 1 << 20  # of a body that is shown as a page
MAX_STORED_BYTES = 64 << 20  # of a page in its segment: a client names the length, and so much is read
_DROPPED = frozenset(
    {
        *(
            "script",
            "style",
            "link",
            "meta",
            "base",
            "iframe",
            "frame",
            "frameset",
            "object",
            "embed",
            "applet",
        ),
        *("svg", "math", "template", "noscript", "audio", "video", "source", "track", "portal", "canvas"),
        "dialog",
    }
)
_KEPT_ATTRIBUTES = frozenset(
    {"alt", "title", "colspan", "rowspan", "lang", "dir", "start", "span", "headers"}
)


async def read_archived(dsn: str, crawl: str, ref: PageRef) -> ArchivedView:
    """Return an archived page; raise `Rejected` if the archive does not have it."""
    stored = await _read(dsn, crawl, ref)
    kind = stored.header("content-type")
    body = stored.body[:MAX_BYTES]
    text = decoded(body, kind)
    is_html = "html" in kind.lower() or text.lstrip()[:100].lower().startswith(("<!doctype html", "<html"))
    return ArchivedView(
        crawl=crawl,
        url=stored.url,
        status=stored.status,
        fetched_at=stored.fetched_at,
        headers=[(name, printable(value, limit=2000)) for name, value in stored.headers],
        content_type=kind,
        body_bytes=len(stored.body),
        text=text,
        inert=await asyncio.to_thread(inert_html, text[:MAX_TREE_BYTES]) if is_html else "",
        cut=len(stored.body) > MAX_BYTES,
    )


async def archived_body(dsn: str, crawl: str, ref: PageRef) -> tuple[bytes, str]:
    """Return the body of an archived page, decoded, and its URL."""
    stored = await _read(dsn, crawl, ref)
    return stored.body, stored.url


async def _read(dsn: str, crawl: str, ref: PageRef) -> StoredPage:
    async with open_store(dsn) as store:
        require_crawl(crawl, await store.crawls.names())
        pages = await store.archive_of(crawl)
        return await asyncio.to_thread(pages.archive.read, ref)


def decoded(body: bytes, content_type: str) -> str:
    """Return a body as text, by the charset that its site names if that is one of texts, else as UTF-8."""
    charset = content_type.lower().partition("charset=")[2].split(";")[0].strip(" \"'")
    try:
        return body.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # no such codec, or one of names (idna), which cannot replace
        return body.decode("utf-8", "replace")


def inert_html(text: str) -> str:
    """Return markup with text and structure alone; an image becomes its description."""
    try:
        tree = lxml.html.document_fromstring(text.replace("\0", ""))
    except (lxml.etree.ParserError, ValueError):
        return ""
    for element in list(tree.iter()):
        tag = element.tag
        if not isinstance(tag, str) or tag.lower() in _DROPPED or not tag.isalnum():
            if isinstance(element, lxml.html.HtmlMixin) and element.getparent() is not None:
                element.drop_tree()
            continue
        for name in list(element.attrib):
            if name.lower() not in _KEPT_ATTRIBUTES:
                del element.attrib[name]
        if tag.lower() == "img":
            element.tag, element.text = "span", f"[{element.attrib.get('alt') or 'image'}]"
        elif tag.lower() in ("a", "form", "button", "input", "select", "textarea", "body"):
            element.tag = {"a": "u", "body": "body"}.get(tag.lower(), "span")
    return str(lxml.html.tostring(tree, encoding="unicode"))


def page_ref(segment: str, offset: int, length: int) -> PageRef:
    """Return a reference that a client has sent; raise `Misconfigured` if it cannot be one."""
    if offset < 0 or not 0 < length <= MAX_STORED_BYTES:
        raise Misconfigured("not a place in an archive")
    return PageRef(segment, offset, length)

"""Find empty shells: pages without content, which JavaScript fills in a browser.

A shell has scripts, hardly any visible text, hardly any links, no frame and no refresh; and it has a mount
point of a framework, a `noscript` text that asks for JavaScript, or nothing at all. One of these alone is
common on pages with content: the rule needs all parts.

One pass over the bytes that stops as soon as the page has content, without building a tree: this runs where
pages are fetched, before it is decided whether a page is parsed. Time is linear in the length of the body.
"""

import re
from dataclasses import dataclass

import msgspec

from shoal.model.page import Response

MAX_BODY_BYTES = 1 << 20  # a larger page is not looked at
MAX_TEXT = 200  # visible characters
MAX_LINKS = 5
NO_TEXT = 40  # characters that a page without a mount point may have
MANY_LINKS = 12  # in the source, scripts included; most pages have that many near their top

_HIDDEN = frozenset({b"script", b"style", b"noscript", b"template", b"svg", b"title", b"head"})
_END_TAGS = {name: re.compile(b"</" + name, re.IGNORECASE).search for name in _HIDDEN}
_FRAMES = frozenset({b"iframe", b"frame", b"frameset", b"object", b"embed"})
_CONTENT = frozenset({b"img", b"picture", b"video", b"audio", b"canvas", b"input", b"textarea", b"table"})
_MOUNT_ELEMENTS = frozenset({b"app-root", b"ui-view", b"astro-island"})

_tag = re.compile(rb"<(?:(!--)|/?([a-z][a-z0-9-]*))", re.IGNORECASE).match
_refresh = re.compile(rb"http-equiv\s*=\s*[\"']?\s*refresh", re.IGNORECASE).search
_mount_id = re.compile(
    rb"\sid\s*=\s*[\"']?("
    rb"root|app|main-app|my-app|q-app|svelte|mount|application|react-?(?:root|app|target)|app-?root|"
    rb"__next|__nuxt|___gatsby|__docusaurus|ember-?(?:app|application)?|vue-?app|spa-?root"
    rb")(?=[\"'\s/>])|\s(?:data-)?(?:ng-app|ng-view|ui-view|aurelia-app|reactroot)(?=[=\s/>])",
    re.IGNORECASE,
).search
_quotes = re.compile("[\"']").sub
_entity = re.compile(rb"&#?\w{1,10};").sub


class EmptyShell(msgspec.Struct, frozen=True):
    """A page whose content is made by JavaScript."""

    evidence: str  # what it was recognised by

    def __str__(self) -> str:
        return f"an empty page that JavaScript fills: {self.evidence}"


def find_empty_shell(response: Response) -> EmptyShell | None:
    """Return the shell that a response is; None: it has content, or is not a page for browsers."""
    if response.status != 200 or "html" not in response.header("content-type", "text/html").lower():
        return None
    shell = shell_in(response.body)
    if shell is not None and response.rendered is not None and _has_grown(response.wire, response.body):
        return None  # short, but its scripts have filled it
    return shell


def _has_grown(source: bytes, rendered: bytes) -> bool:
    before, after = (_scan(body, max(body.find(b"<body"), 0)) for body in (source, rendered))
    if before is None or after is None:
        return True
    return after.text > before.text or after.links > before.links or after.content > before.content


def shell_in(body: bytes) -> EmptyShell | None:
    """Return the shell that the source of a page is; None: it has content."""
    # Links first: most pages have many near their top, and a page without scripts is read to its end.
    if len(body) > MAX_BODY_BYTES or _has_many_links(body) or b"<script" not in body:
        return None
    start = max(body.find(b"<body"), 0)
    if _refresh(body[:start] or body):
        return None
    found = _scan(body, start)
    if found is None or (not found.scripts and body.find(b"<script", 0, start) < 0):
        return None
    size = f"{found.text} characters of text"
    if found.mount:
        return EmptyShell(f"{size}, and the mount point {found.mount}")
    if found.asks or b"javascript" in _noscripts(body[:start]):
        return EmptyShell(f"{size}, and a noscript text that asks for JavaScript")
    if found.text < NO_TEXT and not found.links and not found.content:
        return EmptyShell(f"{size}, and nothing but scripts")
    return None


@dataclass(slots=True)
class _Scan:
    text: int = 0
    links: int = 0
    scripts: int = 0
    content: bool = False  # an image, a field or a table
    asks: bool = False
    mount: str = ""


def _scan(body: bytes, at: int) -> _Scan | None:
    """Return what is visible; None as soon as that is more than a shell has."""
    found = _Scan()
    while True:
        begin = body.find(b"<", at)
        found.text += _characters(body[at:] if begin < 0 else body[at:begin])
        if found.text > MAX_TEXT or found.links > MAX_LINKS:
            return None
        if begin < 0:
            return found
        match = _tag(body, begin)
        if match is None:
            at = begin + 1
            continue
        if match[1]:
            at = _after(body, b"-->", begin + 4)
            continue
        name, closing = match[2].lower(), body[begin + 1] == 0x2F
        at = _after(body, b">", begin)
        if closing:
            continue
        if name in _FRAMES:
            return None
        found.links += name == b"a"
        found.content |= name in _CONTENT
        if name in _HIDDEN and body[at - 2 : at] != b"/>":
            end = _end_of(body, name, at)
            found.scripts += name == b"script"
            if name == b"noscript":
                found.asks |= b"javascript" in body[at:end].lower()
            at = end
        elif not found.mount:
            found.mount = _mount(body, name, begin, at)


def _mount(body: bytes, name: bytes, begin: int, end: int) -> str:
    if name in _MOUNT_ELEMENTS or (b"-" in name and body[end : end + 200].lstrip().startswith(b"</" + name)):
        return f"<{name.decode()}>"
    matched = _mount_id(body[begin:end]) if end - begin <= 1000 else None
    return "" if matched is None else _quotes("", matched[0].decode(errors="replace")).strip()


def _noscripts(head: bytes) -> bytes:
    """Return the text of the first noscript element of a head, in lower case."""
    begin = head.find(b"<noscript")
    return b"" if begin < 0 else head[begin : _end_of(head, b"noscript", begin)].lower()


def _end_of(body: bytes, name: bytes, at: int) -> int:
    """Return where the element's end tag begins; the end of the page if it has none."""
    end = _END_TAGS[name](body, at)
    return len(body) if end is None else end.start()


def _after(body: bytes, mark: bytes, at: int) -> int:
    end = body.find(mark, at)
    return len(body) if end < 0 else end + len(mark)


def _characters(text: bytes) -> int:
    """Return the number of visible characters, about."""
    words = text.split()
    if not words:
        return 0
    joined = b" ".join(words)
    if b"&" in joined:
        joined = _entity(b"x", joined)
    return len(joined) if joined.isascii() else len(joined.decode("utf-8", "replace"))


def _has_many_links(body: bytes) -> bool:
    return len(body.split(b"<a ", MANY_LINKS)) > MANY_LINKS

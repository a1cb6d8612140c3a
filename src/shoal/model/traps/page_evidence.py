"""What a page brings, as numbers that can be compared with those of earlier pages.

The text is what is outside tags: a trap serves one page under ever more addresses, and its links, forms and
images carry the next addresses, all in attributes. Scripts count as text: a page that is built from data in a
script is another page if the data differs. The outline is the text without digits and white space: a calendar
repeats its outlines, and so does a catalogue whose pages differ in their number only.

One page in `SAMPLE` is digested, of those that bring new links, and every page of a watched shape: 60 µs for
12 KB, of which a page in `SAMPLE` pays for the others.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated

import msgspec

SAMPLE = 8

_MAX_BYTES = 256 * 1024
_without_tags = re.compile(rb"<[^>]*>?").sub  # a tag without an end reaches to the end: linear time
_NO_OUTLINE = b"0123456789 \t\r\n"
_numbers = re.compile(r"[A-Za-z]*\d[A-Za-z0-9]*").findall

Digest = Annotated[int, msgspec.Meta(ge=0)]


class PageEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Digests of one page; 0: it has no such thing."""

    text: Digest = 0
    outline: Digest = 0
    items: Digest = 0  # without the URL of the page
    twin_of: Digest = 0  # the canonical URL, if that is the same page by its name
    about: Digest = 0  # the numbers of the URL that are in the text: what the page is about
    simhash: Digest | None = None  # of the visible text; 0: it is too short; None: not computed


def page_evidence(
    url: str, body: bytes, *, items: Iterable[bytes] = (), canonical: str = "", simhash: int | None = None
) -> PageEvidence:
    """Return the digests of a page and of its items, each one a JSON object."""
    text = _without_tags(b"", body[:_MAX_BYTES])
    if text.isspace():
        text = b""
    own = url.encode("utf-8", "replace")
    extracted = b"\n".join([item.replace(own, b"") for item in items])
    return PageEvidence(
        _digest(text),
        _digest(text.translate(None, _NO_OUTLINE)),
        _digest(extracted),
        _twin_of(url, canonical),
        _digest(_numbers_in(url, text)),
        simhash,
    )


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1 if text else 0


def _twin_of(url: str, canonical: str) -> int:
    """Return the digest of the canonical URL if the last segments of both paths are equal; 0: they differ.

    Many sites declare their home page, or the first page of a list, as canonical everywhere.
    """
    name, declared = _last_segment(url), _last_segment(canonical)
    return _digest(canonical.encode("utf-8", "replace")) if canonical and name and name == declared else 0


def _last_segment(url: str) -> str:
    return url.partition("?")[0].partition(";")[0].rpartition("/")[2]


def _numbers_in(url: str, text: bytes) -> bytes:
    """Return the numbers in the path and query that are in the text; ids of sessions are not."""
    path = url.split("/", 3)[-1]
    return b" ".join([number for found in _numbers(path) if (number := found.encode()) in text])

"""What a page brings, as numbers that can be compared with those of earlier pages.

The text is what is outside tags: a trap serves one page under ever more addresses, and its links, forms and
images carry the next addresses, all in attributes. Scripts count as text: a page that is built from data in a
script is another page if the data differs. The rest is the text without the numbers of the URL and those next
to them: a calendar repeats its rests, and so does a catalogue whose pages differ in their number only.

One page in `SAMPLE` is digested, of those that bring new links, and every page of a watched shape.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

from shoal.model.page import PageEvidence

SAMPLE = 8

_MAX_BYTES = 256 * 1024
_MAX_DIGITS = 9  # of a number that has neighbours
_MAX_PLACES = 8  # of a number that are looked at
_MAX_HEAD_BYTES = 16 * 1024
_title = re.compile(rb"<title[^>]*>([^<]*)", re.IGNORECASE).findall
_without_tags = re.compile(rb"<[^>]*>?").sub  # a tag without an end reaches to the end: linear time
_MAX_NUMBERS = 4  # of a URL
_numbers = re.compile(r"[A-Za-z]*\d[A-Za-z0-9]*").findall


def page_evidence(
    url: str, body: bytes, *, items: Iterable[bytes] = (), canonical: str = "", simhash: int | None = None
) -> PageEvidence:
    """Return the digests of a page and of its items, each one a JSON object."""
    text = _without_tags(b"", body[:_MAX_BYTES])
    if text.isspace():
        text = b""
    numbers = _numbers_in(url, text)
    own = url.encode("utf-8", "replace")
    extracted = b"\n".join([item.replace(own, b"") for item in items])
    return PageEvidence(
        _digest(text),
        _digest(_without(numbers, text)),
        _digest(text.translate(None, b"0123456789")),
        _digest(extracted),
        _twin_of(url, canonical),
        _digest(b" ".join(numbers)),
        _digest(b"".join(_title(body[:_MAX_HEAD_BYTES]))),
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


def _numbers_in(url: str, text: bytes) -> list[bytes]:
    """Return the numbers in the path and query that are in the text; ids of sessions are not."""
    found = _numbers(url.split("/", 3)[-1])[:_MAX_NUMBERS]
    return [number for one in found if _has_number(text, number := one.encode())]


def _without(numbers: Iterable[bytes], text: bytes) -> bytes:
    """Return a text without these numbers and their neighbours, which links to the next page have."""
    for number in numbers:
        text = text.replace(number, b"")
        if number.isdigit() and len(number) <= _MAX_DIGITS:
            for near in (int(number) - 1, int(number) + 1):
                text = text.replace(b"%d" % near, b"")
    return text


def _has_number(text: bytes, number: bytes) -> bool:
    """Return whether a number is in the text, and not only as a part of longer ones."""
    at = -1
    for _ in range(_MAX_PLACES):
        at = text.find(number, at + 1)
        if at < 0:
            return False
        if (
            not text[max(at - 1, 0) : at].isalnum()
            and not text[at + len(number) : at + len(number) + 1].isalnum()
        ):
            return True
    return False

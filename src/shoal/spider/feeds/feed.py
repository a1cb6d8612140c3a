"""Feeds: what RSS (0.9 to 2.0, RDF included) and Atom (0.3, 1.0) list, however broken.

Addresses are given as written, to be resolved against the feed's own; `xml:base` is not looked at. A cut feed
is good up to the cut. Pure; memory is bounded by the entries, and those are limited.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import itemgetter

from shoal.model.failure import Failure, FailureClass
from shoal.spider.feeds.xml_records import Field, Foreign, XmlRecord, records
from shoal.spider.feeds.xml_tokens import Hostile
from shoal.spider.text.dates import moment
from shoal.spider.text.decoding import decode

FEED_ROOTS = frozenset({"rss", "rdf", "feed", "channel"})
FEED_RECORDS = frozenset({"item", "entry"})
_PUBLISHED = ("pubdate", "published", "issued", "date", "created")
_UPDATED = ("updated", "modified")
FEED_FIELDS = frozenset({"title", "link", "guid", "id", *_PUBLISHED, *_UPDATED})
_HEADS = frozenset({"channel", "feed"})
_RECORDS = FEED_RECORDS | _HEADS
_ENTRIES = 10_000

_address = re.compile(r"https?://\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    link: str  # as written; empty: it has none
    title: str = ""
    id: str = ""
    published: datetime | None = None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    title: str = ""
    link: str = ""  # of the site that it belongs to
    entries: tuple[FeedEntry, ...] = ()
    beyond: int = 0  # entries that were too many
    truncated: bool = False  # it stops before its end
    failure: Failure | None = None  # why it could not be read


def feed(body: bytes, content_type: str = "") -> Feed:
    """Read a feed. Never raises."""
    entries: list[FeedEntry] = []
    beyond = 0
    head = XmlRecord("channel")
    complete = False
    try:
        for record in records([decode(body, content_type).text], FEED_ROOTS, _RECORDS, FEED_FIELDS):
            complete = record.complete
            if record.name in _HEADS:
                head = record
            elif record.name in FEED_RECORDS and len(entries) < _ENTRIES:
                entries.append(entry_of(record))
            elif record.name in FEED_RECORDS:
                beyond += 1
    except Foreign as foreign:
        return Feed(failure=Failure(FailureClass.PARSE_ERROR, f"not a feed: {foreign}"))
    except Hostile as hostile:
        return Feed(failure=Failure(FailureClass.BOMB, f"the feed is not read: {hostile}"))
    return Feed(_title(head), _link(head), tuple(entries), beyond, truncated=not complete)


def entry_of(record: XmlRecord) -> FeedEntry:
    """Read one `item` or `entry`."""
    return FeedEntry(
        link=_link(record),
        title=_title(record),
        id=next(_texts(record.fields, "guid", "id"), ""),
        published=_moment(record.fields, *_PUBLISHED),
        updated=_moment(record.fields, *_UPDATED),
    )


def _title(record: XmlRecord) -> str:
    titles = chain(_texts(record.own("title"), "title"), _texts(record.fields, "title"))
    return " ".join(next(titles, "").split())


def _link(record: XmlRecord) -> str:
    """Choose where an entry leads: RSS writes the address as text, Atom as an attribute among other links."""
    for field in record.own("link"):
        if field.text:
            return field.text
    alternates = [found for found in map(_alternate, record.fields) if found]
    if alternates:
        return max(alternates, key=itemgetter(0))[1]  # the first of the best
    for field in record.fields:
        permanent = field.attributes.get("ispermalink", "true").lower() != "false"
        if field.name in ("guid", "id") and permanent and _address.fullmatch(field.text):
            return field.text
    return ""


def _alternate(field: Field) -> tuple[bool, str] | None:
    if field.name != "link":
        return None
    attributes = field.attributes
    address = attributes.get("href", "").strip()
    if not address or attributes.get("rel", "alternate").lower() != "alternate":
        return None
    return "html" in attributes.get("type", "text/html").lower(), address


def _texts(fields: Iterable[Field], *names: str) -> Iterator[str]:
    """Walk the texts of the named fields, the names in order of preference."""
    known = list(fields)
    return (field.text for name in names for field in known if field.name == name and field.text)


def _moment(fields: Iterable[Field], *names: str) -> datetime | None:
    return next(filter(None, map(moment, _texts(fields, *names))), None)

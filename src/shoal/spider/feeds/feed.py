"""Read RSS (0.9 to 2.0, RDF included) and Atom (0.3, 1.0) feeds, also broken ones.

Links are returned as written, to be resolved against the feed's URL; `xml:base` is ignored. A truncated feed
is read up to where it ends. Pure; memory is bounded by the number of entries, which is limited.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import itemgetter

from shoal.model.failure import Failure, FailureClass
from shoal.spider.feeds.xml_records import UnexpectedDocument, XmlField, XmlRecord, read_records
from shoal.spider.feeds.xml_tokens import MaliciousXml
from shoal.spider.text.dates import parse_date
from shoal.spider.text.decoding import decode

FEED_ROOTS = frozenset({"rss", "rdf", "feed", "channel"})
FEED_RECORDS = frozenset({"item", "entry"})
_PUBLISHED = ("pubdate", "published", "issued", "date", "created")
_UPDATED = ("updated", "modified")
FEED_FIELDS = frozenset({"title", "link", "guid", "id", *_PUBLISHED, *_UPDATED})
_HEADS = frozenset({"channel", "feed"})
_RECORDS = FEED_RECORDS | _HEADS
_MAX_ENTRIES = 10_000

_address = re.compile(r"https?://\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    link: str  # as written; may be empty
    title: str = ""
    id: str = ""
    published: datetime | None = None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    title: str = ""
    link: str = ""  # URL of the site
    entries: tuple[FeedEntry, ...] = ()
    beyond: int = 0  # entries above the limit, not returned
    truncated: bool = False  # the document ends early
    failure: Failure | None = None  # why it could not be read


def read_feed(body: bytes, content_type: str = "") -> Feed:
    """Read a feed. Never raises."""
    entries: list[FeedEntry] = []
    beyond = 0
    head = XmlRecord("channel")
    complete = False
    try:
        for record in read_records([decode(body, content_type).text], FEED_ROOTS, _RECORDS, FEED_FIELDS):
            complete = record.complete
            if record.name in _HEADS:
                head = record
            elif record.name in FEED_RECORDS and len(entries) < _MAX_ENTRIES:
                entries.append(read_entry(record))
            elif record.name in FEED_RECORDS:
                beyond += 1
    except UnexpectedDocument as error:
        return Feed(failure=Failure(FailureClass.PARSE_ERROR, f"not a feed: {error}"))
    except MaliciousXml as error:
        return Feed(failure=Failure(FailureClass.BOMB, f"malicious feed: {error}"))
    return Feed(_title(head), _link(head), tuple(entries), beyond, truncated=not complete)


def read_entry(record: XmlRecord) -> FeedEntry:
    """Return the entry in an `item` or `entry` element."""
    return FeedEntry(
        link=_link(record),
        title=_title(record),
        id=next(_texts(record.fields, "guid", "id"), ""),
        published=_date(record.fields, *_PUBLISHED),
        updated=_date(record.fields, *_UPDATED),
    )


def _title(record: XmlRecord) -> str:
    titles = chain(_texts(record.own("title"), "title"), _texts(record.fields, "title"))
    return " ".join(next(titles, "").split())


def _link(record: XmlRecord) -> str:
    """Return the link of an entry: RSS has it as text, Atom as an attribute of one of its `link` elements."""
    for field in record.own("link"):
        if field.text:
            return field.text
    alternates = [found for found in map(_alternate, record.fields) if found]
    if alternates:
        return max(alternates, key=itemgetter(0))[1]  # HTML before others, then document order
    for field in record.fields:
        permanent = field.attributes.get("ispermalink", "true").lower() != "false"
        if field.name in ("guid", "id") and permanent and _address.fullmatch(field.text):
            return field.text
    return ""


def _alternate(field: XmlField) -> tuple[bool, str] | None:
    if field.name != "link":
        return None
    attributes = field.attributes
    address = attributes.get("href", "").strip()
    if not address or attributes.get("rel", "alternate").lower() != "alternate":
        return None
    return "html" in attributes.get("type", "text/html").lower(), address


def _texts(fields: Iterable[XmlField], *names: str) -> Iterator[str]:
    """Yield the texts of the named fields, in order of preference of the names."""
    known = list(fields)
    return (field.text for name in names for field in known if field.name == name and field.text)


def _date(fields: Iterable[XmlField], *names: str) -> datetime | None:
    return next(filter(None, map(parse_date, _texts(fields, *names))), None)

"""The archive: every fetched response at rest, in WARC 1.1 segments that any WARC tool can read.

Where. A crawl has one folder of segments, `<crawl>-YYYYMMDD-NNNNN.warc.gz`, whose names sort in the order
in which they were written. A segment ends when it is large enough or the (UTC) day changes. It has its
final name from its first byte: a reference is then final at once, and no rename has to be kept in step
with the store. Readers cope with a segment that is still growing. On an object store (`bucket.py`), where
nothing grows, every flush makes a segment; several machines can then read what one of them has fetched.

What. Each record is a gzip member of its own, so that a `PageRef` (segment, offset, length) finds a page
with one read. A page is a `response` record (status line, headers as received, body as sent by the server,
content encoding kept, chunking undone, Content-Length made true) and a `request` record beside it. A page
that has not changed is a `revisit` record that names the place of the body it repeats. Depth, route and data
of a page's request are in a header of its response record, because the store forgets requests that have
ended and handlers need them. Each segment opens with a `warcinfo` record that tells nothing about the
machine.

Secrets. Segments get copied about, so what a crawl logs in with stays out of them: in requests the value
of every header that can carry a credential (Authorization, Cookie, anything named after a token, key or
session), in responses the value of every cookie set; names and cookie attributes stay. Bodies, URLs and what
a spider makes its requests carry as `data` are kept as they are.

Guarantees. `append` gives the final reference at once and keeps the record in memory; `flush` writes
everything that was appended; `checkpoint` says how far the archive reaches. The store commits the checkpoint
together with the references, and `ArchiveWriter.open` cuts the archive back to it: after a kill at any
instant it holds exactly the pages that the store knows. Commit the checkpoint of a freshly opened archive
before the first `append`, or what a kill leaves behind before the first commit stays.

A page is checked whenever it is read, the gzip checksum and the payload digest alike. It comes back as it
was stored, or as one of the errors below; never silently wrong.
"""

from shoal.archive.errors import PageDamaged, PageExpired, PageMissing, PageUnreadable
from shoal.archive.reader import ArchiveReader, Damage, StoredPage
from shoal.archive.registry import open_segments, place_segments, segments_in
from shoal.archive.retention import expire
from shoal.archive.segments import SegmentFolder, Segments
from shoal.archive.writer import ArchiveWriter, WriteRules

__all__ = [
    "ArchiveReader",
    "ArchiveWriter",
    "Damage",
    "PageDamaged",
    "PageExpired",
    "PageMissing",
    "PageUnreadable",
    "SegmentFolder",
    "Segments",
    "StoredPage",
    "WriteRules",
    "expire",
    "open_segments",
    "place_segments",
    "segments_in",
]

"""The archive stores every fetched response in WARC 1.1 segments that any WARC tool can read.

Location. A crawl has one folder of segments, `<crawl>-YYYYMMDD-NNNNN.warc.gz`, whose names sort in the
order in which they were written. A segment ends when it is large enough or when the day (UTC) changes. It
has its final name from its first byte: a reference is final at once, and no rename has to be kept in step
with the store. Readers can read a segment that is still growing. On an object store (`bucket.py`), where
objects cannot grow, every flush makes a segment; several machines can then read what one of them has
fetched.

Content. Each record is a separate gzip member, so that a `PageRef` (segment, offset, length) finds a page
with one read. A page is a `response` record (status line, headers as received, body as sent by the server:
content encoding kept, chunking undone, Content-Length corrected) followed by its `request` record. A page
that has not changed is a `revisit` record with a reference to the body that it repeats. A page that a
browser rendered has `conversion` records between the two, which refer to the response: its DOM, and a
screenshot and a PDF if they were asked for; its reference spans all of them. Depth, route and
data of a page's request are in a header of its response record, because handlers need them and the store
deletes requests that have ended. Each segment starts with a `warcinfo` record that contains nothing about
the machine.

Secrets. Segments are copied, so credentials stay out of them: in requests the value of every header that
is not known to be public (`model/http/header_names.py`: Accept, User-Agent and so on), in responses the
value of every cookie set; names and cookie attributes stay. Bodies of responses, URLs and the `data` of
requests are stored unchanged.

Guarantees. `append` returns the final reference at once and keeps the record in memory; `flush` writes
everything that was appended; `checkpoint` returns the end of the archive. The store commits the checkpoint
together with the references, and `ArchiveWriter.open` cuts the archive back to it: after a kill at any
instant, the archive holds exactly the pages that the store knows. Commit the checkpoint of a newly opened
archive before the first `append`; otherwise what a kill leaves before the first commit stays.

Every read checks the gzip checksum and the payload digest. A page is returned as it was stored, or the read
raises one of the errors below; it is never silently wrong.
"""

from shoal.archive.contract import ArchiveFactory, ReadableSegments, Segments
from shoal.archive.errors import PageDamaged, PageExpired, PageMissing, PageUnreadable
from shoal.archive.reader import ArchiveReader, Damage, StoredPage
from shoal.archive.registry import choose_location, open_crawl_folder, open_segments
from shoal.archive.retention import expire
from shoal.archive.segments import SegmentFolder
from shoal.archive.writer import ArchiveWriter, WriteRules

__all__ = [
    "ArchiveFactory",
    "ArchiveReader",
    "ArchiveWriter",
    "Damage",
    "PageDamaged",
    "PageExpired",
    "PageMissing",
    "PageUnreadable",
    "ReadableSegments",
    "SegmentFolder",
    "Segments",
    "StoredPage",
    "WriteRules",
    "choose_location",
    "expire",
    "open_crawl_folder",
    "open_segments",
]

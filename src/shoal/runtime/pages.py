"""Pages at rest: into the archive when they arrive, out of it when they have to be parsed without a fetch."""

from collections.abc import Sequence
from dataclasses import replace

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.archive.warc import sha1
from shoal.archive.writer import ArchiveWriter
from shoal.model.outcome import Lease
from shoal.model.page import PageRecord, PageRef, ParseTask, Response
from shoal.model.request import Request

_NOT_MODIFIED = 304

Headers = Sequence[tuple[str, str]]


class Pages:
    """The archive of one crawl, as the crawl uses it."""

    def __init__(self, writer: ArchiveWriter, reader: ArchiveReader) -> None:
        self._writer = writer
        self._reader = reader

    def earlier(self, ref: PageRef) -> StoredPage | None:
        """Read a page that the crawl's previous generation kept; None: it can be had no more.

        Read before the request goes out: a server must not be asked whether a copy is current that we
        turn out not to have.
        """
        try:
            return self._reader.read(ref)
        except PageUnreadable:
            return None

    def keep(
        self, lease: Lease, sent: Headers, response: Response, earlier: StoredPage | None
    ) -> tuple[PageRecord, Response]:
        """Archive a response; return its record, and the response with the body that counts.

        A page that has not changed since the crawl's previous generation is kept as a revisit; its record
        leads straight to the body. After a 304 a spider sees the archived page.
        """
        if earlier is not None and response.status == _NOT_MODIFIED:
            self._writer.append_revisit(lease.request, sent, response, _record_of(earlier))
            record = _record_of(earlier)
            record = replace(
                record,
                fetched_at=response.fetched_at,
                etag=response.header("etag", record.etag),  # a 304 repeats validators only if it likes
                modified=response.header("last-modified", record.modified),
            )
            response = replace(
                response, status=earlier.status, headers=earlier.headers, body=earlier.body, wire=earlier.wire
            )
            return record, response
        if earlier is not None and earlier.digest.encode() == sha1(response.wire):
            _, digest = self._writer.append_revisit(lease.request, sent, response, _record_of(earlier))
            return _record(earlier.original or earlier.ref, response, digest), response
        ref, digest = self._writer.append(lease.request, sent, response)
        return _record(ref, response, digest), response

    def recall(self, id: int, fingerprint: int, request: Request, page: PageRecord) -> ParseTask:
        """Make a parse task of an archived page; raise `PageUnreadable` if it cannot be trusted."""
        stored = self._reader.read(page.ref)
        return ParseTask(
            id,
            fingerprint,
            request,
            stored.url,
            stored.status,
            stored.headers,
            stored.body,
            stored.fetched_at,
        )


def _record(ref: PageRef, response: Response, digest: str) -> PageRecord:
    return PageRecord(
        ref,
        response.status,
        response.fetched_at,
        etag=response.header("etag"),
        modified=response.header("last-modified"),
        digest=digest,
    )


def _record_of(stored: StoredPage) -> PageRecord:
    return PageRecord(
        stored.original or stored.ref,
        stored.status,
        stored.fetched_at,
        etag=stored.header("etag"),
        modified=stored.header("last-modified"),
        digest=stored.digest,
    )

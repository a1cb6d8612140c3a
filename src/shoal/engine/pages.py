"""Pages at rest: into the archive when they are settled, out of it when they are parsed without a fetch."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from shoal.archive.errors import PageMissing, PageUnreadable
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.archive.warc import sha1
from shoal.archive.writer import ArchiveWriter
from shoal.model.errors import Unavailable
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

VALIDATOR_BYTES = 1024  # of an ETag or a date: a longer one is neither kept for every page nor sent back

log = logging.getLogger(__name__)

AGAIN = 1.0  # seconds after which an archive is asked again
_NOT_MODIFIED = 304

Headers = Sequence[tuple[str, str]]


class Pages:
    """The archive of one crawl, as the crawl uses it."""

    def __init__(self, writer: ArchiveWriter, reader: ArchiveReader) -> None:
        self._writer = writer
        self._reader = reader
        self._missing: set[str] = set()  # segments

    def earlier(self, ref: PageRef) -> StoredPage | None:
        """Read a page that the crawl's previous generation kept; None: it can be had no more.

        Read before the request goes out: a server must not be asked whether a copy is current that we
        turn out not to have.
        """
        try:
            return self._reader.read(ref)
        except PageUnreadable:
            return None

    async def recall(self, ref: PageRef) -> StoredPage:
        """Read a page of this crawl; raise `PageUnreadable` if it cannot be trusted.

        An archive that does not answer is waited for: the page is none the worse for it.
        """
        while True:
            try:
                return await self._reader.read_async(ref)
            except PageMissing:
                # Once, and not for each page: most likely it is the archive of a worker on another machine.
                if ref.segment not in self._missing:
                    self._missing.add(ref.segment)
                    log.warning(
                        "archive.missing", extra={"segment": ref.segment, "place": self._reader.location}
                    )
                raise
            except Unavailable as error:
                log.warning("archive.waits", extra={"why": str(error)})
            await asyncio.sleep(AGAIN)

    def shown(self, response: Response, earlier: StoredPage | None) -> Response | StoredPage:
        """Say what a spider gets to see: after a 304, the page as it was archived."""
        return earlier if earlier is not None and response.status == _NOT_MODIFIED else response

    def keep(
        self, request: Request, sent: Headers, response: Response, earlier: StoredPage | None
    ) -> PageRecord:
        """Archive a response and return its record.

        A page that has not changed since the crawl's previous generation is kept as a revisit; its record
        leads straight to the body.
        """
        if earlier is not None:
            before = _record_of(earlier)
            not_modified = response.status == _NOT_MODIFIED
            if not_modified or before.digest.encode() == sha1(response.wire):
                self._writer.append_revisit(request, sent, response, before)
                return msgspec.structs.replace(
                    before,
                    fetched_at=response.fetched_at,
                    elapsed=response.elapsed,
                    wire_bytes=len(response.wire),
                    # A 304 repeats validators only if it likes.
                    etag=_validator(response, "etag") or before.etag,
                    modified=_validator(response, "last-modified") or before.modified,
                )
        ref, digest = self._writer.append(request, sent, response)
        return PageRecord(
            ref,
            response.status,
            response.fetched_at,
            etag=_validator(response, "etag"),
            modified=_validator(response, "last-modified"),
            digest=digest,
            elapsed=response.elapsed,
            wire_bytes=len(response.wire),
        )


def _validator(page: Response | StoredPage, name: str) -> str:
    value = page.header(name)
    return value if len(value) <= VALIDATOR_BYTES else ""


def _record_of(stored: StoredPage) -> PageRecord:
    return PageRecord(
        stored.original or stored.ref,
        stored.status,
        stored.fetched_at,
        etag=_validator(stored, "etag"),
        modified=_validator(stored, "last-modified"),
        digest=stored.digest,
    )

"""Pages and the archive: written when they are settled, read when they are parsed without a fetch."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from shoal.archive.errors import PageMissing, PageUnreadable
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.archive.writer import ArchiveWriter
from shoal.model.errors import Unavailable
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

VALIDATOR_BYTES = 1024  # longest ETag or date that is stored for a page and sent back

log = logging.getLogger(__name__)

RETRY_S = 1.0  # before an unavailable archive is read again
_NOT_MODIFIED = 304

Headers = Sequence[tuple[str, str]]


class Pages:
    """The archive of one crawl, as the crawl uses it."""

    def __init__(self, writer: ArchiveWriter, reader: ArchiveReader) -> None:
        self._writer = writer
        self._reader = reader
        self._missing: set[str] = set()  # segments

    def earlier(self, ref: PageRef) -> StoredPage | None:
        """Return a page that the crawl's previous generation archived; None: it cannot be read any more.

        It is read before the request is sent: a conditional request for a copy that turns out to be missing
        would be answered with 304 and no body.
        """
        try:
            return self._reader.read(ref)
        except PageUnreadable:
            return None

    async def read(self, ref: PageRef) -> StoredPage:
        """Return a page of this crawl; raise `PageUnreadable` if it is missing or damaged.

        Reading is retried while the archive is unavailable: the page itself is fine.
        """
        while True:
            try:
                return await self._reader.read_async(ref)
            except PageMissing:
                # Logged once per segment: most likely it is the archive of a worker on another machine.
                if ref.segment not in self._missing:
                    self._missing.add(ref.segment)
                    log.warning(
                        "archive.missing", extra={"segment": ref.segment, "place": self._reader.location}
                    )
                raise
            except Unavailable as error:
                log.warning("archive.unavailable", extra={"why": str(error)})
            await asyncio.sleep(RETRY_S)

    def visible_page(self, response: Response, earlier: StoredPage | None) -> Response | StoredPage:
        """Return what the spider sees: after a 304, the page as it was archived."""
        return earlier if earlier is not None and response.status == _NOT_MODIFIED else response

    def keep(
        self, request: Request, sent: Headers, response: Response, earlier: StoredPage | None
    ) -> PageRecord:
        """Archive a response and return its record.

        A page that has not changed since the crawl's previous generation is archived as a revisit; its record
        refers to the body of the earlier one.
        """
        if earlier is not None:
            before = _record_of(earlier)
            not_modified = response.status == _NOT_MODIFIED
            if not_modified or _repeats(response, earlier):
                self._writer.append_revisit(request, sent, response, before)
                return msgspec.structs.replace(
                    before,
                    fetched_at=response.fetched_at,
                    elapsed=response.elapsed,
                    wire_bytes=len(response.wire),
                    # A 304 need not repeat the validators.
                    etag=validator(response, "etag") or before.etag,
                    modified=validator(response, "last-modified") or before.modified,
                )
        ref, digest = self._writer.append(request, sent, response)
        return PageRecord(
            ref,
            response.status,
            response.fetched_at,
            etag=validator(response, "etag"),
            modified=validator(response, "last-modified"),
            digest=digest,
            elapsed=response.elapsed,
            wire_bytes=len(response.wire),
        )


def _repeats(response: Response, earlier: StoredPage) -> bool:
    """Return whether a response has the body of the earlier one.

    Compares the bytes and not the digests, because two bodies can be made to have the same SHA-1.
    """
    encodings = [
        [value for name, value in page.headers if name == "content-encoding"] for page in (response, earlier)
    ]
    return response.wire == earlier.wire and encodings[0] == encodings[1]


def validator(page: Response | StoredPage, name: str) -> str:
    """Return an ETag or a date to send back; an empty string if it is too long."""
    value = page.header(name)
    return value if len(value) <= VALIDATOR_BYTES else ""


def _record_of(stored: StoredPage) -> PageRecord:
    return PageRecord(
        stored.original or stored.ref,
        stored.status,
        stored.fetched_at,
        etag=validator(stored, "etag"),
        modified=validator(stored, "last-modified"),
        digest=stored.digest,
    )

"""Pages and the archive: written when they are settled, read when they are parsed without a fetch."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from shoal.archive.errors import PageMissing, PageUnreadable
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.archive.writer import ArchiveWriter
from shoal.engine.generations.earlier import (
    KIND,
    NOT_MODIFIED,
    EarlierPage,
    PageResult,
    decode_result,
    encode_result,
    may_repeat,
    repeats,
)
from shoal.model.errors import Rejected, Unavailable
from shoal.model.generations.page_history import PageHistory
from shoal.model.page import PageRecord, PageRef, Response
from shoal.model.request import Request

VALIDATOR_BYTES = 1024  # longest ETag or date that is stored for a page and sent back

log = logging.getLogger(__name__)

RETRY_S = 1.0  # before an unavailable archive is read again

Headers = Sequence[tuple[str, str]]


class Pages:
    """The archive of one crawl, as the crawl uses it."""

    def __init__(self, writer: ArchiveWriter, reader: ArchiveReader) -> None:
        self._writer = writer
        self._reader = reader
        self._missing: set[str] = set()  # segments

    async def earlier(self, history: PageHistory, identity: bytes) -> EarlierPage:
        """Return what the crawl's previous generation knows of a page, as far as it can be read.

        It is read before the request is sent: a conditional request for a copy that turns out to be missing
        would be answered with 304 and no body.
        """
        known = EarlierPage(history)
        if history.result is None or (result := await self.read_result(history.result)) is None:
            return known
        if result.identity == identity and result.all_links:
            return EarlierPage(history, result, reusable=True)
        try:
            return EarlierPage(history, result, await self._reader.read_async(result.ref))
        except (PageUnreadable, Unavailable):
            return known

    async def read_result(self, ref: PageRef) -> PageResult | None:
        """Return what a page yielded; None: its record cannot be read, or not by this worker."""
        try:
            return decode_result(await self._reader.read_metadata_async(ref, KIND))
        except (PageUnreadable, Unavailable, Rejected):
            return None

    async def compare(self, response: Response, earlier: EarlierPage) -> EarlierPage:
        """Return the earlier page with whether a response confirms or repeats it."""
        result = earlier.result
        if result is None or response.status == NOT_MODIFIED:
            return earlier.compared(unchanged=result is not None)
        if not may_repeat(response, result):
            return earlier.compared(unchanged=False)
        try:
            body = earlier.body or await self._reader.read_async(result.ref)
        except (PageUnreadable, Unavailable):
            return earlier.compared(unchanged=False)
        return earlier.compared(unchanged=repeats(response, body))

    def keep_result(self, url: str, result: PageResult, at: float) -> PageRef:
        """Archive what a page yielded; return where."""
        return self._writer.append_metadata(url, encode_result(result), at=at, kind=KIND)

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

    def visible_page(self, response: Response, earlier: EarlierPage | None) -> Response | StoredPage:
        """Return what the spider sees: after a 304, the page as it was archived."""
        if earlier is None or earlier.body is None or response.status != NOT_MODIFIED:
            return response
        return earlier.body

    def keep(
        self, request: Request, sent: Headers, response: Response, earlier: EarlierPage | None
    ) -> PageRecord:
        """Archive a response and return its record.

        A page that has not changed since the crawl's previous generation is archived as a revisit; its record
        refers to the body of the earlier one.
        """
        if earlier is not None and earlier.unchanged:
            before = earlier.record()
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


def validator(page: Response, name: str) -> str:
    """Return an ETag or a date to send back; an empty string if it is too long."""
    value = page.header(name)
    return value if len(value) <= VALIDATOR_BYTES else ""

"""What the crawl's previous generation knows of a page, and what this one takes over from it.

Each page that was parsed has a record in the archive: what a conditional request needs, the items, and all
links (`PageResult`). The store leads there (`page_history`). A page that has not changed is not parsed
again: its items and links are taken from that record, and go the way of a parse result. It is parsed again if
the spider, the scope or the request is another one (`ParseIdentity`), because then it may yield something
else. If the record or the body that it needs cannot be read, the page is fetched as if it were new.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from shoal.archive.reader import StoredPage
from shoal.archive.warc import sha1
from shoal.model.failure import FailureClass
from shoal.model.generations.page_history import PageHistory, first_check
from shoal.model.generations.recheck import DueLine, RecheckRules
from shoal.model.page import Item, PageEvidence, PageRecord, PageRef, ParseResult, Response
from shoal.model.request import Request, pack
from shoal.model.scope import Scope

KIND = "application/vnd.shoal.page-result+msgpack"
NOT_MODIFIED = 304

# Headers that decide how a page is parsed. A handler may read others: a page that differs only in those has
# not changed.
_PARSED_HEADERS = ("content-type", "content-language", "content-location", "link", "refresh", "x-robots-tag")


class PageResult(msgspec.Struct, frozen=True, array_like=True):
    """What a page yielded, and what a conditional request for it needs."""

    url: str
    status: int
    etag: str
    modified: str
    digest: str
    ref: PageRef  # of the body
    fetched_at: float  # when the body was fetched
    identity: bytes  # `ParseIdentity.of`
    items: tuple[Item, ...] = ()
    rejected: tuple[Item, ...] = ()
    all_links: bytes = b""
    dropped: dict[FailureClass, int] = {}
    withheld: int = 0
    partial: str = ""
    simhash: int | None = None  # of earlier versions, as is the next one
    text_digest: int | None = None
    discarded: dict[str, int] = {}
    item_times: tuple[tuple[int, int], ...] = ()  # first seen, changed at; of each item
    evidence: PageEvidence | None = None
    counts: dict[str, int] = {}  # of items and filled fields

    @classmethod
    def of(
        cls,
        url: str,
        page: PageRecord,
        identity: bytes,
        result: ParseResult,
        times: tuple[tuple[int, int], ...] = (),
    ) -> "PageResult":
        return cls(
            url,
            page.status,
            page.etag,
            page.modified,
            page.digest,
            page.ref,
            page.body_at or page.fetched_at,
            identity,
            result.items,
            result.rejected,
            result.all_links,
            dict(result.dropped),
            result.withheld,
            result.partial,
            None,
            None,
            dict(result.discarded),
            times,
            result.evidence,
            dict(result.counts),
        )

    def parse_result(self, repeats: int) -> ParseResult:
        """Return it as the result of a parse, without its links."""
        return ParseResult(
            0,
            self.items,
            dropped=self.dropped,
            repeats=repeats,
            rejected=self.rejected,
            withheld=self.withheld,
            evidence=self.evidence,
            partial=self.partial,
            discarded=self.discarded,
            all_links=self.all_links,
            counts=self.counts,
        )


encode_result = msgspec.msgpack.Encoder().encode
_decode_result = msgspec.msgpack.Decoder(PageResult).decode


def decode_result(block: bytes) -> PageResult | None:
    """Return the result in a record of the archive; None: it cannot be read."""
    try:
        return _decode_result(block)
    except (msgspec.DecodeError, RecursionError):
        return None


class EarlierPage(msgspec.Struct, frozen=True):
    """A page as the previous generation knows it."""

    history: PageHistory
    result: PageResult | None = None  # None: it was not parsed, or the record cannot be read
    body: StoredPage | None = None  # read if it may have to be parsed again
    reusable: bool = False  # its result holds for the request that asks now
    unchanged: bool = False  # its content is still the same

    @property
    def etag(self) -> str:
        return self.result.etag if self.result is not None else ""

    @property
    def modified(self) -> str:
        return self.result.modified if self.result is not None else ""

    def compared(self, *, unchanged: bool) -> "EarlierPage":
        return EarlierPage(self.history, self.result, self.body, self.reusable, unchanged)

    def still_holds(self, page: PageRecord) -> bool:
        """Return whether the archived result is that of a page too: the next request asks with the same."""
        return self.unchanged and self.reusable and (page.etag, page.modified) == (self.etag, self.modified)

    def record(self) -> PageRecord:
        """Return the record of the page whose body is still valid."""
        assert self.result is not None
        kept = self.result
        return PageRecord(
            kept.ref,
            kept.status,
            kept.fetched_at,
            etag=kept.etag,
            modified=kept.modified,
            digest=kept.digest,
            body_at=kept.fetched_at,
        )


def next_history(page: PageRecord, earlier: EarlierPage | None, rules: RecheckRules) -> PageHistory:
    """Return the record of a page that was just fetched; it still leads to the earlier result."""
    if earlier is None:
        return first_check(page.fetched_at, result=None, status=page.status)
    before = earlier.history
    # A page that was not parsed, such as a redirect, is compared by its status alone.
    unchanged = earlier.unchanged if earlier.result is not None else before.status == page.status
    return before.checked(
        page.fetched_at,
        changed=not unchanged,
        result=before.result,
        status=page.status,
        interval_s=rules.after_check(before, page.fetched_at, changed=not unchanged),
    )


def may_repeat(response: Response, result: PageResult) -> bool:
    """Return whether a complete response may have the content of an earlier one: its digest says so."""
    return response.status == result.status and sha1(response.wire).decode() == result.digest


def repeats(response: Response, earlier: StoredPage) -> bool:
    """Return whether a response has the content of the earlier one.

    Compares the bytes and not only the digests, because two bodies can be made to have the same SHA-1.
    """
    if response.rendered is not None or earlier.rendered is not None:
        return False  # the same response may be rendered to another DOM
    return (
        response.wire == earlier.wire
        and response.url == earlier.url
        and all(
            _values(response.headers, name) == _values(earlier.headers, name)
            for name in (*_PARSED_HEADERS, "content-encoding")
        )
    )


def _values(headers: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [value for key, value in headers if key == name]


class ParseIdentity:
    """Identifies everything besides the page itself that decides what it yields."""

    def __init__(
        self,
        code: str,
        scope: Scope,
        *,
        skip: bool = True,
        rules: RecheckRules | None = None,
        line: DueLine | None = None,
        item_times: bool = False,
    ) -> None:
        """`code` stands for the spider and the rules for blocks.

        `skip`: pages that have not changed are not parsed. `line`: pages below it are not asked for.
        """
        self.rules = rules or RecheckRules()
        self.line = line
        self.item_times = item_times  # whether items get them as fields
        alike = msgspec.structs.replace(
            scope, watched_shapes=frozenset(), name_skipped=False, explain=False, all_links=False
        )
        hosts = sorted(alike.hosts or ())
        # `counts`: results of versions that did not count items are not taken.
        text = repr((code, hosts, msgspec.structs.replace(alike, hosts=None), "counts"))
        self._base = blake2b(text.encode(), digest_size=16).digest()
        self._depth = scope.depth is not None
        self.skip = skip

    def of(self, request: Request) -> bytes:
        """Return the identity of a request; pages with the same content and identity yield the same."""
        alone = msgspec.structs.replace(
            request,
            priority=0,
            headers={},
            body=b"",
            found_on=0,
            depth=request.depth if self._depth else 0,
        )
        return blake2b(pack(alone), key=self._base, digest_size=8).digest()

"""A fetched response: as received, as passed to the parse stage, and as recorded in the store."""

from typing import Annotated

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.request import Request
from shoal.model.yields.counts import MAX_NAME_CHARS


class PageRef(msgspec.Struct, frozen=True, array_like=True):
    """The position of a page in the archive."""

    segment: str
    offset: int
    length: int


class Rendered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a browser made of a page, besides its DOM; the archive stores it with the DOM."""

    url: str  # of the document, which its scripts may have changed
    console: tuple[str, ...] = ()  # errors of its scripts
    partial: tuple[str, ...] = ()  # what cut it short: `deadline`, `navigations`, `requests`, ...
    leads_to: str = ""  # where it navigates by itself: a separate request, and not followed in the browser
    # Headers of the main response that do not hold for its archived body: the browser decodes it.
    replaced: tuple[tuple[str, str], ...] = ()
    browser: str = ""  # name and version
    screenshot: bytes = b""  # PNG
    pdf: bytes = b""


class Response(msgspec.Struct, frozen=True, weakref=True):
    """A complete response, within all limits.

    Of a rendered page, `body` is the DOM and `wire` the main response, both in UTF-8.
    """

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]  # names in lower case, order and repeats kept
    body: bytes  # after content decoding
    wire: bytes  # the body as sent, before content decoding; the same object if it was not encoded
    fetched_at: float  # epoch seconds
    elapsed: float  # seconds from the first byte sent to the last received
    address: str = ""  # IP address of the peer
    unsealed: bool = False  # the body may be cut: neither a length nor a TLS close marks its end
    lenient: bool = False  # it broke the rules of HTTP and was read as browsers read it
    exit: str = ""  # the name of the exit that it came through
    by_proxy: bool = False  # the exit may have written it: plain http without a tunnel
    rendered: Rendered | None = None  # None: the body is as the server sent it
    set_cookies: tuple[str, ...] = ()  # by scripts and by what the page has loaded, as Set-Cookie headers

    @property
    def leads_to(self) -> str:
        """Where the page navigates by itself; empty: nowhere."""
        return self.rendered.leads_to if self.rendered is not None else ""

    def header(self, name: str, default: str = "") -> str:
        """Return the first value of `name` (lower case), or `default`."""
        for key, value in self.headers:
            if key == name:
                return value
        return default


class Timing(msgspec.Struct):
    """How long the phases of one attempt took, in seconds, and what it received. Its client fills it in.

    A phase that did not take place took no time: a connection that is used again has neither DNS, connect
    nor TLS. Between the phases the process itself was busy.
    """

    started_at: float = 0.0  # epoch seconds
    total: float = 0.0
    queue: float = 0.0  # for robots.txt and for the host's turn
    dns: float = 0.0
    connect: float = 0.0
    tls: float = 0.0
    first_byte: float = 0.0  # from the request to the first byte of its response
    body: float = 0.0  # from there to the last byte
    wire_bytes: int = 0  # of the body, as sent
    body_bytes: int = 0  # of the body, decoded
    address: str = ""  # of the peer
    exit: str = ""  # the name of the exit that it went through; empty: direct
    robots: float = 0.0  # part of `queue`: robots.txt had to be fetched first
    level: str = "plain"  # at which it was made
    requests: int = 0  # that a rendered page made besides itself


class NotSent(msgspec.Struct, frozen=True):
    """The result of a fetch that sent nothing, because the host's turn is too far away."""

    delay: float  # seconds until the turn


class PageRecord(msgspec.Struct, frozen=True):
    """What the store records about an archived page."""

    ref: PageRef
    status: int
    fetched_at: float
    items: int = 0
    links: int = 0
    etag: str = ""
    modified: str = ""
    digest: str = ""
    elapsed: float = 0.0  # seconds that fetching took
    wire_bytes: int = 0  # size of the body as sent
    version: int = 0  # number of the spider version that parsed it (`SpiderVersions`); 0: not parsed
    body_at: float = 0.0  # when its body was fetched, if that was earlier: it has not changed since
    history: bytes = b""  # for the next generations (`page_history`); empty: nothing is kept

    def parsed(self, *, items: int, links: int, version: int = 0) -> "PageRecord":
        """Return the record with the number of items and links, and the version of the spider."""
        return msgspec.structs.replace(self, items=items, links=links, version=version)


class FinalFailure(msgspec.Struct, frozen=True, array_like=True):
    """Why a request ended without a usable page, for its `on_error` hook."""

    failure_class: FailureClass
    reason: str  # one line
    attempts: int  # 0: an earlier run made them


class ParseTask(msgspec.Struct, frozen=True, array_like=True):
    """A page for a parse child.

    With `final_failure`: a failed request for its `on_error` hook. With `judge_only`: only a URL; the rule of
    the scope that refuses it is returned in `ParseResult.dropped`. With `route_only`: the same, if no handler
    takes a page of this URL and status.
    """

    id: int
    fingerprint: int
    request: Request
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    fetched_at: float
    final_failure: FinalFailure | None = None
    judge_only: bool = False
    blocked_if: tuple[tuple[str, ...], ...] = ()  # it is a block if it has an element for all of one
    route_only: bool = False
    rendered: Rendered | None = None


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One extracted record, encoded once, in the parse child."""

    key: str  # the values of the spider's key fields, else fingerprint and position: the same on every replay
    json: bytes  # a JSON object on one line


class ParseFault(msgspec.Struct, frozen=True, array_like=True):
    """An error of the spider on a page."""

    reason: str  # one line
    detail: str = ""  # traceback of the spider's frames
    failure_class: FailureClass = FailureClass.PARSE_ERROR


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
MAX_SKIPPED = 50  # links of one page that are named if they are not followed


class HandlerReport(msgspec.Struct, frozen=True, array_like=True):
    """How a handler ran, if the scope asks for it."""

    handler: str = ""  # empty: the spider has none for the page
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    queries: dict[str, Count] = {}  # CSS and XPath queries, with the number of their matches


MAX_COUNTS = 200  # of one page
CountName = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
MAX_REASON_CHARS = 100
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)]
"""Why an item hook dropped an item."""


Digest = Annotated[int, msgspec.Meta(ge=0)]


class PageEvidence(msgspec.Struct, frozen=True, array_like=True):
    """Digests of what one page brings (`model/traps/page_evidence.py`); 0: it has no such thing."""

    text: Digest = 0
    rest: Digest = 0  # the text without the numbers of its URL
    outline: Digest = 0  # the text without any digits
    items: Digest = 0  # without the URL of the page
    twin_of: Digest = 0  # the canonical URL, if that is the same page by its name
    about: Digest = 0  # the numbers of the URL that are in the text: what the page is about
    title: Digest = 0
    simhash: Digest | None = None  # of the visible text; 0: it is too short; None: not computed


class ParseResult(msgspec.Struct, frozen=True, array_like=True):
    """Everything that a handler or hook yielded: all of it, or a fault and nothing else.

    A parse child sends it, and user code may send anything: decoding refuses what is out of range.
    """

    id: int
    items: tuple[Item, ...] = ()
    requests: tuple[bytes, ...] = ()  # packed (`model.request.pack`); the parent makes them into links
    dropped: dict[FailureClass, Count] = {}  # links not followed, by rule
    repeats: Count = 0  # links that this child has already returned
    fault: ParseFault | None = None
    cpu: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0  # seconds
    rejected: tuple[Item, ...] = ()  # records with the reason, for items that do not fit their model
    withheld: Count = 0  # items dropped in favour of the canonical page
    evidence: PageEvidence | None = None  # of whether it brings anything new; None: it was not sampled
    partial: str = ""  # why a part of the page could not be read; empty: nothing is missing
    # URL and rule ("duplicate") of links that are not followed; only the first, and only if they are logged
    skipped: Annotated[tuple[tuple[str, str], ...], msgspec.Meta(max_length=MAX_SKIPPED)] = ()
    report: HandlerReport | None = None
    discarded: dict[Reason, Count] = {}  # items that the spider's item hooks dropped, by reason
    all_links: bytes = b""  # every link of the page (`model.generations.all_links`), if the scope asks for it
    # Of its items and their filled fields (`model.yields`).
    counts: Annotated[dict[CountName, Count], msgspec.Meta(max_length=MAX_COUNTS)] = {}

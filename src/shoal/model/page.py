"""A fetched response: in hand, on its way to the parse stage, and at rest."""

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.request import Link, Request


class PageRef(msgspec.Struct, frozen=True, array_like=True):
    """Where a page lies in the archive."""

    segment: str
    offset: int
    length: int


class Response(msgspec.Struct, frozen=True):
    """A complete answer of a server, limits already applied."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]  # names in lower case, order and repeats kept
    body: bytes  # decoded
    wire: bytes  # as sent, before content decoding; the same object when nothing was encoded
    fetched_at: float  # epoch seconds
    elapsed: float  # seconds from the first byte sent to the last received
    address: str = ""  # of the peer
    unsealed: bool = False  # neither a length nor TLS vouches for the end of the body

    def header(self, name: str, default: str = "") -> str:
        """Give the first value of `name` (lower case)."""
        for key, value in self.headers:
            if key == name:
                return value
        return default


class PageRecord(msgspec.Struct, frozen=True):
    """What the store remembers of an archived page."""

    ref: PageRef
    status: int
    fetched_at: float
    items: int = 0
    links: int = 0
    etag: str = ""
    modified: str = ""
    digest: str = ""
    elapsed: float = 0.0  # seconds that fetching took
    wire_bytes: int = 0  # of the body, as sent
    version: int = 0  # of the spider that parsed it, by the crawl's own count; 0: not parsed

    def parsed(self, *, items: int, links: int, version: int = 0) -> "PageRecord":
        """Say what the page brought, and to which version of the spider."""
        return msgspec.structs.replace(self, items=items, links=links, version=version)


class GivenUp(msgspec.Struct, frozen=True, array_like=True):
    """How a request came to its end without a page that could be used."""

    kind: FailureClass
    reason: str  # one line
    attempts: int  # 0: an earlier run made them


class ParseTask(msgspec.Struct, frozen=True, array_like=True):
    """A page, as handed to a parse child; or, with `given_up`, a request that brought none, for its hook."""

    id: int
    fingerprint: int
    request: Request
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    fetched_at: float
    given_up: GivenUp | None = None


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One extracted record: encoded once, where it was made."""

    key: str  # the spider's key fields, else fingerprint and ordinal: the same on every replay
    json: bytes  # a JSON object on one line


class ParseFault(msgspec.Struct, frozen=True, array_like=True):
    """The spider's own failure on a page."""

    reason: str  # one line
    detail: str = ""  # traceback of the spider's frames
    kind: FailureClass = FailureClass.PARSE_ERROR


class ParseResult(msgspec.Struct, frozen=True, array_like=True):
    """Everything a page, or the hook of a request, yielded: all of it, or a fault and nothing."""

    id: int
    items: tuple[Item, ...] = ()
    links: tuple[Link, ...] = ()
    dropped: dict[str, int] = {}  # links not followed, by rule
    repeats: int = 0  # links this child had already handed over
    fault: ParseFault | None = None
    cpu: float = 0.0  # seconds
    rejected: tuple[Item, ...] = ()  # items that do not fit their model, as records that say why
    withheld: int = 0  # items left to the canonical version of the page
    simhash: int | None = None  # of the text that a reader sees; None: the page was not to be compared

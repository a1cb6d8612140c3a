"""Messages about dead letters."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.model.api.crawls import CrawlName, Cursor
from shoal.model.failure import FailureClass

Age = Annotated[float, Meta(ge=0, le=1e10)]


class DeadLetterInfo(msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "class"}):
    """A request that was given up. Header values and bodies are left out: they may hold secrets."""

    crawl: str
    url: str
    method: str
    host: str
    kind: str
    reason: str
    status: int
    attempts: int
    crashes: int
    first_at: float
    died_at: float
    holder: str
    trace: str
    depth: int
    priority: int
    route: str
    data: Any
    found_on: str | None
    chain: list[str]
    page_kept: bool
    traceback: str = ""
    page: list[Any] | None = None


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    dead_letters: list[DeadLetterInfo]
    next_cursor: str | None = None
    searched: int = 0  # dead letters that this call has looked at


class DeadLetterQuery(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"kind": "class"}
):
    """A choice of dead letters; by default all of them, latest first."""

    crawl: CrawlName | None = None
    kind: FailureClass | None = None
    host: Annotated[str, Meta(max_length=300)] = ""
    older_s: Age | None = None  # seconds since it was given up, at least
    newer_s: Age | None = None  # at most
    match: Annotated[str, Meta(max_length=200)] = ""  # text anywhere in its URL
    cursor: Cursor = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class OneDeadLetter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    trace: Annotated[str, Meta(min_length=1, max_length=64)]
    crawl: CrawlName | None = None

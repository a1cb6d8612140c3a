"""Messages that change a store."""

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.model.api.dead_letters import Age, DeadLetterQuery
from shoal.model.failure import FailureClass


class PausedCrawls(msgspec.Struct, frozen=True, kw_only=True):
    crawls: list[str]
    paused: bool


class HostChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is given changes, the rest is kept."""

    rate: Annotated[float, Meta(ge=0, le=100_000)] | None = None  # requests per second; 0: no limit
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    paused: bool | None = None
    rest_s: Annotated[float, Meta(ge=0, le=31_622_400)] | None = None  # seconds without requests
    reset: bool = False  # back to the pace of the settings; nothing else may be given then


class RobotsRefreshed(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    refreshed: bool


class DeadLetterChoice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"kind": "class"}
):
    """Which dead letters; `all` has to be true if nothing else is given."""

    crawl: str | None = None
    kind: FailureClass | None = None
    host: Annotated[str, Meta(max_length=300)] = ""
    older_s: Age | None = None
    newer_s: Age | None = None
    match: Annotated[str, Meta(max_length=200)] = ""
    trace: Annotated[str, Meta(pattern=r"^([0-9a-f]{16})?(?!\n)$")] = ""  # of one letter
    limit: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    all: bool = False

    def query(self) -> DeadLetterQuery:
        return DeadLetterQuery(
            crawl=self.crawl,
            kind=self.kind,
            host=self.host,
            older_s=self.older_s,
            newer_s=self.newer_s,
            match=self.match,
        )

    @property
    def chooses_nothing(self) -> bool:
        return self == DeadLetterChoice(limit=self.limit)


class ChangedLetters(msgspec.Struct, frozen=True, kw_only=True):
    count: int


class DeletedCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed; outputs and archived pages stay."""

    store: str
    forgotten: str
    accepted: int
    open: int
    dead: int
    unwritten: int
    outputs: list[str]
    archive: str

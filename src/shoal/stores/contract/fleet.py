"""What the workers of a shared store need besides its `Store` interface."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shoal.stores.contract.crawl_record import CrawlRecord, StoredRecords
from shoal.stores.contract.exits import StoredExits
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.contract.levels import StoredLevels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.frontier.redis import RedisFrontier
    from shoal.redis_client import RedisClient, ScriptFault

MAX_UNPARSED_PAGES = 10_000  # of a crawl; workers fetch no more while there are more
MAX_UNWRITTEN_PAGES = 50_000  # pages whose items are not in every output yet, likewise
HEARTBEAT_EVERY_S = 5.0
HEARTBEAT_TTL_S = 15.0  # a worker without a heartbeat for this long counts as gone


class SubmittedCrawls(Protocol):
    async def submit(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        """Store a record and announce it; return False if that very record was stored already.

        `key`: sign it.
        """

    async def announce(self) -> None:
        """Make workers look again at crawls that had nothing to do."""

    async def news(self) -> int:
        """Return a number that changes with every announcement."""

    async def remove_secrets(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        """Remove headers and cookies that may be secret from a record; False: it has been submitted again."""

    async def get(self, name: str) -> CrawlRecord | None:
        """Return the record of a crawl; raise `Misconfigured` for one that cannot be used."""

    async def all(self) -> list[CrawlRecord]:
        """Return the records that can be used."""

    async def read(self, *, key: bytes = b"") -> StoredRecords:
        """Return the records, and those that cannot be used with the reason; `key`: they must be signed."""

    async def was_deleted(self, name: str) -> bool:
        """Return whether a command deleted the crawl; if not, a crawl without a record is lost."""


class Heartbeats(Protocol):
    async def beat(self, heartbeat: Heartbeat) -> None: ...

    async def leave(self, worker: str) -> None:
        """Remove a worker from the list at once: it has ended in good order."""

    async def all(self) -> "Sequence[Heartbeat]": ...


class SharedQuota(Protocol):
    """How many pages a worker may fetch within the page limit of a crawl."""

    async def take(self, held: int, wanted: int) -> int:
        """Return how many pages the worker may take besides the `held` ones that it has in progress."""

    async def leave(self) -> None:
        """Release the worker's share at once."""


class SiteBudget(Protocol):
    """How many requests a crawl may send to a site."""

    async def take(self, site: str) -> bool:
        """Take one request of a site; return False if none is left."""

    async def give_back(self, site: str) -> None:
        """Return a request that was not sent."""

    def changes(self) -> Mapping[str, bytes]:
        """Return what has to be stored with the crawl since the last call."""


class OpenPageQuota(Protocol):
    def __call__(
        self, crawl: int, *, worker: str, limit: int, lease: float, count: Callable[[], Awaitable[int]]
    ) -> SharedQuota: ...


class ChecksDamage(Protocol):
    """Moves entries of the store that cannot be read to the quarantine."""

    async def __call__(self, tag: str, fault: "ScriptFault", /) -> bool:
        """Check the shard of a call that failed; return whether anything was moved."""

    async def check_all(self) -> int:
        """Check everything; return how many entries were moved."""


class ReclaimingLeases(Protocol):
    """Reclaims the leases of workers that are gone."""

    async def reclaim(
        self, worker: str, live: Collection[str], *, longest_s: float, ended: Collection[str] = ()
    ) -> int:
        """Reclaim what holders without a heartbeat have had for longer than a request may take.

        `ended`: holders whose process is known to have ended; their leases are reclaimed at once.
        """


@dataclass(frozen=True, slots=True)
class Fleet:
    """The parts of a shared store that its workers use. They are built on a Redis client today."""

    dsn: str = field(repr=False)  # may contain a password
    client: "RedisClient"
    frontier: "RedisFrontier"
    crawls: SubmittedCrawls
    workers: Heartbeats
    page_quota: OpenPageQuota
    site_budget: Callable[[int, int], SiteBudget]  # by number of the crawl, and limit
    unwritten_pages: Callable[[str], Awaitable[int]]
    damage: ChecksDamage
    lost_holders: ReclaimingLeases
    exits: StoredExits
    levels: StoredLevels

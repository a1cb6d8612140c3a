"""What all parts of a frontier on Redis share: the store, the scripts, and what this process knows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from shoal.frontier.generations import Generation
from shoal.frontier.redis import keys
from shoal.frontier.redis.held_leases import HeldLeases
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.shard_picker import ShardPickers
from shoal.model.errors import Misconfigured
from shoal.redis_client import RedisClient

T = TypeVar("T")


def by_shard(store: RedisClient, things: Iterable[T], host_of: Callable[[T], str]) -> dict[str, list[T]]:
    """Group things by the tag of their host's shard, in their order."""
    shards: dict[str, list[T]] = {}
    for thing in things:
        shards.setdefault(store.tag_of(host_of(thing)), []).append(thing)
    return shards


def chunks(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for first in range(0, len(things), size):
        yield things[first : first + size]


class ShardClient:
    def __init__(self, store: RedisClient, scripts: Scripts, clock: Callable[[], float]) -> None:
        self.store = store
        self.scripts = scripts
        self.home = store.tag(0)  # the tag of the keys that belong to no shard
        self.pickers = ShardPickers(store.shards, clock)
        self.held = HeldLeases()
        self.opened: dict[str, int] = {}  # name -> number of the crawls that are open in this process
        self.names: dict[int, str] = {}  # number -> name of the same crawls
        self.earlier: dict[str, list[Generation]] = {}  # name -> earlier generations of the same crawls

    def opened_number(self, crawl: str) -> int:
        """Return the number of an open crawl."""
        if crawl not in self.opened:
            raise Misconfigured(f"no crawl named {crawl!r} is open")
        return self.opened[crawl]

    async def number(self, crawl: str) -> int:
        """Return the number that stands for a crawl in the names of keys; the crawl need not be open."""
        found = await self.store.do(self.home, "HGET", keys.crawls(self.home), crawl)
        if found is None:
            raise Misconfigured(f"the store has no crawl named {crawl!r}")
        return int(found)

    async def numbers(self) -> dict[str, int]:
        """Return name and number of every crawl."""
        found = await self.store.do(self.home, "HGETALL", keys.crawls(self.home))
        return {name.decode(): int(number) for name, number in zip(found[::2], found[1::2], strict=True)}

    def tags_for(self, host: str) -> list[str]:
        """Return the tag of a host's shard, or the tags of all shards if `host` is empty."""
        return [self.store.tag_of(host)] if host else self.store.tags()

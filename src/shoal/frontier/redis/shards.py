"""Splitting a call: by shard, and into calls of a bounded size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

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

"""Batches and lanes that nothing else leads to, found by the names of their keys."""

import re
import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import unpack_host
from shoal.frontier.redis.scan import SLICE, ShardScan
from shoal.redis_client import RedisClient

_BATCH = re.compile(r"l:(\d+)")
_FRESH = re.compile(r"q:(\d+):(.*?):\d+:(.*)", re.DOTALL)
_SORTED = re.compile(r"([wx]):(\d+):(.*?):(.*)", re.DOTALL)
_LINE = re.compile(r"(x?)li:(\d+):(.*)", re.DOTALL)


class LooseLane(NamedTuple):
    crawl: int
    suspect: bool
    pool: str

    def packed(self) -> bytes:
        """Pack it for repair_hosts.lua."""
        pool = self.pool.encode()
        return struct.pack(">IBB", self.crawl, self.suspect, len(pool)) + pool


class Loose:
    """What was found in a shard: all batches, and lanes that their hosts do not know of."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.lanes: defaultdict[str, set[LooseLane]] = defaultdict(set)  # by host


async def look_for_loose(store: RedisClient) -> defaultdict[str, Loose]:
    """Go through the names of all keys, once for all shards: a server gives them in no order."""
    loose: defaultdict[str, Loose] = defaultdict(Loose)
    gathered: defaultdict[str, list[tuple[str, LooseLane]]] = defaultdict(list)
    tags = set(store.tags())
    async for key in store.names(f"{{{store.namespace}:*"):
        tag, _, name = key.decode().partition("}:")
        tag += "}"
        if tag not in tags:
            continue
        if found := _BATCH.fullmatch(name):
            loose[tag].tokens.add(found[1])
        elif found := _FRESH.fullmatch(name):
            gathered[tag].append((found[3], LooseLane(int(found[1]), False, found[2])))
        elif found := _SORTED.fullmatch(name):
            gathered[tag].append((found[4], LooseLane(int(found[2]), found[1] == "x", found[3])))
        elif found := _LINE.fullmatch(name):
            lane = LooseLane(int(found[2]), bool(found[1]), found[3])
            async for host, _ in ShardScan(store, tag).sorted(f"{tag}:{name}"):
                gathered[tag].append((host.decode(), lane))
        if len(gathered[tag]) >= SLICE:
            await _leave_known(store, tag, gathered.pop(tag), loose[tag])
    for tag, lanes in gathered.items():
        await _leave_known(store, tag, lanes, loose[tag])
    return loose


async def _leave_known(
    store: RedisClient, tag: str, lanes: Sequence[tuple[str, LooseLane]], loose: Loose
) -> None:
    """Take in those that their host does not know of."""
    names = list(dict.fromkeys(host for host, _ in lanes))
    if not names:
        return
    states = await store.do(tag, "HMGET", keys.hosts(tag), *names)
    known = {name: _lanes_of(name, state) for name, state in zip(names, states, strict=True)}
    for host, lane in lanes:
        if lane not in known[host]:
            loose.lanes[host].add(lane)


def _lanes_of(name: str, state: bytes | None) -> set[LooseLane]:
    if state is None:
        return set()
    return {LooseLane(lane.crawl, lane.is_suspect, lane.pool) for lane in unpack_host(name, state).lanes}

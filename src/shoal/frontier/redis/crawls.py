"""Crawls on Redis: beginning one in every shard, taking it up again, sweeping it away."""

from collections.abc import Collection, Mapping
from dataclasses import astuple

from shoal.frontier.redis import keys
from shoal.frontier.redis.packing import fitting, pack_paces
from shoal.frontier.redis.reader import SLICE, RedisReader
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.seen import Approximate
from shoal.frontier.redis.shard_picker import ShardPicker
from shoal.frontier.results import Opened
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.pace import Pace
from shoal.redis_client import RedisClient

Given = list[float | str]  # terms in the order of crawl_options_set.lua; "": not given

_RULES = 6  # fields of SlowdownRules


class RedisCrawls(RedisReader):
    def __init__(self, store: RedisClient, scripts: Scripts, rota: ShardPicker) -> None:
        super().__init__(store, scripts)
        self._rota = rota
        self._opened: dict[str, int] = {}  # name -> number
        self._names: dict[int, str] = {}

    def _opened_number(self, crawl: str) -> int:
        if crawl not in self._opened:
            raise Misconfigured(f"no crawl named {crawl!r} is open")
        return self._opened[crawl]

    async def open_crawl(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        approximate: Approximate | None = None,
        state: Mapping[str, bytes] | None = None,
        may_be_new: bool = True,
    ) -> Opened:
        """Create a crawl or take it up again; what is not given stays as it was.

        Others see a new crawl once every shard knows its terms, and not before. Whether it remembers what it
        has seen exactly or approximately is decided when it is new. Raises `Misconfigured` if it is dropped
        meanwhile, or is not there and `may_be_new` is False.
        """
        given = _given(pace, max_crashes, slowdown, host_budget)
        known = (await self._numbers()).get(name)
        if known is None and not may_be_new:
            raise Misconfigured(f"the store has no crawl named {name!r}")
        number = known or await self._store.do(self._home, "HINCRBY", keys.meta(self._home), "crawl", 1)
        await self._everywhere(
            self._set_terms(tag, number, name, given, self._named(tag, hosts)) for tag in self._store.tags()
        )
        if known is not None and (await self._numbers()).get(name) != number:
            await self._sweep(number)  # its terms came after those who dropped it had swept
            raise Misconfigured(f"crawl {name!r} was dropped meanwhile")
        if known is None:
            if approximate is not None:
                bloom = approximate.per_shard(self._store.shards)
                await self._everywhere(
                    self._store.do(
                        tag, "HSET", keys.seen_size(tag, number), "bits", bloom.bits, "hashes", bloom.hashes
                    )
                    for tag in self._store.tags()
                )
            await self._values(name, number, state or {})
            # Of two that begin the same crawl at the same time, the second takes up the first one's.
            # Read back, because an answer that got lost makes the call again: then the first one is our own.
            await self._store.do(self._home, "HSETNX", keys.crawls(self._home), name, number, replicated=True)
            if (await self._numbers()).get(name) != number:
                await self._sweep(number)
                return await self.open_crawl(
                    name,
                    pace=pace,
                    max_crashes=max_crashes,
                    slowdown=slowdown,
                    host_budget=host_budget,
                    hosts=hosts,
                    approximate=approximate,
                )
        self._opened[name] = number
        self._names[number] = name
        self._rota.wake_all()
        return Opened(name, resumed=known is not None)

    def _named(self, tag: str, hosts: Mapping[str, Pace] | None) -> bytes:
        """Pack the hosts of a shard that have another pace; empty: they stay as they were."""
        if hosts is None:
            return b""
        return pack_paces({host: pace for host, pace in hosts.items() if self._store.tag_of(host) == tag})

    async def _set_terms(
        self, tag: str, number: int, name: str, given: Given, named: bytes = b"", *, may_be_new: bool = True
    ) -> None:
        arguments = [number, name, int(may_be_new), *given, named]
        changed = await self._store.run(self._scripts.crawl_options_set, tag, arguments, replicated=True)
        cursor: bytes | None = b"0" if changed == 1 else None
        while cursor is not None:
            cursor = await self._store.run(self._scripts.refresh_hosts, tag, [cursor, SLICE])
            cursor = None if cursor == b"0" else cursor

    async def drop_crawl(self, name: str, *, forget: Collection[str] = (), entirely: bool = False) -> bool:
        """Delete a crawl that is not open here, and the checkpoints named; False: there was none.

        It is gone at once; what it leaves behind is swept away in slices, by whoever comes next if not by us.
        It always goes `entirely`: nothing is kept here for conditional requests.
        """
        if name in self._opened:
            raise Misconfigured(f"crawl {name!r} is open and cannot be dropped")
        number = (await self._numbers()).get(name)
        if number is not None:
            await self._store.do_always(self._home, "SADD", keys.dropped(self._home), number)
            await self._store.do(self._home, "HDEL", keys.crawls(self._home), name)
            tag = self._store.tag_of(name)
            await self._store.do(tag, "UNLINK", keys.values(tag, number))
            if forget:
                await self._store.do(self._home, "HDEL", keys.checkpoints(self._home), *forget)
        await self.sweep_dropped()
        return number is not None

    async def sweep_dropped(self) -> None:
        """Sweep away what dropped crawls have left behind, also where whoever dropped them has died."""
        for left in await self._store.do(self._home, "SMEMBERS", keys.dropped(self._home)):
            await self._sweep(int(left))
            await self._store.do(self._home, "SREM", keys.dropped(self._home), left)

    async def _sweep(self, number: int) -> None:
        await self._everywhere(self._sweep_shard(tag, number) for tag in self._store.tags())

    async def _sweep_shard(self, tag: str, number: int) -> None:
        cursor = b"0"
        while True:
            cursor = await self._store.run(self._scripts.delete_lanes, tag, [number, cursor, SLICE])
            if cursor == b"0":
                break
        while await self._store.run(self._scripts.delete_rest, tag, [number]):
            pass

    async def pause(self, crawl: str) -> None:
        """Lease nothing more from a crawl until `resume`, whoever asks."""
        await self._set_paused(crawl, paused=True)

    async def resume(self, crawl: str) -> None:
        await self._set_paused(crawl, paused=False)

    async def _set_paused(self, crawl: str, *, paused: bool) -> None:
        given = _given(None, None, None, None)
        given[5] = int(paused)
        number = await self.number(crawl)
        await self._everywhere(
            self._set_terms(tag, number, crawl, given, may_be_new=False) for tag in self._store.tags()
        )
        self._rota.wake_all()

    async def crawl_set(self, crawl: str, key: str, value: bytes) -> None:
        """Keep a value with a crawl."""
        await self._values(crawl, self._opened_number(crawl), {key: value})

    async def _values(self, crawl: str, number: int, values: Mapping[str, bytes]) -> None:
        if values:
            tag = self._store.tag_of(crawl)
            pairs = [part for pair in values.items() for part in pair]
            await self._store.do_always(tag, "HSET", keys.values(tag, number), *pairs, replicated=True)


def _given(
    pace: Pace | None, max_crashes: int | None, slowdown: SlowdownRules | None, host_budget: int | None
) -> Given:
    paced: Given = ["", "", ""]
    if pace is not None:
        paced = [pace.interval, fitting(pace.burst), fitting(pace.concurrency)]
    rules: Given = [""] * _RULES if slowdown is None else list(astuple(slowdown))
    return [*paced, _or_nothing(max_crashes), _or_nothing(host_budget), "", *rules]


def _or_nothing(number: int | None) -> float | str:
    return "" if number is None else number

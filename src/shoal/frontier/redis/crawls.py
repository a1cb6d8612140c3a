"""Crawls on Redis: opening one in every shard, pausing it, deleting it."""

from collections.abc import Collection, Container, Mapping
from dataclasses import astuple

from shoal.frontier.generations import Generation
from shoal.frontier.redis import keys
from shoal.frontier.redis.generations import RedisGenerations
from shoal.frontier.redis.packing import clamp_int16, pack_paces
from shoal.frontier.redis.reader import RedisReader
from shoal.frontier.redis.seen import Approximate
from shoal.frontier.redis.shard_client import ShardClient
from shoal.frontier.results import Opened
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Misconfigured
from shoal.model.pace import Pace
from shoal.model.request import FINGERPRINT_KEY
from shoal.model.yields.counts import HISTORY as YIELDS
from shoal.redis_client.fan_out import fan_out

Terms = list[float | str]  # in the order of crawl_options_set.lua; "": unchanged

SLICE = 200  # hosts or letters that one call changes
_RULES = 6  # fields of SlowdownRules


class RedisCrawls:
    def __init__(self, client: ShardClient, reader: RedisReader) -> None:
        self._client = client
        self._reader = reader
        self._generations = RedisGenerations(client)
        self._store = client.store
        self._scripts = client.scripts
        self._home = client.home

    async def open(
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
        """Create or resume a crawl. Options that are None keep their value.

        Other workers see a new crawl once every shard has its terms, and not before. Whether its seen-set is
        exact or approximate is decided when it is created. Raises `Misconfigured` if the crawl is deleted at
        the same time, or does not exist and `may_be_new` is False.
        """
        terms = _terms(pace, max_crashes, slowdown, host_budget)
        known = (await self._client.numbers()).get(name)
        if known is None and not may_be_new:
            raise Misconfigured(f"the store has no crawl named {name!r}")
        number = known or await self._new_number()
        await fan_out(
            self._set_terms(tag, number, name, terms, self._host_paces(tag, hosts))
            for tag in self._store.tags()
        )
        if known is not None and (await self._client.numbers()).get(name) != number:
            await self._sweep(
                number
            )  # these terms came after the sweep of the process that deleted the crawl
            raise Misconfigured(f"crawl {name!r} was deleted by another process")
        generations = await self._generations.read(name)
        if known is None:
            if generations.key:  # by which the pages of earlier generations are found
                state = {**(state or {}), FINGERPRINT_KEY: generations.key}
            if generations.yields:
                state = {**(state or {}), YIELDS: generations.yields}
            if approximate is not None:
                bloom = approximate.per_shard(self._store.shards)
                await fan_out(
                    self._store.do(
                        tag, "HSET", keys.seen_size(tag, number), "bits", bloom.bits, "hashes", bloom.hashes
                    )
                    for tag in self._store.tags()
                )
            await self.store_values(name, number, state or {})
            # If two processes create the same crawl at the same time, the second resumes the first one's. The
            # number is read back because a lost reply repeats the call: then the existing entry is our own.
            await self._store.do(self._home, "HSETNX", keys.crawls(self._home), name, number, replicated=True)
            if (await self._client.numbers()).get(name) != number:
                await self._sweep(number)
                return await self.open(
                    name,
                    pace=pace,
                    max_crashes=max_crashes,
                    slowdown=slowdown,
                    host_budget=host_budget,
                    hosts=hosts,
                    approximate=approximate,
                )
        self._client.earlier[name] = [one for one in generations.earlier if one.crawl != number]
        self._client.opened[name] = number
        self._client.names[number] = name
        self._client.pickers.wake_all({name})
        return Opened(name, resumed=known is not None)

    async def _new_number(self) -> int:
        """Return a number that no crawl has, even if the shard has lost the last one that it gave out."""
        used = set((await self._client.numbers()).values())
        while True:
            number = int(await self._store.do(self._home, "HINCRBY", keys.meta(self._home), "crawl", 1))
            if number not in used:
                return number

    def _host_paces(self, tag: str, hosts: Mapping[str, Pace] | None) -> bytes:
        """Pack the hosts of a shard that have another pace; empty: they stay unchanged."""
        if hosts is None:
            return b""
        return pack_paces({host: pace for host, pace in hosts.items() if self._store.tag_of(host) == tag})

    async def _set_terms(
        self,
        tag: str,
        number: int,
        name: str,
        terms: Terms,
        host_paces: bytes = b"",
        *,
        may_be_new: bool = True,
    ) -> None:
        arguments = [number, name, int(may_be_new), *terms, host_paces]
        changed = await self._store.run(self._scripts.crawl_options_set, tag, arguments, replicated=True)
        cursor: bytes | None = b"0" if changed == 1 else None
        while cursor is not None:
            cursor = await self._store.run(self._scripts.refresh_hosts, tag, [cursor, SLICE])
            cursor = None if cursor == b"0" else cursor

    async def delete(
        self, name: str, *, checkpoints: Collection[str] = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        """Delete a crawl that is not open here, and the named checkpoints; return False if there is no such
        crawl.

        The crawl disappears at once. Its keys are deleted in slices; if this process dies before the end,
        the next `delete` or `repair` continues. Unless `entirely`, its pages become an earlier generation of
        the next crawl of that name, and `keep` of these stay.
        """
        if name in self._client.opened:
            raise Misconfigured(f"crawl {name!r} is open and cannot be deleted")
        number = (await self._client.numbers()).get(name)
        if number is not None:
            if entirely:
                await self._generations.forget(name)
            else:
                await self._end_generation(name, number, keep)
            await self._store.do_always(self._home, "SADD", keys.dropped(self._home), number)
            await self._store.do(self._home, "HDEL", keys.crawls(self._home), name)
            tag = self._store.tag_of(name)
            await self._store.do(tag, "UNLINK", keys.values(tag, number))
            if checkpoints:
                await self._store.do(self._home, "HDEL", keys.checkpoints(self._home), *checkpoints)
        await self.sweep_deleted()
        return number is not None

    async def _end_generation(self, name: str, number: int, keep: int) -> None:
        counts = await self._reader.counts(name)
        values = (BEGAN, FINGERPRINT_KEY, YIELDS)
        began, key, yields = [await self._reader.value(name, value) for value in values]
        finished = counts.open == 0 and counts.done > 0  # a site that was down has shown nothing
        ended = Generation(0, float(began or 0.0), finished, number)
        await self._generations.end(name, ended, key=key or b"", keep=keep, yields=yields or b"")

    async def unlisted(self) -> list[int]:
        """Return the numbers of crawls that have counters and neither a name nor a deletion in progress."""
        listed = set((await self._client.numbers()).values())
        dropped = await self._store.do(self._home, "SMEMBERS", keys.dropped(self._home))
        [last] = await self._store.do(self._home, "HMGET", keys.meta(self._home), "crawl")
        known = listed | {int(number) for number in dropped}
        unknown = [number for number in range(1, int(last or 0) + 1) if number not in known]
        found: set[int] = set()
        for tag in self._store.tags():
            exist = [("EXISTS", keys.counters(tag, number)) for number in unknown]
            answers = await self._store.pipeline(tag, exist)
            found |= {number for number, exists in zip(unknown, answers, strict=True) if exists}
        return sorted(found)

    async def deleting(self) -> bool:
        """Return whether any crawl is being deleted right now."""
        return bool(await self._store.do(self._home, "SCARD", keys.dropped(self._home)))

    async def sweep_deleted(self) -> None:
        """Delete the remaining keys of deleted crawls, also of those whose deletion was interrupted."""
        for number in await self._store.do(self._home, "SMEMBERS", keys.dropped(self._home)):
            await self._sweep(int(number))
            await self._store.do(self._home, "SREM", keys.dropped(self._home), number)

    async def _sweep(self, number: int) -> None:
        kept = await self._generations.numbers_kept()
        await fan_out(self._sweep_shard(tag, number, kept) for tag in self._store.tags())

    async def _sweep_shard(self, tag: str, number: int, kept: Container[int]) -> None:
        cursor = b"0"
        while True:
            cursor = await self._store.run(self._scripts.delete_lanes, tag, [number, cursor, SLICE])
            if cursor == b"0":
                break
        while await self._store.run(self._scripts.delete_rest, tag, [number]):
            pass
        if number not in kept:
            await self._store.do(tag, "UNLINK", keys.histories(tag, number))

    async def pause(self, crawl: str) -> None:
        """Stop leasing from a crawl until `resume`, in all workers."""
        await self._set_paused(crawl, paused=True)

    async def resume(self, crawl: str) -> None:
        await self._set_paused(crawl, paused=False)

    async def _set_paused(self, crawl: str, *, paused: bool) -> None:
        terms = _terms(None, None, None, None)
        terms[5] = int(paused)
        number = await self._client.number(crawl)
        await fan_out(
            self._set_terms(tag, number, crawl, terms, may_be_new=False) for tag in self._store.tags()
        )
        self._client.pickers.wake_all({crawl})

    async def set_value(self, crawl: str, key: str, value: bytes) -> None:
        """Store a value with an open crawl."""
        await self.store_values(crawl, self._client.opened_number(crawl), {key: value})

    async def store_values(self, crawl: str, number: int, values: Mapping[str, bytes]) -> None:
        if values:
            tag = self._store.tag_of(crawl)
            pairs = [part for pair in values.items() for part in pair]
            await self._store.do_always(tag, "HSET", keys.values(tag, number), *pairs, replicated=True)


def _terms(
    pace: Pace | None, max_crashes: int | None, slowdown: SlowdownRules | None, host_budget: int | None
) -> Terms:
    paced: Terms = ["", "", ""]
    if pace is not None:
        paced = [pace.interval, clamp_int16(pace.burst), clamp_int16(pace.concurrency)]
    rules: Terms = [""] * _RULES if slowdown is None else list(astuple(slowdown))
    return [*paced, _or_empty(max_crashes), _or_empty(host_budget), "", *rules]


def _or_empty(number: int | None) -> float | str:
    return "" if number is None else number

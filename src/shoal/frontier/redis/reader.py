"""Reading the frontier on Redis, without changing what is queued."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence

from shoal.frontier.generations import Generation
from shoal.frontier.redis import keys
from shoal.frontier.redis.audit import audit
from shoal.frontier.redis.dead_letters import Ordered, letters_in
from shoal.frontier.redis.generations import RedisGenerations
from shoal.frontier.redis.history import HistorySearch, RequestListing
from shoal.frontier.redis.records import unpack_fp, unpack_parsing
from shoal.frontier.redis.scan import ShardScan
from shoal.frontier.redis.seen import false_positive_share
from shoal.frontier.redis.shard_client import ShardClient
from shoal.frontier.redis.views import view_of, views_in
from shoal.frontier.results import (
    Audit,
    Counts,
    CrawlStats,
    DeadLetter,
    HostQueue,
    HostView,
    LetterPosition,
    ListedRequest,
    RequestHistory,
)
from shoal.model.crawl_totals import BEGAN
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord
from shoal.model.request import Link
from shoal.redis_client import ScriptFault
from shoal.redis_client.fan_out import fan_out

log = logging.getLogger(__name__)

POOL = "pool"  # prefix of the counters of what waits in pools other than http
ITEMS = "items"  # a counter
_NOT_IN_COUNTS = ("purged", ITEMS)  # counters that are not fields of `Counts`


class RedisReader:
    def __init__(self, client: ShardClient) -> None:
        self._client = client
        self._store = client.store
        self._scripts = client.scripts

    # --- crawls ----------------------------------------------------------------------------------

    async def crawls(self) -> list[str]:
        """Return the names of all crawls, oldest first."""
        return [name for name, _ in sorted((await self._client.numbers()).items(), key=lambda pair: pair[1])]

    async def number(self, crawl: str) -> int:
        """Return the number that stands for a crawl in the names of keys."""
        return await self._client.number(crawl)

    async def paused(self, crawl: str) -> bool:
        tag = self._store.tag_of(crawl)
        terms = await self._store.do(tag, "HGET", keys.crawl_options(tag), await self.number(crawl))
        return terms is not None and bool(terms[keys.PAUSED_AT])

    async def value(self, crawl: str, key: str) -> bytes | None:
        tag, number = self._store.tag_of(crawl), await self.number(crawl)
        found: bytes | None = await self._store.do(tag, "HGET", keys.values(tag, number), key)
        return found

    async def values(self, crawl: str) -> dict[str, bytes]:
        """Return all values that are stored with a crawl."""
        tag, number = self._store.tag_of(crawl), await self.number(crawl)
        found = await self._store.do(tag, "HGETALL", keys.values(tag, number))
        pairs = zip(found[::2], found[1::2], strict=True)
        return {key.decode(errors="backslashreplace"): value for key, value in pairs}

    async def generations(self, crawl: str) -> list[Generation]:
        """Return the generations that the store has, oldest first; the last one is the current one."""
        number, counts = await self.number(crawl), await self.counts(crawl)
        known = await RedisGenerations(self._client).read(crawl)
        earlier = [one for one in known.earlier if one.crawl != number]
        began = float(await self.value(crawl, BEGAN) or 0.0)
        finished = counts.open == 0 and counts.done > 0
        return [*earlier, Generation(known.last + 1, began, finished, number)]

    async def histories(self, crawl: str, generation: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield fingerprint and record of every request that ended in a generation."""
        numbers = {one.number: one.crawl for one in await self.generations(crawl)}
        for tag in self._store.tags():
            scan = ShardScan(self._store, tag)
            async for fp, packed in scan.hash(keys.histories(tag, numbers.get(generation, 0))):
                yield unpack_fp(fp), packed

    async def checkpoint(self, name: str) -> bytes | None:
        """Return what the last commit stored under `name`."""
        home = self._client.home
        found: bytes | None = await self._store.do(home, "HGET", keys.checkpoints(home), name)
        return found

    async def counts(self, crawl: str) -> Counts:
        """Return the number of requests by state, summed over all shards."""
        number = await self.number(crawl)
        answers = await fan_out(
            self._store.run(self._scripts.counts, tag, [number]) for tag in self._store.tags()
        )
        counts = Counts(mistaken=false_positive_share([seen[:3] for *_, seen in answers]))
        for counters, ended_delays, [*_, lost] in answers:
            counts.lost += int(lost or 0)
            for name, count in zip(counters[::2], counters[1::2], strict=True):
                _count(counts, name.decode(), int(count))
            counts.delayed -= ended_delays
            counts.waiting += ended_delays
        return counts

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Return the number of requests that wait for their turn or for a retry, by pool; no zeros."""
        number = await self.number(crawl)
        found = await fan_out(
            self._store.do(tag, "HGETALL", keys.counters(tag, number)) for tag in self._store.tags()
        )
        waiting: Counter[str] = Counter()
        for counters in found:
            for name, count in zip(counters[::2], counters[1::2], strict=True):
                family, dot, pool = name.decode().partition(".")
                if family == POOL and dot:
                    waiting[pool] += int(count)
                    waiting[keys.HTTP] -= int(count)
                elif name in (b"waiting", b"delayed"):
                    waiting[keys.HTTP] += int(count)
        return dict(+waiting)

    async def items(self, crawl: str) -> int:
        """Return the number of items from pages and hooks, written to an output or not."""
        number = await self.number(crawl)
        found = await fan_out(
            self._store.do(tag, "HGET", keys.counters(tag, number), ITEMS) for tag in self._store.tags()
        )
        return sum(int(count or 0) for count in found)

    async def totals(self, crawl: str) -> dict[str, int]:
        """Return what the pages of a crawl have added to its totals, by name."""
        number = await self.number(crawl)
        sums: Counter[str] = Counter()
        for totals in await fan_out(self._totals_in(tag, number) for tag in self._store.tags()):
            sums.update(totals)
        return dict(sums)

    async def _totals_in(self, tag: str, number: int) -> dict[str, int]:
        """Return the totals of one shard; log what cannot be read, and leave it out."""
        key, totals, fault = keys.totals(tag, number), {}, ""
        try:
            found = await self._store.do(tag, "HGETALL", key)
        except ScriptFault as error:
            found, fault = [], str(error)
        for name, count in zip(found[::2], found[1::2], strict=True):
            try:
                totals[name.decode()] = int(count)
            except ValueError as error:
                fault = str(error)
        if fault:
            log.error("totals.unreadable", extra={"place": key, "why": fault})
        return totals

    # --- requests --------------------------------------------------------------------------------

    async def dead_letters(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        limit: int | None = None,
        before: LetterPosition | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of a crawl, latest first."""
        number = await self.number(crawl)
        shards = [letters_in(self._store, tag, crawl, number, before) for tag in self._client.tags_for(host)]
        left = -1 if limit is None else limit
        async for _, letter in _merged(shards):
            if left == 0:
                return
            if (not classes or letter.kind in classes) and (not host or letter.host == host):
                left -= 1
                yield letter

    async def requests(self, crawl: str, states: Collection[str]) -> AsyncIterator[ListedRequest]:
        """Yield the requests in these states; none that are done, gone or filtered, and none that spilled."""
        async for listed in RequestListing(self._store, crawl, await self.number(crawl)).run(states):
            yield listed

    async def held(self, crawl: str) -> AsyncIterator[Link]:
        """Yield the requests that are held back."""
        async for link in RequestListing(self._store, crawl, await self.number(crawl)).held():
            yield link

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Yield the pages that are not done: those yet to be parsed, and those of dead letters.

        The record of a page that is done is in the archive, not here.
        """
        number = await self.number(crawl)
        for tag in self._store.tags():
            async for fp, packed in ShardScan(self._store, tag).hash(keys.parsing(tag, number)):
                yield unpack_fp(fp), unpack_parsing(packed)[0]
            async for _, letter in letters_in(self._store, tag, crawl, number):
                if letter.page is not None:
                    yield letter.fingerprint, letter.page

    async def audit(self, crawl: str) -> Audit:
        """Recount every set from the data and compare."""
        return await audit(self._store, await self.number(crawl))

    async def history(self, crawl: str, fingerprint: int, *, host: str = "") -> RequestHistory | None:
        """Return the history of one request, or None if the crawl never accepted it.

        With its host, one queue is searched; without, those of all hosts.
        """
        number = await self.number(crawl)
        return await HistorySearch(self._store, self._scripts, crawl, number, fingerprint, host=host).run()

    async def host(self, name: str) -> HostView | None:
        """Return a host with the queue of all crawls, or None if the store has no record of it."""
        reply = await self._store.run(self._scripts.host_get, self._store.tag_of(name), [name, b""])
        return None if reply is None else view_of(reply)

    async def stats(self, crawl: str) -> CrawlStats:
        """Return the queue of a crawl by host. The averages are 0: this backend keeps no page records."""
        return CrawlStats(0, 0.0, 0.0, 0.0, await self._queues({await self.number(crawl)}))

    async def queues(self, max_hosts: int | None = None) -> list[HostQueue] | None:
        """Return the queue of each host over all crawls, or None if there are more than `max_hosts` hosts.

        Every host is read, so with very many hosts this takes long.
        """
        tags = self._store.tags()
        if max_hosts is not None:
            known = await fan_out(self._store.do(tag, "HLEN", keys.hosts(tag)) for tag in tags)
            if sum(map(int, known)) > max_hosts:
                return None
        return await self._queues(set((await self._client.numbers()).values()))

    async def _queues(self, numbers: Collection[int]) -> list[HostQueue]:
        # One shard after the other: shards share servers, and each script makes leases wait behind it.
        views = [await views_in(self._store, self._scripts, tag, numbers) for tag in self._store.tags()]
        return [
            HostQueue(
                view.host,
                view.waiting,
                view.interval,
                view.concurrency,
                view.paused,
                view.rest_until,
                view.crawl_delay,
                view.slow,
            )
            for of_shard in views
            for view in of_shard
        ]


async def _merged(
    shards: Sequence[AsyncIterator[Ordered]],
) -> AsyncIterator[Ordered]:
    """Merge the letters of several shards, each sorted latest first."""
    heads = [(await anext(shard, None), shard) for shard in shards]
    while waiting := [(head, shard) for head, shard in heads if head is not None]:
        latest, source = max(waiting, key=lambda pair: pair[0][1].position)
        yield latest
        heads = [
            (await anext(shard, None), shard) if shard is source else (head, shard) for head, shard in waiting
        ]


def _count(counts: Counts, name: str, count: int) -> None:
    family, dot, which = name.partition(".")
    if family == POOL:
        return
    if not dot:
        if name not in _NOT_IN_COUNTS:
            setattr(counts, name, getattr(counts, name) + count)
    elif count:
        by_name = counts.dead_by_class if family == "dead" else counts.filtered_by_rule
        by_name[which] = by_name.get(which, 0) + count

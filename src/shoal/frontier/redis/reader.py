"""What can be asked of the frontier on Redis without changing what is queued."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from shoal.frontier.redis import keys
from shoal.frontier.redis.audit import audit
from shoal.frontier.redis.history import HistorySearch
from shoal.frontier.redis.records import unpack_fp, unpack_letter, unpack_parsing
from shoal.frontier.redis.scan import ShardScan
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.seen import mistaken
from shoal.frontier.redis.views import view_of, views_in
from shoal.frontier.results import (
    Audit,
    Counts,
    DeadLetter,
    HostQueue,
    HostView,
    Measured,
    RequestHistory,
    StoredRobots,
    Unparsed,
    Validator,
)
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord
from shoal.model.request import unpack
from shoal.redis_client import RedisClient
from shoal.redis_client.fan_out import together

T = TypeVar("T")

SLICE = 200  # letters or pages that one call looks at
ITEMS = "items"  # a counter
POOL = "pool"  # begins the counters of what waits in pools other than HTTP
HTTP = "http"
_NO_STATES = ("purged", ITEMS)  # counters that are no part of `Counts`


class RedisReader:
    def __init__(self, store: RedisClient, scripts: Scripts) -> None:
        self._store = store
        self._scripts = scripts
        self._home = store.tag(0)  # of what belongs to no shard

    # --- crawls ----------------------------------------------------------------------------------

    async def crawls(self) -> list[str]:
        return [name for name, _ in sorted((await self._numbers()).items(), key=lambda known: known[1])]

    async def _numbers(self) -> dict[str, int]:
        found = await self._store.do(self._home, "HGETALL", keys.crawls(self._home))
        return {name.decode(): int(number) for name, number in zip(found[::2], found[1::2], strict=True)}

    async def number(self, crawl: str) -> int:
        """Find the number by which a crawl goes in the names of keys."""
        found = await self._store.do(self._home, "HGET", keys.crawls(self._home), crawl)
        if found is None:
            raise Misconfigured(f"the store has no crawl named {crawl!r}")
        return int(found)

    async def paused(self, crawl: str) -> bool:
        """Say whether a crawl is paused."""
        tag = self._store.tag_of(crawl)
        terms = await self._store.do(tag, "HGET", keys.terms(tag), await self.number(crawl))
        return terms is not None and bool(terms[keys.PAUSED_AT])

    async def crawl_get(self, crawl: str, key: str) -> bytes | None:
        tag, number = self._store.tag_of(crawl), await self.number(crawl)
        found: bytes | None = await self._store.do(tag, "HGET", keys.values(tag, number), key)
        return found

    async def crawl_values(self, crawl: str) -> dict[str, bytes]:
        """Read everything that is kept with a crawl."""
        tag, number = self._store.tag_of(crawl), await self.number(crawl)
        found = await self._store.do(tag, "HGETALL", keys.values(tag, number))
        return {key.decode(): value for key, value in zip(found[::2], found[1::2], strict=True)}

    async def checkpoint(self, name: str) -> bytes | None:
        """Read back what the last commit recorded under `name`."""
        found: bytes | None = await self._store.do(self._home, "HGET", keys.checkpoints(self._home), name)
        return found

    async def counts(self, crawl: str) -> Counts:
        """Count the requests of a crawl by state, over all shards."""
        number = await self.number(crawl)
        answers = await self._everywhere(
            self._store.run(self._scripts.counts, tag, [number]) for tag in self._store.tags()
        )
        counts = Counts(mistaken=mistaken([seen for *_, seen in answers]))
        for counters, ended_delays, _ in answers:
            for name, count in zip(counters[::2], counters[1::2], strict=True):
                _count(counts, name.decode(), int(count))
            counts.delayed -= ended_delays
            counts.waiting += ended_delays
        return counts

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Count the requests that wait for their turn or for a retry, by pool; pools without any are left
        out.
        """
        number = await self.number(crawl)
        found = await self._everywhere(
            self._store.do(tag, "HGETALL", keys.counters(tag, number)) for tag in self._store.tags()
        )
        waiting: Counter[str] = Counter()
        for counters in found:
            for name, count in zip(counters[::2], counters[1::2], strict=True):
                state, dot, pool = name.decode().partition(".")
                if state == POOL and dot:
                    waiting[pool] += int(count)
                    waiting[HTTP] -= int(count)
                elif name in (b"waiting", b"delayed"):
                    waiting[HTTP] += int(count)
        return dict(+waiting)

    async def items(self, crawl: str) -> int:
        """Count the items that pages and hooks have brought, whether or not an output has them yet."""
        number = await self.number(crawl)
        found = await self._everywhere(
            self._store.do(tag, "HGET", keys.counters(tag, number), ITEMS) for tag in self._store.tags()
        )
        return sum(int(count or 0) for count in found)

    async def _everywhere(self, calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        return await together(calls)

    # --- requests --------------------------------------------------------------------------------

    async def dead_letters(
        self, crawl: str, *, kinds: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]:
        """Give the dead letters of a crawl, the latest first."""
        number = await self.number(crawl)
        shards = [self._letters(tag, crawl, number) for tag in tags_of(self._store, host)]
        left = -1 if limit is None else limit
        async for _, letter in _merged(shards):
            if left == 0:
                return
            if (not kinds or letter.kind in kinds) and (not host or letter.host == host):
                left -= 1
                yield letter

    async def _letters(self, tag: str, crawl: str, number: int) -> AsyncIterator[tuple[float, DeadLetter]]:
        """Give a shard's dead letters, each with its place in the order of acceptance, the latest first."""
        end: bytes | str = "+inf"
        seen: set[bytes] = set()
        while True:
            found = await self._store.do(
                tag, "ZRANGE", keys.dates(tag, number), end, "-inf", "BYSCORE", "REV",
                "LIMIT", 0, len(seen) + SLICE, "WITHSCORES",
            )  # fmt: skip
            rows = [(member, score) for member, score in zip(found[::2], found[1::2], strict=True)]
            fresh = [row for row in rows if row[0] not in seen]
            if not fresh:
                return
            fps = [member[8:] for member, _ in fresh]
            packed = await self._store.do(tag, "HMGET", keys.letters(tag, number), *fps)
            for letter in packed:
                if letter is not None:
                    yield unpack_letter(crawl, letter)
            end = fresh[-1][1]  # letters may come and go meanwhile: go on from the instant, not from a rank
            seen = {member for member, score in rows if score == end}

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Show the pages that no parser has been given yet. In a fleet its bus hands them out."""
        number = await self.number(crawl)
        for tag in self._store.tags():
            after = await self._last_delivered(tag)
            while entries := await self._store.do(
                tag, "XRANGE", keys.pages(tag), b"(" + after, "+", "COUNT", SLICE
            ):
                for _, fields in entries:
                    values = dict(zip(fields[::2], fields[1::2], strict=True))
                    held = await self._store.do(tag, "HGET", keys.parsing(tag, number), values[b"fp"])
                    if values[b"crawl"].decode() == crawl and held is not None:
                        page, _, record = unpack_parsing(held)
                        yield Unparsed(record.entry.fingerprint, unpack(record.entry.packed), page, 0)
                after = entries[-1][0]

    async def _last_delivered(self, tag: str) -> bytes:
        if not await self._store.do(tag, "EXISTS", keys.pages(tag)):
            return b"0-0"
        for group in await self._store.do(tag, "XINFO", "GROUPS", keys.pages(tag)):
            told = dict(zip(group[::2], group[1::2], strict=True))
            if told[b"name"].decode() == keys.PARSERS:
                return bytes(told[b"last-delivered-id"])
        return b"0-0"

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Give the pages that are not done: still to be parsed, or kept with a dead letter.

        What is known of a page that is done is in the archive, and not here.
        """
        number = await self.number(crawl)
        for tag in self._store.tags():
            async for fp, packed in ShardScan(self._store, tag).hash(keys.parsing(tag, number)):
                yield unpack_fp(fp), unpack_parsing(packed)[0]
            async for _, letter in self._letters(tag, crawl, number):
                if letter.page is not None:
                    yield letter.fingerprint, letter.page

    async def audit(self, crawl: str) -> Audit:
        """Count every set again from the data and compare."""
        return await audit(self._store, await self.number(crawl))

    async def story(self, crawl: str, fingerprint: int) -> RequestHistory | None:
        """Tell what became of one request, by looking through everything; None: it was never accepted."""
        number = await self.number(crawl)
        return await HistorySearch(self._store, self._scripts, crawl, number, fingerprint).run()

    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> dict[int, Validator]:
        """Find nothing: a fleet keeps no record of pages that are done."""
        return {}

    async def host(self, name: str) -> HostView | None:
        """Show a host with what waits there of all crawls; None: nobody has heard of it, or for long."""
        told = await self._store.run(self._scripts.host_get, self._store.tag_of(name), [name, b""])
        return None if told is None else view_of(told)

    async def measured(self, crawl: str) -> Measured:
        """Say what is left of a crawl by host; what its pages were like is not kept."""
        return Measured(0, 0.0, 0.0, 0.0, await self._queues({await self.number(crawl)}))

    async def queues(self, most: int | None = None) -> list[HostQueue] | None:
        """Say what is left on each host, of all crawls; None: there are more than `most` of them.

        Each host has to be asked for, so with very many this takes long.
        """
        tags = self._store.tags()
        if most is not None:
            known = await self._everywhere(self._store.do(tag, "HLEN", keys.hosts(tag)) for tag in tags)
            if sum(map(int, known)) > most:
                return None
        return await self._queues(set((await self._numbers()).values()))

    async def _queues(self, numbers: Collection[int]) -> list[HostQueue]:
        views = await self._everywhere(
            views_in(self._store, self._scripts, tag, numbers) for tag in self._store.tags()
        )
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

    async def robots_get(self, host: str) -> StoredRobots | None:
        """Recall a host's robots.txt; None: not known, or expired."""
        tag = self._store.tag_of(host)
        found = await self._store.run(self._scripts.robots_get, tag, [host])
        return None if found is None else StoredRobots(float(found[0]), int(found[1]), found[2])


def tags_of(store: RedisClient, host: str) -> list[str]:
    return [store.tag_of(host)] if host else store.tags()


async def _merged(
    shards: Sequence[AsyncIterator[tuple[float, DeadLetter]]],
) -> AsyncIterator[tuple[float, DeadLetter]]:
    """Merge what several shards give, each the latest first."""
    heads = [(await anext(shard, None), shard) for shard in shards]
    while waiting := [(head, shard) for head, shard in heads if head is not None]:
        latest, source = max(waiting, key=lambda pair: (pair[0][1].died_at, pair[0][0]))
        yield latest
        heads = [
            (await anext(shard, None), shard) if shard is source else (head, shard) for head, shard in waiting
        ]


def _count(counts: Counts, name: str, count: int) -> None:
    family, dot, which = name.partition(".")
    if family == POOL:
        return
    if not dot:
        if name not in _NO_STATES:
            setattr(counts, name, getattr(counts, name) + count)
    elif count:
        by_name = counts.dead_by_class if family == "dead" else counts.filtered_by_rule
        by_name[which] = by_name.get(which, 0) + count

"""The public calls of the frontier on Redis: what goes into which shard, and in what order.

A commit adds the links of its pages first, each in the shard of its host, and settles after: where a worker
dies between the two, the page is fetched again and its links are seen already. A settlement, the announcement
of its page and its items are one script. So a settlement that is refused because another worker has reclaimed
its lease may have brought its links; they were on the page, and only come earlier than from the next attempt.
"""

import itertools
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from shoal.frontier.redis import keys, packing
from shoal.frontier.redis import records as stored
from shoal.frontier.redis.hosts import RedisHosts
from shoal.frontier.redis.packing import Held
from shoal.frontier.redis.scripts import SCRIPTS, Scripts
from shoal.frontier.redis.shard_picker import ShardPicker
from shoal.frontier.redis.shards import by_shard, chunks
from shoal.frontier.redis.spill import LaneName, Spilling
from shoal.frontier.results import Added, Committed
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.request import Link
from shoal.redis_client import EPOCH, Full, RedisClient, Script, ScriptArgument

# The largest calls whose script stays within a few milliseconds, in which nobody else is served.
MOST_LINKS, MOST_LEASES = 200, 100


class RedisFrontier(RedisHosts):
    """A frontier that any number of processes share."""

    def __init__(
        self,
        store: RedisClient,
        *,
        scripts: Scripts = SCRIPTS,
        spilling: Spilling | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, scripts, ShardPicker(store.shards, clock))
        self._spilling = spilling or Spilling(store, self._scripts)
        self._calls = (f"{secrets.token_hex(8)}{number:x}" for number in itertools.count())

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncIterator["RedisFrontier"]:
        """Connect to a store."""
        async with RedisClient.open(dsn) as store:
            yield cls(store)

    # --- adding and leasing ----------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen; raise `Full` where the store has no room for them."""
        number = self._opened_number(crawl)
        return await self._add(self._scripts.add, [(number, link) for link in links])

    async def _add(self, script: Script, links: Sequence[tuple[int, Link]]) -> Added:
        shards = by_shard(self._store, links, lambda pair: pair[1].host)
        added = await self._everywhere(self._add_to(tag, script, several) for tag, several in shards.items())
        return Added(sum(one.new for one in added), sum(one.duplicate for one in added))

    async def _add_to(self, tag: str, script: Script, links: Sequence[tuple[int, Link]]) -> Added:
        new = duplicate = 0
        for chunk in chunks(links, MOST_LINKS):
            counted = await self._store.run(script, tag, packing.pack_links(chunk), replicated=True)
            new, duplicate = new + counted[0], duplicate + counted[1]
            if counted[2]:
                raise Misconfigured("the crawl was dropped meanwhile")
        await self._spilling.added(
            tag, Counter(LaneName(crawl, link.pool, link.host) for crawl, link in links)
        )
        self._rota.wake(self._store.shard_of(links[0][1].host))
        return Added(new, duplicate)

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        pools: Sequence[str] = ("http",),
        crawls: Sequence[str] | None = None,
    ) -> Grant:
        """Hand out up to `limit` requests that may go now, until `ttl` seconds from now."""
        numbers = self._opened.values() if crawls is None else map(self._opened_number, crawls)
        wanted = packing.pack_crawls(numbers), packing.pack_names(pools)
        leases: list[Lease] = []
        asked: set[int] = set()
        while (shard := self._rota.pick(asked)) is not None:
            most = min(limit - len(leases), MOST_LEASES)
            found = await self._lease_from(shard, holder, most, ttl, wanted)
            leases += found
            if len(leases) == limit:
                return Grant(leases, 0.0)
            if len(found) < most:
                asked.add(shard)
        return Grant(leases, self._rota.wait)

    async def _lease_from(
        self, shard: int, holder: str, limit: int, ttl: float, wanted: tuple[bytes, bytes]
    ) -> list[Lease]:
        tag = self._store.tag(shard)
        deadline = time.monotonic() + ttl  # before asking: never later than the store's own
        self._hand.forget(before=time.monotonic() - ttl)
        suspect = not self._hand.has_suspect(holder, beside=tag)
        arguments: list[ScriptArgument] = [holder, next(self._calls), limit, ttl, EPOCH, int(suspect)]
        token, leased_until, wait, best, granted, lost, short = await self._store.run(
            self._scripts.lease, tag, [*arguments, *wanted, self._hand.take_landed(tag)]
        )
        self._lose(lost)
        self._rota.heard(shard, found=len(granted), wait=float(wait), best=float(best or "inf"))
        leases = list(stored.unpack_grants(granted, int(token), float(leased_until), self._names))
        for lease in leases:
            self._hand.take(self._id(lease), deadline)
            if lease.crashes:
                self._hand.suspect(self._id(lease), holder, tag)
        if short and await self._spilling.refill(tag, short):
            self._rota.wake(shard)
        return leases

    @property
    def next_look(self) -> float:
        """Seconds after which to ask for work again although nothing happened here: others add, too."""
        return self._rota.next_look

    # --- ending attempts -------------------------------------------------------------------------

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and record, in this order; each part is one step, the whole is not."""
        values = [(crawl, self._opened_number(crawl), kept) for crawl, kept in crawl_state.items()]
        current, stale = self._current(settlements)
        new, duplicate = await self._bring(
            [(self._opened_number(one.lease.crawl), link) for one in current for link in one.links]
        )
        stale += await self._settle(current)
        refused, *counted = await self._acknowledge(acknowledgements)
        if checkpoints:
            pairs = [part for pair in checkpoints.items() for part in pair]
            await self._store.do_always(
                self._home, "HSET", keys.checkpoints(self._home), *pairs, replicated=True
            )
        for crawl, number, kept in values:
            await self._values(crawl, number, kept)
        return Committed(new + counted[0], duplicate + counted[1], stale, refused)

    async def _bring(self, links: Sequence[tuple[int, Link]]) -> tuple[int, int]:
        """Add what pages have brought, also where there is no room: work in hand has to come to its end."""
        try:
            added = await self._add(self._scripts.add, links)
        except Full:
            added = await self._add(self._scripts.add_always, links)
        return added.new, added.duplicate

    def _current(self, settlements: Iterable[Settlement]) -> tuple[list[Settlement], list[Lease]]:
        """Tell settlements of leases that we have from those that we know to be lost, or have settled."""
        current: dict[Held, Settlement] = {}
        stale: list[Lease] = []
        for settlement in settlements:
            held = self._id(settlement.lease)
            if held in self._hand and held not in current:
                current[held] = settlement
            else:
                stale.append(settlement.lease)
        return list(current.values()), stale

    async def _settle(self, settlements: Sequence[Settlement]) -> list[Lease]:
        shards = by_shard(self._store, settlements, lambda one: one.lease.host)
        answers = await self._everywhere(self._settle_in(tag, several) for tag, several in shards.items())
        return [lease for stale in answers for lease in stale]

    async def _settle_in(self, tag: str, settlements: Sequence[Settlement]) -> list[Lease]:
        stale = []
        for chunk in chunks(settlements, MOST_LEASES):
            arguments = packing.pack_settlements([(self._opened[one.lease.crawl], one) for one in chunk])
            answers = await self._store.run(self._scripts.settle, tag, arguments, replicated=True)
            for settlement, accepted in zip(chunk, answers.decode(), strict=True):
                self._hand.lose(self._id(settlement.lease))
                if accepted != "1":
                    stale.append(settlement.lease)
        self._rota.wake(self._store.shard_of(settlements[0].lease.host))
        return stale

    async def _acknowledge(
        self, acknowledgements: Sequence[Acknowledgement]
    ) -> tuple[list[Acknowledgement], int, int]:
        tags = await self._everywhere(map(self._tag_of_page, acknowledgements))
        there = [(tag, one) for tag, one in zip(tags, acknowledgements, strict=True) if tag is not None]
        new, duplicate = await self._bring(
            [(self._opened[one.crawl], link) for _, one in there for link in one.links]
        )
        shards: dict[str, list[Acknowledgement]] = {}
        for tag, one in there:
            shards.setdefault(tag, []).append(one)
        answers = await self._everywhere(
            self._acknowledge_in(tag, several) for tag, several in shards.items()
        )
        accepted = {id(one) for several in answers for one in several}
        return [one for one in acknowledgements if id(one) not in accepted], new, duplicate

    async def _tag_of_page(self, acknowledgement: Acknowledgement) -> str | None:
        """Find the shard in which a page waits to be acknowledged; None: it does not."""
        number = self._opened.get(acknowledgement.crawl)
        if number is None:
            return None
        host = acknowledgement.host
        tags = [self._store.tag_of(host)] if host else self._store.tags()
        fp = stored.pack_fp(acknowledgement.fingerprint)
        found = await self._everywhere(
            self._store.do(tag, "HEXISTS", keys.parsing(tag, number), fp) for tag in tags
        )
        return next((tag for tag, there in zip(tags, found, strict=True) if there), None)

    async def _acknowledge_in(
        self, tag: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledgement]:
        accepted = []
        for chunk in chunks(acknowledgements, MOST_LEASES):
            frame = packing.pack_acknowledgements([(self._opened[one.crawl], one) for one in chunk])
            answers = await self._store.run(self._scripts.acknowledge, tag, [frame], replicated=True)
            accepted += [one for one, done in zip(chunk, answers.decode(), strict=True) if done == "1"]
        return accepted

    async def reannounce(self) -> int:
        """Announce pages again that wait to be parsed and that no stream has any more; return how many."""
        numbers = (await self._numbers()).values()
        return sum(
            await self._everywhere(
                self._reannounce_in(tag, number) for tag in self._store.tags() for number in numbers
            )
        )

    async def _reannounce_in(self, tag: str, crawl: int) -> int:
        again, cursor = 0, b"0"
        while True:
            asked = (crawl, cursor)
            cursor, number = await self._store.run(self._scripts.reannounce, tag, asked, replicated=True)
            again += int(number)
            if cursor == b"0":
                return again

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    # --- leases ----------------------------------------------------------------------------------

    def _id(self, lease: Lease) -> Held:
        return lease.token, self._opened.get(lease.crawl, 0), lease.fingerprint

    def holds(self, lease: Lease) -> bool:
        """Say whether a settlement of this lease may still be accepted, as far as is known here."""
        return self._hand.holds(self._id(lease))

    def landed(self, leases: Sequence[Lease]) -> None:
        """Note that requests are off the wire although they are not settled yet.

        The shard learns it with the next call that concerns leases or hosts.
        """
        for tag, several in by_shard(self._store, leases, lambda lease: lease.host).items():
            self._hand.land(tag, filter(self._hand.__contains__, map(self._id, several)))
            self._rota.wake(self._store.shard_of(several[0].host))

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never nearer; return the leases that are still held."""
        shards = by_shard(self._store, leases, lambda lease: lease.host)
        deadlines: dict[Held, float] = {}
        for told in await self._everywhere(
            self._extend_in(tag, several, ttl) for tag, several in shards.items()
        ):
            deadlines |= told
        return [
            msgspec.structs.replace(lease, leased_until=deadlines[self._id(lease)])
            for lease in leases
            if self._id(lease) in deadlines
        ]

    async def _extend_in(self, tag: str, leases: Sequence[Lease], ttl: float) -> dict[Held, float]:
        renewed: dict[Held, float] = {}
        for chunk in chunks(leases, MOST_LEASES):
            deadline = time.monotonic() + ttl
            answers, lost = await self._store.run(
                self._scripts.extend,
                tag,
                [ttl, packing.pack_held(map(self._id, chunk)), self._hand.take_landed(tag)],
            )
            self._lose(lost)
            for lease, leased_until in zip(chunk, answers, strict=True):
                if leased_until:
                    renewed[self._id(lease)] = float(leased_until)
                    self._hand.extend(self._id(lease), deadline)
                else:
                    self._hand.lose(self._id(lease))
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        return sum(await self._everywhere(self._reclaim_in(tag) for tag in self._store.tags()))

    async def _reclaim_in(self, tag: str) -> int:
        reclaimed = 0
        while lost := await self._store.run(self._scripts.reclaim, tag, [self._hand.take_landed(tag)]):
            self._lose(lost)
            reclaimed += len(lost)
        return reclaimed

    async def repair(self, crawls: Collection[str]) -> list[str]:
        """Put right what scripts that were cut short have left behind; say what, a line for each kind.

        Others may be at work: they wait while a shard is counted.
        """
        from shoal.frontier.redis.repair import repair  # hardly ever needed, and a folder to load

        await self.sweep_dropped()
        numbers = {name: number for name, number in (await self._numbers()).items() if name in crawls}
        return await repair(self._store, self._scripts, numbers)

    def _lose(self, lost: Iterable[bytes]) -> None:
        for packed in lost:
            self._hand.lose(packing.unpack_held(packed))

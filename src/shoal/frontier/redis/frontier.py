"""The frontier on Redis: which call goes to which shard, and in what order.

A commit first adds the links of its pages, each in the shard of its host, and then settles. If a worker dies
between the two, the page is fetched again and its links are already seen. A settlement, the announcement of
its page and its items are one script. So a settlement that is rejected because another worker reclaimed its
lease may have added its links. They were on the page, and only arrive earlier than from the next attempt.
"""

import itertools
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from shoal.frontier.redis import keys, packing, records
from shoal.frontier.redis.crawls import RedisCrawls
from shoal.frontier.redis.dead_letters import RedisDeadLetters
from shoal.frontier.redis.hosts import RedisHosts, RedisPauses
from shoal.frontier.redis.packing import Held
from shoal.frontier.redis.rate_tickets import RateTickets
from shoal.frontier.redis.reader import RedisReader
from shoal.frontier.redis.scripts import SCRIPTS, Scripts
from shoal.frontier.redis.shard_client import ShardClient, by_shard, chunks
from shoal.frontier.redis.shard_picker import ShardPicker
from shoal.frontier.redis.spill import LaneName, Spilling
from shoal.frontier.results import Added, Committed, Unparsed
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.model.generations.page_history import is_done
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.pace import ADDRESS_MARK, DelayEstimate, TurnAnswer, TurnRequest
from shoal.model.request import UNREADABLE, Link, unpack_stored
from shoal.redis_client import EPOCH, Full, RedisClient, Script, ScriptArgument
from shoal.redis_client.fan_out import fan_out

# The largest calls whose script takes a few milliseconds at most; the server serves no other call until then.
MAX_LINKS, MAX_LEASES = 200, 100
SCAN_PAGES = 200  # that one call reads
NEAR_S = 0.02  # a store that answers within this time is nearby
LEASE_AHEAD = 1.5  # delays of the store: see `_lease_ahead`


def share_out(limit: int, shards: int) -> list[int]:
    """Return how many requests to lease from each shard: together never more than `limit`."""
    share, more = divmod(limit, shards)
    return [min(share + (number < more), MAX_LEASES) for number in range(shards)]


class RedisFrontier:
    """A frontier that any number of processes share."""

    def __init__(
        self,
        store: RedisClient,
        *,
        scripts: Scripts = SCRIPTS,
        spilling: Spilling | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client = ShardClient(store, scripts, clock)
        self._store = store
        self._scripts = scripts
        self._pickers, self._held = client.pickers, client.held
        self._spilling = spilling or Spilling(store, scripts)
        self._taker = secrets.token_hex(4)  # the name under which this process takes turns
        self._rate_tickets = RateTickets(store, scripts.rate_ticket, self._taker, clock=clock)
        self._clock = clock
        self._delay = DelayEstimate()  # of lease calls
        self.reader = RedisReader(client)
        self.crawls = RedisCrawls(client, self.reader)
        self.hosts = RedisHosts(client)
        self.dead_letters = RedisDeadLetters(client)
        self.pauses = RedisPauses(client)
        self._calls = (f"{secrets.token_hex(8)}{number:x}" for number in itertools.count())

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncIterator["RedisFrontier"]:
        """Connect to a store."""
        async with RedisClient.open(dsn) as store:
            yield cls(store)

    # --- leasing ---------------------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen; raise `Full` if the store has no memory for them."""
        number = self.client.opened_number(crawl)
        return await self._add(self._scripts.add, [(number, link) for link in links])

    async def readmit(
        self, crawl: str, links: Sequence[Link], rule: FailureClass = FailureClass.ROBOTS
    ) -> int:
        """Queue the links again whose requests a rule had filtered; return how many."""
        number, readmitted = self.client.opened_number(crawl), 0
        unique = {link.fingerprint: link for link in links}
        for tag, several in by_shard(self._store, unique.values(), lambda link: link.host).items():
            for chunk in chunks(several, MAX_LINKS):
                arguments: list[ScriptArgument] = [number, rule.value, packing.pack_readmitted(chunk)]
                readmitted += await self._store.run(self._scripts.readmit, tag, arguments, replicated=True)
        self._pickers.wake_all({crawl})
        return readmitted

    async def _add(self, script: Script, links: Sequence[tuple[int, Link]]) -> Added:
        shards = by_shard(self._store, links, lambda pair: pair[1].host)
        added = await fan_out(self._add_to(tag, script, several) for tag, several in shards.items())
        return Added(sum(one.new for one in added), sum(one.duplicate for one in added))

    async def _add_to(self, tag: str, script: Script, links: Sequence[tuple[int, Link]]) -> Added:
        new = duplicate = 0
        for chunk in chunks(links, MAX_LINKS):
            counted = await self._store.run(script, tag, packing.pack_links(chunk), replicated=True)
            new, duplicate = new + counted[0], duplicate + counted[1]
            if counted[2]:
                raise Misconfigured("the crawl was deleted while links were added")
        await self._spilling.check_lanes(
            tag, Counter(LaneName(crawl, link.pool, link.host) for crawl, link in links)
        )
        names = {self.client.names.get(crawl, "") for crawl, _ in links}
        self._pickers.wake(self._store.shard_of(links[0][1].host), names)
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
        """Lease up to `limit` requests whose host is due, for `ttl` seconds."""
        numbers = self.client.opened.values() if crawls is None else map(self.client.opened_number, crawls)
        crawls_and_pools = packing.pack_crawls(numbers), packing.pack_names(pools)
        leases: list[Lease] = []
        asked: set[int] = set()
        picker = self._pickers.of(None if crawls is None else tuple(crawls))
        while shards := picker.pick(asked, self._shards_at_once(limit - len(leases))):
            wanted = share_out(limit - len(leases), len(shards))
            answers = await fan_out(
                self._lease_from(
                    shard,
                    picker,
                    holder,
                    wanted[number],
                    ttl,
                    crawls_and_pools=crawls_and_pools,
                    suspects=number == 0,
                )
                for number, shard in enumerate(shards)
            )
            for shard, found, most in zip(shards, answers, wanted, strict=True):
                leases += found
                if len(found) < most:
                    asked.add(shard)
            if len(leases) >= limit or (leases and self._is_far):  # another round would keep these waiting
                return Grant(leases, 0.0)
        return Grant(leases, picker.wait)

    def _shards_at_once(self, limit: int) -> int:
        """Return how many shards to ask in one go: one after the other, a store far away takes seconds."""
        return limit if self._is_far else 1

    @property
    def _is_far(self) -> bool:
        return self._delay.typical > NEAR_S

    async def _lease_from(
        self,
        shard: int,
        picker: ShardPicker,
        holder: str,
        limit: int,
        ttl: float,
        *,
        crawls_and_pools: tuple[bytes, bytes],
        suspects: bool,
    ) -> list[Lease]:
        tag = self._store.tag(shard)
        deadline = time.monotonic() + ttl  # taken before the call: never later than the store's deadline
        self._held.drop_expired(before=time.monotonic() - ttl)
        suspect = suspects and not self._held.has_suspect(holder, outside=tag)
        arguments: list[ScriptArgument] = [holder, next(self._calls), limit, ttl, EPOCH, int(suspect)]
        arguments += [*crawls_and_pools, self._held.take_landed(tag), *self._lease_ahead()]
        began = self._clock()
        token, leased_until, wait, best, granted, lost, short = await self._store.run(
            self._scripts.lease, tag, arguments
        )
        self._delay.note(self._clock() - began)
        self._lose(lost)
        picker.record(shard, found=len(granted), wait=float(wait), best=float(best or "inf"))
        leases: list[Lease] = []
        damage = ""
        for found in records.unpack_grants(granted, int(token), float(leased_until), self.client.names):
            if isinstance(found, str):
                damage = found
            else:
                leases.append(found)
                if found.request is UNREADABLE:
                    damage = f"the request of a lease under {token!r} cannot be read"
        for lease in leases:
            self._held.take(self._id(lease), deadline)
            if lease.crashes:
                self._held.add_suspect(self._id(lease), holder, tag)
        if short and await self._spilling.refill(tag, short):
            self._pickers.wake(shard)
        if damage and await self._store.report_damage(tag, damage):
            self._pickers.wake(shard)
        return leases

    def _lease_ahead(self) -> tuple[float, str, float]:
        """Return how early hosts are served, the taker, and its head start at most: for a store far away.

        A lease takes half a delay to arrive here, its request for a turn a whole one to be answered.
        """
        delay = self._delay.typical if self._is_far else 0.0
        return LEASE_AHEAD * delay, self._taker, 2 * delay

    @property
    def next_look(self) -> float:
        """Seconds until `lease` should be called again for all crawls although nothing changed here."""
        return self._pickers.of(None).next_look

    async def turn(self, request: TurnRequest) -> TurnAnswer:
        """Take a turn of a host, or return when to ask again."""
        crawl = self.client.opened_number(request.crawl) if request.crawl else 0
        return await self._rate_tickets.take(request, crawl)

    async def hosts_at(self, address: str, host: str) -> int:
        """Record that a host has an address; return how many hosts have had it lately."""
        tag = self._store.tag_of(f"{ADDRESS_MARK}{address}")
        return int(await self._store.run(self._scripts.address_hosts, tag, [address, host]))

    # --- committing ------------------------------------------------------------------------------

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and store, in this order. Each part is atomic, the whole is not."""
        values = [(crawl, self.client.opened_number(crawl), items) for crawl, items in crawl_state.items()]
        current, stale = self._current(settlements)
        new, duplicate = await self._add_found(
            [(self.client.opened_number(one.lease.crawl), link) for one in current for link in one.links]
        )
        stale += await self._settle(current)
        refused, *counted = await self._acknowledge(acknowledgements)
        if checkpoints:
            pairs = [part for pair in checkpoints.items() for part in pair]
            home = self.client.home
            await self._store.do_always(home, "HSET", keys.checkpoints(home), *pairs, replicated=True)
        for crawl, number, stored_values in values:
            await self.crawls.store_values(crawl, number, stored_values)
        return Committed(new + counted[0], duplicate + counted[1], stale, refused)

    async def _add_found(self, links: Sequence[tuple[int, Link]]) -> tuple[int, int]:
        """Add the links of pages, even if the store is full: pages in progress have to finish."""
        try:
            added = await self._add(self._scripts.add, links)
        except Full:
            added = await self._add(self._scripts.add_always, links)
        return added.new, added.duplicate

    def _current(self, settlements: Iterable[Settlement]) -> tuple[list[Settlement], list[Lease]]:
        """Separate settlements of leases that are held from those of leases known to be lost or settled."""
        current: dict[Held, Settlement] = {}
        stale: list[Lease] = []
        for settlement in settlements:
            held = self._id(settlement.lease)
            if held in self._held and held not in current:
                current[held] = settlement
            else:
                stale.append(settlement.lease)
        return list(current.values()), stale

    async def _settle(self, settlements: Sequence[Settlement]) -> list[Lease]:
        shards = by_shard(self._store, settlements, lambda one: one.lease.host)
        answers = await fan_out(self._settle_in(tag, several) for tag, several in shards.items())
        return [lease for stale in answers for lease in stale]

    async def _settle_in(self, tag: str, settlements: Sequence[Settlement]) -> list[Lease]:
        stale = []
        for chunk in chunks(settlements, MAX_LEASES):
            arguments = packing.pack_settlements(
                [(self.client.opened[one.lease.crawl], one) for one in chunk]
            )
            answers = await self._store.run(self._scripts.settle, tag, arguments, replicated=True)
            for settlement, accepted in zip(chunk, answers.decode(), strict=True):
                self._held.lose(self._id(settlement.lease))
                if accepted != "1":
                    stale.append(settlement.lease)
        self._pickers.wake(self._store.shard_of(settlements[0].lease.host))
        return stale

    async def _acknowledge(
        self, acknowledgements: Sequence[Acknowledgement]
    ) -> tuple[list[Acknowledgement], int, int]:
        tags = await fan_out(map(self._tag_of_page, acknowledgements))
        there = [(tag, one) for tag, one in zip(tags, acknowledgements, strict=True) if tag is not None]
        new, duplicate = await self._add_found(
            [(self.client.opened[one.crawl], link) for _, one in there for link in one.links]
        )
        shards: dict[str, list[Acknowledgement]] = {}
        for tag, one in there:
            shards.setdefault(tag, []).append(one)
        answers = await fan_out(self._acknowledge_in(tag, several) for tag, several in shards.items())
        accepted = {id(one) for several in answers for one in several}
        return [one for one in acknowledgements if id(one) not in accepted], new, duplicate

    async def _tag_of_page(self, acknowledgement: Acknowledgement) -> str | None:
        """Return the tag of the shard in which a page waits to be acknowledged, or None."""
        number = self.client.opened.get(acknowledgement.crawl)
        if number is None:
            return None
        host = acknowledgement.host
        tags = [self._store.tag_of(host)] if host else self._store.tags()
        fp = records.pack_fp(acknowledgement.fingerprint)
        found = await fan_out(self._store.do(tag, "HEXISTS", keys.parsing(tag, number), fp) for tag in tags)
        return next((tag for tag, there in zip(tags, found, strict=True) if there), None)

    async def _acknowledge_in(
        self, tag: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledgement]:
        accepted = []
        for chunk in chunks(acknowledgements, MAX_LEASES):
            frame = packing.pack_acknowledgements([(self.client.opened[one.crawl], one) for one in chunk])
            answers = await self._store.run(self._scripts.acknowledge, tag, [frame], replicated=True)
            accepted += [one for one, done in zip(chunk, answers.decode(), strict=True) if done == "1"]
        return accepted

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages that were not delivered to a parser yet. In a fleet, the bus delivers them."""
        number = await self.client.number(crawl)
        for tag in self._store.tags():
            after = await self._last_delivered(tag)
            while entries := await self._store.do(
                tag, "XRANGE", keys.pages(tag), b"(" + after, "+", "COUNT", SCAN_PAGES
            ):
                for _, fields in entries:
                    values = dict(zip(fields[::2], fields[1::2], strict=True))
                    held = await self._store.do(tag, "HGET", keys.parsing(tag, number), values[b"fp"])
                    if values[b"crawl"].decode() == crawl and held is not None:
                        page, _, record = records.unpack_parsing(held)
                        yield Unparsed(record.entry.fingerprint, unpack_stored(record.entry.packed), page, 0)
                after = entries[-1][0]

    async def _last_delivered(self, tag: str) -> bytes:
        if not await self._store.do(tag, "EXISTS", keys.pages(tag)):
            return b"0-0"
        for group in await self._store.do(tag, "XINFO", "GROUPS", keys.pages(tag)):
            facts = dict(zip(group[::2], group[1::2], strict=True))
            if facts[b"name"].decode() == keys.PARSE_GROUP:
                return bytes(facts[b"last-delivered-id"])
        return b"0-0"

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> dict[int, bytes]:
        """Return the records of these pages in the latest generation that has fetched them.

        `host`: that of all of them; without it, every shard is asked.
        """
        found: dict[int, bytes] = {}
        for generation in reversed(self.client.earlier.get(crawl, ())):
            if left := [fp for fp in fingerprints if fp not in found]:
                found.update(await self._earlier_in(generation.crawl, left, host))
        return found

    async def _earlier_in(self, number: int, fingerprints: Sequence[int], host: str) -> dict[int, bytes]:
        packed = [records.pack_fp(fp) for fp in fingerprints]
        answers = await fan_out(
            self._store.do(tag, "HMGET", keys.histories(tag, number), *packed)
            for tag in self.client.tags_for(host)
        )
        return {
            fp: bytes(history)
            for several in answers
            for fp, history in zip(fingerprints, several, strict=True)
            if history is not None and is_done(history)
        }

    async def reannounce(self) -> int:
        """Announce again the unparsed pages that are in no stream; return how many."""
        numbers = (await self.client.numbers()).values()
        return sum(
            await fan_out(
                self._reannounce_in(tag, number) for tag in self._store.tags() for number in numbers
            )
        )

    async def _reannounce_in(self, tag: str, crawl: int) -> int:
        announced, cursor = 0, b"0"
        while True:
            arguments = (crawl, cursor)
            cursor, number = await self._store.run(self._scripts.reannounce, tag, arguments, replicated=True)
            announced += int(number)
            if cursor == b"0":
                return announced

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts, each with its outcome and the links it found."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End the parsing of pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    # --- leases ----------------------------------------------------------------------------------

    def _id(self, lease: Lease) -> Held:
        return lease.token, self.client.opened.get(lease.crawl, 0), lease.fingerprint

    def holds(self, lease: Lease) -> bool:
        """Return True if, as far as this process knows, a settlement of this lease would be accepted now."""
        return self._held.holds(self._id(lease))

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return the leases whose settlement would be accepted now, as far as this process knows."""
        return [lease for lease in leases if self.holds(lease)]

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        """Do nothing: items travel with their settlement, and the store refuses both or neither."""

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        """Record that requests have left the wire, although they are not settled yet.

        The next call about leases or hosts of the shard reports it.
        """
        for tag, several in by_shard(self._store, leases, lambda lease: lease.host).items():
            self._held.add_landed(tag, filter(self._held.__contains__, map(self._id, several)))
            self._pickers.wake(self._store.shard_of(several[0].host))

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never earlier; return the leases that are still held."""
        shards = by_shard(self._store, leases, lambda lease: lease.host)
        deadlines: dict[Held, float] = {}
        for renewed in await fan_out(self._extend_in(tag, several, ttl) for tag, several in shards.items()):
            deadlines |= renewed
        return [
            msgspec.structs.replace(lease, leased_until=deadlines[self._id(lease)])
            for lease in leases
            if self._id(lease) in deadlines
        ]

    async def _extend_in(self, tag: str, leases: Sequence[Lease], ttl: float) -> dict[Held, float]:
        renewed: dict[Held, float] = {}
        for chunk in chunks(leases, MAX_LEASES):
            deadline = time.monotonic() + ttl
            answers, lost = await self._store.run(
                self._scripts.extend,
                tag,
                [ttl, packing.pack_held(map(self._id, chunk)), self._held.take_landed(tag)],
            )
            self._lose(lost)
            for lease, leased_until in zip(chunk, answers, strict=True):
                if leased_until:
                    renewed[self._id(lease)] = float(leased_until)
                    self._held.extend(self._id(lease), deadline)
                else:
                    self._held.lose(self._id(lease))
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        return sum(await fan_out(self._reclaim_in(tag) for tag in self._store.tags()))

    async def _reclaim_in(self, tag: str) -> int:
        reclaimed = 0
        while lost := await self._store.run(self._scripts.reclaim, tag, [self._held.take_landed(tag)]):
            self._lose(lost)
            reclaimed += len(lost)
        return reclaimed

    def _lose(self, lost: Iterable[bytes]) -> None:
        for packed in lost:
            self._held.lose(packing.unpack_held(packed))

"""Repair: what a script that was cut short has left behind, put right.

Scripts add before they remove, so one that dies half way (a slot that moves away, a bug) leaves something
twice, and counters, hosts or lines that do not agree with the data. From the data everything can be told
again. Shard by shard:

 1. nobody may change the shard while leases and hosts are looked at: each batch gets its deadline, each host
    learns what is on the wire and what its lanes hold, each lane its place in line;
 2. others go on while every request is looked at: what is in two places is left in one, what was forgotten to
    have been seen is remembered. Each is checked and done in one step;
 3. nobody may change the shard while it is counted; then its counters are written.

A shard that is frozen answers FROZEN, and whoever asked waits: seconds, for ten thousand hosts. If the
process that has frozen it dies, it thaws by itself (frozen.lua).

Nothing is deleted that is not somewhere else too. What cannot be told again are numbers with nothing behind
them: retries, crashes, duplicates, items brought.
"""

import re
import secrets
import struct
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from shoal.frontier.redis import keys
from shoal.frontier.redis.audit import Host, unpack_host
from shoal.frontier.redis.chunks import unpacked
from shoal.frontier.redis.packing import unpack_entry, unpack_leased, unpack_letter
from shoal.frontier.redis.places import Places
from shoal.frontier.redis.recount import Found, corrected
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.seen import bucket_of, seen_hash
from shoal.frontier.redis.slices import SLICE, Slices
from shoal.frontier.redis.spill import IN_SERVER
from shoal.model.errors import Misconfigured, Unavailable
from shoal.stores.redis import RedisStore, Script, ScriptArgument

FROZEN_FOR = 10.0  # seconds, as in frozen.lua
RENEW_AFTER = 2.0
HOSTS_AT_ONCE = 100  # a few milliseconds
PARSERS = "parse"

WRONG = {
    "wire": "the number of requests on the wire",
    "unknown": "a lane that its host did not know of",
    "holds": "a lane that held something else than its host said",
    "line": "a lane in the wrong place in line, or in none",
    "chunk": "a lane that did not ask for its next chunk",
}
_FRESH = re.compile(r"q:(\d+):(.*?):\d+:(.*)", re.DOTALL)
_SORTED = re.compile(r"([wx]):(\d+):(.*?):(.*)", re.DOTALL)
_LINE = re.compile(r"(x?)li:(\d+):(.*)", re.DOTALL)


class _Lane(NamedTuple):
    crawl: int
    suspect: bool
    pool: str

    def packed(self) -> bytes:
        pool = self.pool.encode()
        return struct.pack(">IBB", self.crawl, self.suspect, len(pool)) + pool


class _Loose:
    """Names of a shard's keys: batches, and lanes that their hosts do not know of."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.lanes: defaultdict[str, set[_Lane]] = defaultdict(set)  # by host


class Repair:
    def __init__(self, store: RedisStore, scripts: Scripts, crawls: Mapping[str, int]) -> None:
        self._store = store
        self._scripts = scripts
        self._crawls = crawls
        self._id = secrets.token_hex(8)
        self._renewed_at = 0.0
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._counters: defaultdict[str, Counter[str]] = defaultdict(
            Counter
        )  # crawl -> counter -> by how much

    async def run(self) -> list[str]:
        """Put every shard right; say what was wrong, a line for each kind."""
        loose = await self._look_for_loose()
        for tag in self._store.tags():
            async with self._frozen(tag):
                await self._mend_hosts(tag, loose[tag], await self._mend_leases(tag, loose[tag].tokens))
            known = {number: await self._look_at_places(tag, number) for number in self._crawls.values()}
            async with self._frozen(tag):
                await self._mend_hosts(tag, loose[tag], await self._mend_leases(tag, set()))
                for name, number in self._crawls.items():
                    await self._mend_pages(tag, name, number)
                    await self._mend_dates(tag, number)
                    await self._mend_chunk_bodies(tag, number, known[number])
                    await self._mend_counts(tag, name, number)
        return self._told()

    def _note(self, kind: str, example: str = "", number: int = 1) -> None:
        self._kinds[kind] += number
        if example:
            self._examples.setdefault(kind, example)

    def _told(self) -> list[str]:
        lines = []
        for kind, number in self._kinds.items():
            example = f": {self._examples[kind]}" if kind in self._examples else ""
            more = f", and {number - 1} more" if number > 1 and example else ""
            times = f" ({number})" if number > 1 and not example else ""
            lines.append(f"{kind}{example}{more}{times}")
        for crawl, counters in self._counters.items():
            for name, by in counters.items():
                if by:
                    lines.append(f"{crawl}: the counter of {name} was off by {-by:+d}")
        return lines

    # --- who may ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _frozen(self, tag: str) -> AsyncIterator[None]:
        await self._freeze(tag, FROZEN_FOR)
        try:
            yield
        finally:
            await self._freeze(tag, 0)

    async def _freeze(self, tag: str, seconds: float) -> None:
        if not await self._store.run(self._scripts.freeze, tag, [self._id, seconds]):
            raise Misconfigured("somebody else is repairing the store; run it again when they are done")
        self._renewed_at = time.monotonic()

    async def _hold(self, tag: str) -> None:
        """Stay in possession of a shard, between two slices."""
        if time.monotonic() - self._renewed_at > RENEW_AFTER:
            await self._freeze(tag, FROZEN_FOR)

    async def _run(self, script: Script, tag: str, *arguments: ScriptArgument) -> Any:
        """Run a script that only who has frozen a shard may run."""
        answer = await self._store.run(script, tag, [self._id, *arguments])
        if answer is None:
            raise Unavailable("store: took so long to answer that others went on; repair it again")
        self._renewed_at = time.monotonic()
        return answer

    # --- leases, hosts and lines -----------------------------------------------------------------

    async def _look_for_loose(self) -> defaultdict[str, _Loose]:
        """Go through the names of all keys, for batches and lanes that nothing else leads to."""
        loose: defaultdict[str, _Loose] = defaultdict(_Loose)
        gathered: defaultdict[str, list[tuple[str, _Lane]]] = defaultdict(list)
        opening = f"{{{self._store.namespace}:"
        tags = set(self._store.tags())
        async for key in self._store.names(f"{opening}*"):
            tag, _, name = key.decode().partition("}:")
            tag += "}"
            if tag not in tags:
                continue
            if name.startswith("l:"):
                loose[tag].tokens.add(name[2:])
            elif found := _FRESH.fullmatch(name):
                gathered[tag].append((found[3], _Lane(int(found[1]), False, found[2])))
            elif found := _SORTED.fullmatch(name):
                gathered[tag].append((found[4], _Lane(int(found[2]), found[1] == "x", found[3])))
            elif found := _LINE.fullmatch(name):
                lane = _Lane(int(found[2]), bool(found[1]), found[3])
                async for host, _ in Slices(self._store, tag).sorted(f"{tag}:{name}"):
                    gathered[tag].append((host.decode(), lane))
            if len(gathered[tag]) >= SLICE:
                await self._leave_known(tag, gathered.pop(tag), loose[tag])
        for tag, lanes in gathered.items():
            await self._leave_known(tag, lanes, loose[tag])
        return loose

    async def _leave_known(self, tag: str, lanes: Sequence[tuple[str, _Lane]], loose: _Loose) -> None:
        names = list(dict.fromkeys(host for host, _ in lanes))
        if not names:
            return
        states = await self._store.do(tag, "HMGET", f"{tag}:h", *names)
        known = {name: _lanes_of(name, state) for name, state in zip(names, states, strict=True)}
        for host, lane in lanes:
            if lane not in known[host]:
                loose.lanes[host].add(lane)

    async def _mend_leases(self, tag: str, tokens: set[str]) -> Counter[str]:
        """Put batches right; count what is on the wire, by host."""
        dated = {token.decode() async for token, _ in Slices(self._store, tag).sorted(f"{tag}:lx")}
        every = sorted(dated | tokens, key=int)
        for first in range(0, len(every), HOSTS_AT_ONCE):
            wrong = await self._run(self._scripts.mend_leases, tag, *every[first : first + HOSTS_AT_ONCE])
            if wrong:
                self._note(
                    "a batch of leases without its deadline, or a deadline without its batch",
                    number=len(wrong),
                )
        wire: Counter[str] = Counter()
        suspects: Counter[bytes] = Counter()
        for token in every:
            await self._hold(tag)
            held = [pair async for pair in Slices(self._store, tag).hash(f"{tag}:l:{token}")]
            holder = dict(held).get(b"_", b"0")[1:]
            for leased in (unpack_leased(packed) for field, packed in held if field != b"_"):
                wire[leased.record.host] += not leased.landed
                suspects[holder] += leased.record.entry.crashes > 0
        await self._mend_suspects(tag, +suspects)
        return wire

    async def _mend_suspects(self, tag: str, suspects: Mapping[bytes, int]) -> None:
        flat = await self._store.do(tag, "HGETALL", f"{tag}:su")
        told = {holder: int(count) for holder, count in zip(flat[::2], flat[1::2], strict=True)}
        for holder in told.keys() | suspects.keys():
            if told.get(holder, 0) == suspects.get(holder, 0):
                continue
            self._note("a wrong number of suspects", holder.decode())
            if holder in suspects:
                await self._store.do(tag, "HSET", f"{tag}:su", holder, suspects[holder])
            else:
                await self._store.do(tag, "HDEL", f"{tag}:su", holder)

    async def _mend_hosts(self, tag: str, loose: _Loose, wire: Counter[str]) -> None:
        gathered: dict[str, None] = {}
        async for name, _ in Slices(self._store, tag).hash(f"{tag}:h"):
            gathered[name.decode()] = None
            wire.setdefault(name.decode(), 0)
            if len(gathered) == HOSTS_AT_ONCE:
                await self._mend_some(tag, loose, wire, gathered)
                gathered = {}
        seen_hosts = [
            *gathered,
            *(host for host in (*wire, *loose.lanes) if wire[host] or host in loose.lanes),
        ]
        await self._mend_some(tag, loose, wire, dict.fromkeys(seen_hosts))

    async def _mend_some(
        self, tag: str, loose: _Loose, wire: Mapping[str, int], names: Mapping[str, None]
    ) -> None:
        arguments: list[ScriptArgument] = []
        for name in names:
            lanes = b"".join(lane.packed() for lane in loose.lanes.get(name, ()))
            arguments += [name, wire.get(name, 0), lanes]
        for first in range(0, len(arguments), 3 * HOSTS_AT_ONCE):
            part = arguments[first : first + 3 * HOSTS_AT_ONCE]
            wrong = await self._run(self._scripts.mend_hosts, tag, *part)
            for host, pool, what in zip(wrong[::3], wrong[1::3], wrong[2::3], strict=True):
                self._note(WRONG[what.decode()], f"{host.decode()} {pool.decode()}".strip())

    # --- requests --------------------------------------------------------------------------------

    async def _look_at_places(self, tag: str, crawl: int) -> set[int]:
        """Leave each request in one place; return the fingerprints that are in any."""
        places = Places(self._store, self._scripts, tag, crawl)
        await places.run()
        if places.removed:
            self._note("a request in two places", number=places.removed)
        if places.reordered:
            self._note("a request out of the order of its list", number=places.reordered)
        if places.remembered:
            self._note("a request that nobody knew to have been seen", number=places.remembered)
        async for host in self._hosts(tag):
            for lane in host.lanes:
                if lane.crawl == crawl and not lane.flags & 1:
                    await self._mend_chunks(tag, crawl, lane.pool, host.name, places.known)
        return places.known

    async def _hosts(self, tag: str) -> AsyncIterator[Host]:
        async for name, packed in Slices(self._store, tag).hash(f"{tag}:h"):
            yield unpack_host(name.decode(), packed)

    async def _mend_chunks(self, tag: str, crawl: int, pool: str, host: str, known: set[int]) -> None:
        for id in await self._store.do(tag, "ZRANGE", keys.chunks(tag, crawl, pool, host), 0, -1):
            members = await self._members(tag, crawl, id)
            if any(unpack_entry(member).fingerprint in known for member in members):
                arguments: list[ScriptArgument] = [crawl, pool, host, id, *members]
                if await self._store.run(self._scripts.mend_chunk, tag, arguments):
                    self._note("a chunk whose requests wait in their lane as well", f"{host} {pool}")

    async def _members(self, tag: str, crawl: int, id: bytes) -> list[bytes]:
        """Read a chunk that is in the server; others cannot be told to be wrong from here."""
        body = await self._store.do(tag, "HGET", keys.chunk_bodies(tag, crawl), id)
        return unpacked(body[1:]) if body is not None and body.startswith(IN_SERVER) else []

    async def _mend_chunk_bodies(self, tag: str, crawl: int, known: set[int]) -> None:
        """Delete chunks that belong to no lane: they were yet to be registered, or are back."""
        registered: set[bytes] = set()
        async for host in self._hosts(tag):
            for lane in host.lanes:
                if lane.crawl == crawl and lane.flags & 2:
                    key = keys.chunks(tag, crawl, lane.pool, host.name)
                    registered |= set(await self._store.do(tag, "ZRANGE", key, 0, -1))
        async for id, _ in Slices(self._store, tag).hash(keys.chunk_bodies(tag, crawl)):
            if id in registered:
                continue
            members = await self._members(tag, crawl, id)
            if any(unpack_entry(member).fingerprint in known for member in members):
                await self._store.do(tag, "HDEL", keys.chunk_bodies(tag, crawl), id)
                self._note("a chunk that belongs to no lane", id.decode())

    async def _mend_pages(self, tag: str, name: str, crawl: int) -> None:
        """Announce pages again that nobody would be told of; take announcements back that have no page."""
        if self._store.dsn.bus:
            return  # announcements are relayed, and then they are no longer here
        held: dict[bytes, bytes] = {}
        async for fp, packed in Slices(self._store, tag).hash(f"{tag}:pg:{crawl}"):
            [size] = struct.unpack_from(">H", packed)
            held[fp] = packed[6 : 6 + size]
        after = b"-"
        announced: set[bytes] = set()
        while entries := await self._store.do(tag, "XRANGE", keys.pages(tag), after, "+", "COUNT", SLICE):
            for id, fields in entries:
                values = dict(zip(fields[::2], fields[1::2], strict=True))
                announced.add(id)
                if values[b"crawl"].decode() == name and held.get(values[b"fp"]) != id:
                    await self._store.pipeline(
                        tag, [("XACK", keys.pages(tag), PARSERS, id), ("XDEL", keys.pages(tag), id)]
                    )
                    self._note("an announcement of a page that is not there")
            after = b"(" + entries[-1][0]
            await self._hold(tag)
        untold = [fp for fp, id in held.items() if id not in announced]
        for first in range(0, len(untold), HOSTS_AT_ONCE):
            part = untold[first : first + HOSTS_AT_ONCE]
            await self._run(self._scripts.mend_pages, tag, crawl, *part)
            self._note("a page to be parsed that nobody would be told of", number=len(part))

    async def _mend_dates(self, tag: str, crawl: int) -> None:
        slices, dates = Slices(self._store, tag), f"{tag}:dz:{crawl}"
        dated = {member[8:]: member async for member, _ in slices.sorted(dates)}
        async for fp, packed in slices.hash(f"{tag}:d:{crawl}"):
            if dated.pop(fp, None) is None:
                ordinal, letter = unpack_letter("", packed)
                await self._store.do(tag, "ZADD", dates, letter.died_at, struct.pack(">d", ordinal) + fp)
                self._note("a dead letter without a date")
        for member in dated.values():
            await self._store.do(tag, "ZREM", dates, member)
            self._note("a date without a dead letter")

    # --- counters --------------------------------------------------------------------------------

    async def _mend_counts(self, tag: str, name: str, crawl: int) -> None:
        flat = await self._store.do(tag, "HGETALL", f"{tag}:n:{crawl}")
        told = {counter.decode(): int(count) for counter, count in zip(flat[::2], flat[1::2], strict=True)}
        found = await self._recounted(tag, crawl)
        changes = corrected(told, found)
        size: int | str = "" if found.seen is None else found.seen
        pairs = [part for pair in changes.items() for part in pair]
        await self._run(self._scripts.mend_counts, tag, crawl, size, *pairs)
        for counter, count in changes.items():
            self._counters[name][counter] += count - told.get(counter, 0)

    async def _recounted(self, tag: str, crawl: int) -> Found:
        found = Found()
        found.delayed, found.parsing = await self._store.pipeline(
            tag, [("ZCARD", f"{tag}:dl:{crawl}"), ("HLEN", f"{tag}:pg:{crawl}")]
        )
        slices = Slices(self._store, tag)
        async for token, _ in slices.sorted(f"{tag}:lx"):
            async for field, _ in slices.hash(f"{tag}:l:{token.decode()}"):
                found.leased += field != b"_" and field[:4] == crawl.to_bytes(4, "big")
            await self._hold(tag)
        sizes: list[tuple[str, str]] = []
        async for host in self._hosts(tag):
            for lane in host.lanes:
                if lane.crawl == crawl:
                    sizes.append(("ZCARD", lane.returned(tag, host.name)))
                    sizes += [("LLEN", lane.fresh(tag, host.name, band)) for band in lane.bands]
            if len(sizes) >= SLICE:
                found.waiting += sum(await self._store.pipeline(tag, sizes))
                sizes = []
                await self._hold(tag)
        found.waiting += sum(await self._store.pipeline(tag, sizes))
        async for id, _ in slices.hash(keys.chunk_bodies(tag, crawl)):
            found.waiting += int(id.partition(b"-")[0])
        async for _, packed in slices.hash(f"{tag}:d:{crawl}"):
            found.letters[unpack_letter("", packed)[1].kind.value] += 1
        await self._hold(tag)
        found.seen = await self._seen(tag, crawl)
        return found

    async def _seen(self, tag: str, crawl: int) -> int | None:
        """Count what a crawl has seen; None: approximately, so that nobody knows."""
        told = await self._store.do(tag, "HMGET", f"{tag}:sm:{crawl}", "size", "buckets", "bits")
        size, buckets, bits = told
        if bits is not None:
            return None
        number = int(buckets or 1)
        seen = await self._in_buckets(tag, crawl, number)
        if seen != int(size or 0):
            await self._tidy_buckets(tag, crawl, number)
            seen = await self._in_buckets(tag, crawl, number)
        return seen

    async def _in_buckets(self, tag: str, crawl: int, number: int) -> int:
        seen = 0
        for first in range(0, number, SLICE):
            some = range(first, min(first + SLICE, number))
            seen += sum(
                await self._store.pipeline(tag, [("SCARD", f"{tag}:s:{crawl}:{one}") for one in some])
            )
            await self._hold(tag)
        return seen

    async def _tidy_buckets(self, tag: str, crawl: int, number: int) -> None:
        """Take what a split has copied out of the bucket that it was copied from."""
        for bucket in range(number):
            misplaced: defaultdict[int, list[bytes]] = defaultdict(list)
            for member in await self._store.do(tag, "SMEMBERS", f"{tag}:s:{crawl}:{bucket}"):
                if (right := bucket_of(seen_hash(int(member)), number)) != bucket:
                    misplaced[right].append(member)
            for right, members in misplaced.items():
                await self._store.do(tag, "SADD", f"{tag}:s:{crawl}:{right}", *members)
                await self._store.do(tag, "SREM", f"{tag}:s:{crawl}:{bucket}", *members)
            if misplaced:
                self._note("a part of the seen-set that was copied and not moved")
            await self._hold(tag)


def _lanes_of(name: str, state: bytes | None) -> set[_Lane]:
    if state is None:
        return set()
    return {_Lane(lane.crawl, bool(lane.flags & 1), lane.pool) for lane in unpack_host(name, state).lanes}

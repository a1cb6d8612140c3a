"""The levels of hosts as this process knows them, merged with what other processes of the store have seen.

Every process applies what it sees to its copy at once, and to the stored record every few seconds, or as soon
as a level changes; then it also takes over what others have stored. There is no task for that: the request
that finds it due does it. Hosts that need no more than the first level have no record.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from shoal.model.errors import Unavailable
from shoal.model.levels.ladder import PLAIN, rank
from shoal.model.levels.learned import HostLevels, LearnedLevel, LevelOutcome, begin_probe, observe

log = logging.getLogger(__name__)

SYNC_S = 2.0
SWAPS = 5  # tries to change one record that others change at the same time
MAX_UNKNOWN = 20_000  # patterns without a record whose pages are counted
MAX_PENDING = 200  # observations of one host that wait for a store that does not answer
CRAWL = "c/"  # records of crawls; all others are of hosts

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HostLevels).decode
_NO_LEVELS = HostLevels()


class LevelRecords(Protocol):
    """The part of a store that keeps records about levels (`shoal.stores.contract.levels`)."""

    async def changed(self, since: int = 0) -> tuple[int, Mapping[str, bytes | None]]: ...
    async def get(self, key: str) -> bytes | None: ...
    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool: ...


def read_host(host: str, packed: bytes | None) -> HostLevels:
    """Return a stored record; one that cannot be read counts as unknown, and the log says so."""
    try:
        return _NO_LEVELS if packed is None else _decode(packed)
    except msgspec.DecodeError as error:
        log.error("level.record_unreadable", extra={"host": host, "why": str(error)})
        return _NO_LEVELS


async def change_host(
    records: LevelRecords, host: str, change: Callable[[HostLevels], HostLevels]
) -> HostLevels:
    """Change one stored record, also while others do; return it as it is afterwards."""
    for _ in range(SWAPS):
        before = await records.get(host)
        found = read_host(host, before)
        after = change(found)
        packed = _encode(after) if after != _NO_LEVELS else None
        if packed == before or await records.swap(host, before, packed):
            return after
    raise Unavailable(f"other processes keep changing the record of {host}: try again")


class LearnedLevels:
    """`records`: those of the store; None: only this process learns."""

    def __init__(
        self, records: LevelRecords | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.records = records
        self.clock = clock
        self._known: dict[str, HostLevels] = {}
        self._fetched: OrderedDict[tuple[str, str], int] = OrderedDict()  # pages of hosts without a record
        self._pending: dict[str, list[tuple[str, LevelOutcome]]] = {}
        self._version = 0
        self._synced_at = -SYNC_S
        self._syncing = False
        self.urgent = False  # other processes should learn of it at once
        self._available: Collection[str] = ()

    def at(self, host: str, pattern: str) -> LearnedLevel:
        return self._known.get(host, _NO_LEVELS).at(pattern)

    def pin(self, host: str) -> str:
        """Return the level that an operator has set for a host; empty: learned."""
        return self._known.get(host, _NO_LEVELS).pin

    def observe(
        self, host: str, pattern: str, seen: LevelOutcome, available: Collection[str]
    ) -> LearnedLevel:
        """Learn from a page; return what is known of its pattern now."""
        if host not in self._known and seen.cause is None:
            self._count(host, pattern, seen.count)
            return LearnedLevel()
        self._available = available
        if host not in self._known and (count := self._fetched.pop((host, pattern), 0)):
            self._apply(host, pattern, LevelOutcome(PLAIN, count=count))
        before = self.at(host, pattern)
        after = self._apply(host, pattern, seen)
        if (before.level, before.rest_until) != (after.level, after.rest_until):
            self.urgent = True
            _log_change(host, pattern, before, after)
        return after

    def begin_probe(self, host: str, pattern: str) -> None:
        """Note that a page probes: no other one does until it has ended. Others learn of it in time."""
        known = self._known.get(host, _NO_LEVELS)
        self._known[host] = known.with_pattern(
            pattern, begin_probe(known.at(pattern), self.clock()), self.clock()
        )

    def _count(self, host: str, pattern: str, count: int) -> None:
        key = (host, pattern)
        self._fetched[key] = self._fetched.get(key, 0) + count
        if len(self._fetched) > MAX_UNKNOWN:
            self._fetched.popitem(last=False)

    def _apply(self, host: str, pattern: str, seen: LevelOutcome) -> LearnedLevel:
        pending = self._pending.setdefault(host, [])
        known, last = pending[-1] if pending else ("", seen)
        if pending and known == pattern and _is_same(last, seen):
            pending[-1] = pattern, msgspec.structs.replace(last, count=last.count + seen.count)
        else:
            pending.append((pattern, seen))
            del pending[:-MAX_PENDING]
        self._known[host] = _applied(
            self._known.get(host, _NO_LEVELS), [(pattern, seen)], self.clock(), self._available
        )
        return self.at(host, pattern)

    async def sync(self, *, force: bool = False) -> None:
        """Merge what was seen here into the store, and take over what is there, if that is due.

        A store that does not answer costs nothing: it is asked again next time.
        """
        now = time.monotonic()
        if self.records is None:
            self._pending.clear()
            return
        if self._syncing or (force and not self._pending):
            return
        if now - self._synced_at < SYNC_S and not (self.urgent or force):
            return
        self._syncing, self.urgent, self._synced_at = True, False, now
        try:
            await self._write(self.records)
            await self._read(self.records)
        except Unavailable as error:
            log.warning("level.store_unavailable", extra={"why": str(error)})
        finally:
            self._syncing = False

    async def _write(self, records: LevelRecords) -> None:
        while self._pending:
            host, seen = self._pending.popitem()

            def change(stored: HostLevels, seen: list[tuple[str, LevelOutcome]] = seen) -> HostLevels:
                return _applied(stored, seen, self.clock(), self._available)

            try:
                await change_host(records, host, change)
            except BaseException:
                self._pending[host] = seen + self._pending.get(host, [])  # to be merged next time
                raise

    async def _read(self, records: LevelRecords) -> None:
        version, changed = await records.changed(self._version)
        if version < self._version:
            version, changed = await records.changed()
        self._version = version
        for host, packed in changed.items():
            if host.startswith(CRAWL):
                continue
            found = read_host(host, packed)
            if host in self._pending:
                found = _applied(found, self._pending[host], self.clock(), self._available)
            if found == _NO_LEVELS:
                self._known.pop(host, None)
            else:
                self._known[host] = found


def _applied(
    known: HostLevels, seen: list[tuple[str, LevelOutcome]], now: float, available: Collection[str]
) -> HostLevels:
    for pattern, one in seen:
        before = known.before(pattern, one, now)
        known = known.with_pattern(pattern, observe(before, one, now, available), now)
    return known


def _is_same(one: LevelOutcome, other: LevelOutcome) -> bool:
    """Return whether two observations can be counted together."""
    return one.cause is other.cause is None and one.level == other.level and not (one.probe or other.probe)


def _log_change(host: str, pattern: str, before: LearnedLevel, after: LearnedLevel) -> None:
    facts = {"host": host, "pattern": pattern, "level": after.level, "before": before.level, "why": after.why}
    if after.rest_until > before.rest_until:
        log.warning("level.exhausted", extra=facts)
    elif rank(after.level) > rank(before.level):
        log.info("level.raised", extra={**facts, "cause": str(after.cause)})
    else:
        log.info("level.lowered", extra=facts)

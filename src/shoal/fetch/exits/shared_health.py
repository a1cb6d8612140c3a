"""The health of exits as this process knows it, merged with what other processes of the store have seen."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Protocol

import msgspec

from shoal.model.exits import health
from shoal.model.exits.exit import Exit
from shoal.model.exits.health import ExitDelta, ExitRecord

log = logging.getLogger(__name__)

SYNC_S = 1.0
SEEN_S = 30.0  # between two notes that an exit is in use
SWAPS = 5  # tries to merge one record that others change at the same time
MAX_HOST_RECORDS = 2_000
EXIT, HOST = "e/", "h/"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ExitRecord).decode


class ExitRecords(Protocol):
    """The part of a store that keeps small records about exits, for all processes."""

    async def all(self) -> Mapping[str, bytes]: ...
    async def get(self, key: str) -> bytes | None: ...

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record, unless it is not `before` any more; None: no record."""

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        """Replace many records in this way; return the keys of those that were replaced."""


class SharedPart(Protocol):
    """Something else that all processes of a store share."""

    async def sync(self, records: ExitRecords, stored: Mapping[str, bytes], now: float) -> None: ...


def exit_key(exit: str) -> str:
    return f"{EXIT}{exit}"


def host_key_of(exit: str, host: str) -> str:
    return f"{HOST}{exit}/{host}"


def read_records(stored: Mapping[str, bytes]) -> dict[str, ExitRecord]:
    """Return the records about exits and hosts; what cannot be read counts as unknown."""
    found = {}
    for key, packed in stored.items():
        if key.startswith((EXIT, HOST)):
            try:
                found[key] = _decode(packed)
            except msgspec.DecodeError as error:
                log.error("exit.record_unreadable", extra={"entry": key, "why": str(error)})
    return found


async def change_record(
    records: ExitRecords, key: str, change: Callable[[ExitRecord], ExitRecord]
) -> ExitRecord:
    """Change one stored record, also while others do; return it as it is afterwards."""
    return (await change_records(records, {key: change}, await records.all()))[key]


async def change_records(
    records: ExitRecords,
    changes: Mapping[str, Callable[[ExitRecord], ExitRecord]],
    stored: Mapping[str, bytes],
) -> dict[str, ExitRecord]:
    """Change stored records, also while others do; return them as they are afterwards.

    `stored`: all records, as they were just read.
    """
    found: dict[str, ExitRecord] = {}
    left = dict(changes)
    for _ in range(SWAPS):
        known = read_records({key: stored[key] for key in left if key in stored})
        after = {key: change(known.get(key, ExitRecord())) for key, change in left.items()}
        found |= after
        packed = {key: (stored.get(key), _encode(record)) for key, record in after.items()}
        swaps = {key: (before, new) for key, (before, new) in packed.items() if before != new}
        replaced = await records.swap_all(swaps) if swaps else ()
        left = {key: left[key] for key in swaps if key not in replaced}
        if not left:
            return found
        stored = await records.all()
    known = read_records({key: stored[key] for key in left if key in stored})
    return found | {key: known.get(key, ExitRecord()) for key in left}


class SharedHealth:
    def __init__(
        self,
        exits: Sequence[Exit],
        records: ExitRecords | None = None,
        *,
        cool_off: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._exits = exits
        self._records = records
        self._cool_off = cool_off
        self._clock = clock
        self.also: list[SharedPart] = []  # are merged at the same time
        self._known: dict[str, ExitRecord] = {}
        self.resting: set[str] = set()  # keys of what rests, is to be probed, or is being probed
        self._deltas: dict[str, ExitDelta] = {}
        self._probes: set[str] = set()
        self._synced_at = self._seen_at = -1e9
        self._syncing = False
        self._began = clock()
        self._fresh = True  # nothing was read from the store yet

    @property
    def records(self) -> ExitRecords | None:
        return self._records

    def get(self, key: str) -> ExitRecord | None:
        return self._known.get(key)

    def succeed(self, key: str, *, only_known: bool = False) -> None:
        """Record a success; `only_known`: not if nothing is wrong with it, so that records stay few."""
        if only_known and key not in self._known:
            return
        self._deltas.setdefault(key, ExitDelta()).succeed()
        self._apply(key, ExitDelta(successes=1))

    def fail(self, key: str, why: str, *, login: bool = False, times: int = 1) -> None:
        for _ in range(times):
            self._deltas.setdefault(key, ExitDelta()).fail(why, login=login)
        self._apply(key, ExitDelta(failures=times, run=times, login=login, why=why))

    def probe(self, key: str) -> None:
        """Record that the next request probes an exit: no other one does until it has ended."""
        self._set(key, health.probed(self._known[key], self._clock()))
        self._probes.add(key)

    def end_probes(self, keys: Sequence[str]) -> None:
        """Return probes: these requests were not sent, and others may probe."""
        for key in keys:
            if (record := self._known.get(key)) is not None and record.probe_until:
                self._set(key, msgspec.structs.replace(record, probe_until=0.0))
                self._probes.discard(key)

    def _apply(self, key: str, delta: ExitDelta) -> None:
        before = self._known.get(key, ExitRecord())
        after = health.merge(before, delta, self._clock(), cool_off=self._cool_off)
        self._set(key, after)
        self._log(key, before, after)

    def _set(self, key: str, record: ExitRecord) -> None:
        self._known[key] = record
        if record.rest_until or record.probe_until:
            self.resting.add(key)
        else:
            self.resting.discard(key)

    def _log(self, key: str, before: ExitRecord, after: ExitRecord) -> None:
        _, name, *host = key.split("/", 2)
        about: dict[str, object] = {"exit": name, **({"host": host[0]} if host else {})}
        if after.rest_until > before.rest_until:
            seconds = round(after.rest_until - self._clock(), 1)
            about |= {"seconds": seconds, "cause": after.cause, "why": after.why}
            log.warning("exit.rested", extra=about)
        elif before.rest_until and not after.rest_until:
            log.info("exit.restored", extra=about)

    async def sync(self, *, force: bool = False) -> None:
        """Merge what was seen here into the store, and take over what is there, if that is due."""
        now = self._clock()
        # Not `<` alone: the clock may have been set back.
        if self._records is None or self._syncing or (0 <= now - self._synced_at < SYNC_S and not force):
            return
        if force and self._fresh and not self._deltas:
            return  # this process has used no exit, and knows nothing better than the others
        self._syncing, self._synced_at = True, now
        deltas, self._deltas = self._deltas, {}
        probes, self._probes = self._probes, set()
        try:
            await self._sync(self._records, now, deltas, probes)
        except BaseException:  # to be merged next time
            for key, delta in self._deltas.items():
                deltas[key] = deltas[key].plus(delta) if key in deltas else delta
            self._deltas = deltas
            raise
        finally:
            self._syncing = False

    async def _sync(
        self, records: ExitRecords, now: float, deltas: dict[str, ExitDelta], probes: set[str]
    ) -> None:
        stored = await records.all()
        for part in self.also:
            await part.sync(records, stored, now)
        known = read_records(stored)
        first, self._fresh = self._fresh, False
        names = {exit_key(exit.name): exit for exit in self._exits}
        unseen = [key for key in names if now - known.get(key, ExitRecord()).seen_at >= SEEN_S]
        changes = {
            key: partial(
                self._change, exit=names.get(key), delta=deltas.get(key), is_probe=key in probes, first=first
            )
            for key in {*deltas, *probes, *unseen, *(names if first else ())}
        }
        known |= await change_records(records, changes, stored)
        if not 0 <= now - self._seen_at < SEEN_S:
            self._seen_at = now
            await self._drop_stale(records, known, stored, now)
        for key, record in known.items():
            # What was seen here may have been logged already.
            if (before := self._known.get(key)) is not None and (key not in deltas or not before.rest_until):
                self._log(key, before, record)
        # What has happened since this began.
        self._known = known
        self.resting = {key for key, record in known.items() if record.rest_until or record.probe_until}
        for key, delta in self._deltas.items():
            before = known.get(key, ExitRecord())
            self._set(key, health.merge(before, delta, self._clock(), cool_off=self._cool_off))
        for key in self._probes:
            self._set(key, health.probed(self._known.get(key, ExitRecord()), self._clock()))

    def _change(
        self,
        record: ExitRecord,
        *,
        exit: Exit | None,
        delta: ExitDelta | None,
        is_probe: bool,
        first: bool,
    ) -> ExitRecord:
        now = self._clock()
        if first and record.cause == health.LOGIN and record.last_failure < self._began:
            record = health.restored(record)  # this process may have been started with another password
        if is_probe and delta is None and health.needs_probe(record, now):
            record = health.probed(record, now)
        if delta is not None:
            record = health.merge(record, delta, now, cool_off=self._cool_off)
        if exit is not None:
            record = msgspec.structs.replace(
                record, kind=exit.kind, country=exit.country, seen_at=round(now, 1)
            )
        return record

    async def _drop_stale(
        self, records: ExitRecords, known: dict[str, ExitRecord], stored: Mapping[str, bytes], now: float
    ) -> None:
        """Drop records about hosts that have not changed for long, and the oldest of too many."""
        hosts = sorted(
            (max(record.last_failure, record.rest_until), key)
            for key, record in known.items()
            if key.startswith(HOST)
        )
        extra = max(0, len(hosts) - MAX_HOST_RECORDS)
        stale = [
            key
            for number, (_, key) in enumerate(hosts)
            if (number < extra or health.is_stale(known[key], now)) and key in stored
        ]
        if stale:
            await records.swap_all({key: (stored[key], None) for key in stale})
        for key in stale:
            del known[key]

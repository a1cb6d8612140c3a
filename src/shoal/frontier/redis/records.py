"""Values of the store, unpacked as keys.py documents them."""

import struct
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from shoal.frontier.redis import keys
from shoal.frontier.results import DeadLetter
from shoal.frontier.rules import LOWEST_BAND, band
from shoal.model.errors import Rejected
from shoal.model.failure import FailureClass, split_text
from shoal.model.outcome import Lease
from shoal.model.page import PageRecord
from shoal.model.request import unpack_stored

RANK = 1 << 42
EMPTY = 255  # instead of the band of a lane's head
PAUSED = 1  # a flag of HOST
SUSPECT, SPILLED, SCHEDULED, RETURNED = 1, 2, 4, 8  # flags of LANE

_double = struct.Struct(">d")
_entry = struct.Struct(">HIHBHB8s")  # the ordinal in two parts: struct has no integer of six bytes
_leased = struct.Struct(">ddBdH")
_letter = struct.Struct(">dHI")
_page = struct.Struct(">HI")
_host = struct.Struct(">ddddddHHHIIHBB")
_lane = struct.Struct(">IBBHd")
_dated = struct.Struct(">d8s")
_fingerprint = struct.Struct(">Q")

# What unpacking raises for bytes that no Shoal has packed.
UNREADABLE = (struct.error, IndexError, ValueError, msgspec.MsgspecError, Rejected)

unpack_page = msgspec.msgpack.Decoder(PageRecord).decode


def pack_fp(fingerprint: int) -> bytes:
    return _fingerprint.pack(fingerprint)


def unpack_fp(packed: bytes) -> int:
    return int(_fingerprint.unpack(packed)[0])


class StoredEntry(msgspec.Struct, frozen=True):
    """A waiting request of a lane."""

    ordinal: int
    fingerprint: int
    attempts: int
    crashes: int
    rests: int
    priority: int
    first_at: float | None
    packed: bytes


class StoredRecord(msgspec.Struct, frozen=True):
    """A request outside a lane, with the crawl, host and pool that it belongs to."""

    crawl: int
    host: str
    pool: str
    entry: StoredEntry


class StoredLease(msgspec.Struct, frozen=True):
    leased_until: float
    landed: bool
    interval: float  # of its host, and its burst: the pace under which it was leased
    burst: int
    record: StoredRecord


def unpack_entry(packed: bytes) -> StoredEntry:
    high, low, attempts, crashes, rests, priority, fp = _entry.unpack_from(packed)
    position, first_at = _entry.size, None
    if attempts + rests:
        [first_at] = _double.unpack_from(packed, position)
        position += _double.size
    ordinal = (high << 32) + low
    return StoredEntry(
        ordinal, unpack_fp(fp), attempts, crashes, rests, priority, first_at, packed[position:]
    )


def score_of(packed: bytes) -> int:
    """Return the score of an ENTRY in its lane."""
    entry = unpack_entry(packed)
    return band(entry.priority, entry.attempts) * RANK + entry.ordinal


def _short_at(packed: bytes, position: int) -> tuple[str, int]:
    end = position + 1 + packed[position]
    return packed[position + 1 : end].decode(), end


def unpack_record(packed: bytes, position: int = 0) -> StoredRecord:
    [crawl] = struct.unpack_from(">I", packed, position)
    host, position = _short_at(packed, position + 4)
    pool, position = _short_at(packed, position)
    return StoredRecord(crawl, host, pool, unpack_entry(packed[position:]))


def unpack_leased(packed: bytes, position: int = 0) -> StoredLease:
    leased_until, _, landed, interval, burst = _leased.unpack_from(packed, position)
    record = unpack_record(packed, position + _leased.size)
    return StoredLease(leased_until, bool(landed), interval, burst, record)


def unpack_grants(
    granted: Sequence[bytes], token: int, leased_until: float, names: Mapping[int, str]
) -> Iterator[Lease | str]:
    """Yield the leases that lease.lua granted, or why one cannot be read; `names`: of crawls, by number."""
    for packed in granted:
        try:
            leased = unpack_leased(packed)
            record, entry = leased.record, leased.record.entry
            yield Lease(
                names[record.crawl],
                entry.fingerprint,
                token,
                record.host,
                unpack_stored(entry.packed),
                entry.attempts + 1,
                entry.crashes,
                entry.rests,
                leased_until,
                leased.interval,
                leased.burst,
            )
        except (msgspec.DecodeError, struct.error, ValueError, LookupError) as error:
            yield f"a request leased as {token} cannot be read: {error}"


def unpack_letter(crawl: str, packed: bytes) -> tuple[int, DeadLetter]:
    """Return the ordinal of a dead letter, which orders letters by acceptance, and the letter."""
    died_at, status, size = _letter.unpack_from(packed)
    position = _letter.size + size
    page = unpack_page(packed[_letter.size : position]) if size else None
    holder, position = _short_at(packed, position)
    kind, position = _short_at(packed, position)
    [length] = struct.unpack_from(">H", packed, position)
    reason, detail = split_text(packed[position + 2 : position + 2 + length].decode(errors="replace"))
    record = unpack_record(packed, position + 2 + length)
    entry = record.entry
    return entry.ordinal, DeadLetter(
        crawl=crawl,
        fingerprint=entry.fingerprint,
        host=record.host,
        request=unpack_stored(entry.packed),
        kind=FailureClass(kind),
        reason=reason,
        status=status,
        attempts=entry.attempts + entry.rests,
        crashes=entry.crashes,
        first_at=died_at if entry.first_at is None else entry.first_at,
        died_at=died_at,
        holder=holder,
        page=page,
        detail=detail,
        ordinal=entry.ordinal,
    )


def pack_dated(ordinal: float, fingerprint: int) -> bytes:
    """Return the member of T:dz for a dead letter."""
    return _dated.pack(ordinal, pack_fp(fingerprint))


def unpack_parsing(packed: bytes) -> tuple[PageRecord, str, StoredRecord]:
    """Return a page that is not parsed yet, the holder that fetched it, and its request."""
    id_size, size = _page.unpack_from(packed)
    start = _page.size + id_size
    holder, position = _short_at(packed, start + size)
    return unpack_page(packed[start : start + size]), holder, unpack_record(packed, position)


def announced_as(packed: bytes) -> bytes:
    """Return the id of the stream entry that announced such a page."""
    id_size, _ = _page.unpack_from(packed)
    return packed[_page.size : _page.size + id_size]


def chunk_size(id: bytes) -> int:
    """Return the number of requests in a chunk; its id starts with it."""
    return int(id.partition(b"-")[0])


class StoredLane(msgspec.Struct, frozen=True):
    """A lane, as its host records it."""

    crawl: int
    flags: int
    band: int  # of its head
    bands: list[int]  # that have new links
    moment: float
    pool: str

    @property
    def is_suspect(self) -> bool:
        return bool(self.flags & SUSPECT)

    @property
    def has_spilled(self) -> bool:
        return bool(self.flags & SPILLED)

    @property
    def is_scheduled(self) -> bool:
        return bool(self.flags & SCHEDULED)

    @property
    def has_returned(self) -> bool:
        return bool(self.flags & RETURNED)

    def returned(self, tag: str, host: str) -> str:
        name = keys.suspects if self.is_suspect else keys.returned
        return name(tag, self.crawl, self.pool, host)

    def fresh(self, tag: str, host: str, band: int) -> str:
        return keys.fresh(tag, self.crawl, self.pool, host, band)

    def schedule(self, tag: str) -> str:
        return keys.schedule(tag, self.crawl, self.pool, suspect=self.is_suspect)


class StoredHost(msgspec.Struct, frozen=True):
    """What a host records of its lanes, and whether they may be served."""

    name: str
    ready: float
    inflight: int
    open: bool
    lanes: list[StoredLane]
    packed_bytes: int = 0  # that it was unpacked from


def unpack_host(name: str, packed: bytes) -> StoredHost:
    """Unpack HOST and its lanes."""
    tat, _, rest_until, _, interval, _, burst, concurrency, inflight, *_, flags, _ = _host.unpack_from(packed)
    position, lanes = _host.size, []
    while position < len(packed):
        crawl, lane_flags, head, fresh, moment = _lane.unpack_from(packed, position)
        pool, position = _short_at(packed, position + _lane.size)
        bands = [one for one in range(LOWEST_BAND + 1) if fresh >> one & 1]
        lanes.append(StoredLane(crawl, lane_flags, head, bands, moment, pool))
    ready = max(rest_until, tat - (burst - 1) * interval)
    return StoredHost(name, ready, inflight, inflight < concurrency and not flags & PAUSED, lanes, position)

"""What travels between client and scripts, and what lies in the store: packed as keys.py says."""

import itertools
import operator
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never

import msgspec

from shoal.frontier.answers import DeadLetter
from shoal.frontier.redis.seen import seen_hash
from shoal.frontier.rules import answered, band
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Lease,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.page import Item, PageRecord
from shoal.model.request import Link, unpack

DONE, FETCHED, GONE, FILTERED, DEAD, RETRY, RELEASED = range(1, 8)
BLOCKED, SENT, ANSWERED = 1, 2, 4
RANK = 1 << 42

_double = struct.Struct(">d")
_held = struct.Struct(">dI8s")
_dated = struct.Struct(">d8s")
_entry = struct.Struct(">HIHBHB8s")  # the ordinal in two parts: there is no integer of six bytes
_new = struct.Struct(
    ">5xB8s"
)  # the same for a link: without the ordinal, which it is given, and nothing counted yet
_leased = struct.Struct(">ddBdH")
_letter = struct.Struct(">dHI")
_fingerprint = struct.Struct(">Q")

_pack = msgspec.msgpack.Encoder().encode
unpack_page = msgspec.msgpack.Decoder(PageRecord).decode
unpack_items = msgspec.msgpack.Decoder(list[Item]).decode


def pack_fp(fingerprint: int) -> bytes:
    return _fingerprint.pack(fingerprint)


def unpack_fp(packed: bytes) -> int:
    return int(_fingerprint.unpack(packed)[0])


def _short(text: str) -> bytes:
    """Pack a text of at most 255 bytes; a name that is longer can never be queued."""
    encoded = text.encode()
    if len(encoded) > 255:
        raise Rejected(f"a host, pool or rule has more than 255 bytes: {text[:80]}")
    return bytes((len(encoded),)) + encoded


def _long(packed: bytes) -> bytes:
    return struct.pack(">I", len(packed)) + packed


class _Run(NamedTuple):
    """Links of one lane and one band that come after one another."""

    host: int
    crawl: int
    pool: str
    band: int


# --- into scripts ----------------------------------------------------------------------------------


def pack_links(links: Iterable[tuple[int, Link]]) -> list[bytes]:
    """Pack links, each with the number of its crawl, for add.lua: a frame, and the hosts."""
    hosts: dict[str, int] = {}
    rows: list[tuple[_Run, bytes]] = []
    for place, (crawl, link) in enumerate(links, start=1):
        fp = link.fingerprint
        decimal = b"%d" % fp
        entry = _new.pack(link.priority, pack_fp(fp)) + link.packed
        host = hosts.setdefault(link.host, len(hosts) + 1)
        packed = struct.pack(">HIB", place, seen_hash(fp), len(decimal)) + decimal + _long(entry)
        rows.append((_Run(host, crawl, link.pool, band(link.priority, 0)), packed))
    rows.sort(key=lambda row: row[0].host)  # those of a host come together, and stay in their order
    frame = bytearray()
    runs = 0
    for run, several in itertools.groupby(rows, key=operator.itemgetter(0)):
        found = [packed for _, packed in several]
        frame += struct.pack(">IH", run.crawl, run.host) + _short(run.pool)
        frame += struct.pack(">BH", run.band, len(found)) + b"".join(found)
        runs += 1
    return [struct.pack(">HH", len(rows), runs) + bytes(frame), *map(_name, hosts)]


def _name(text: str) -> bytes:
    return _short(text)[1:]


Held = tuple[int, int, int]  # token, number of the crawl, fingerprint: what a lease goes by


def pack_held(held: Iterable[Held]) -> bytes:
    """Pack which leases are meant."""
    return b"".join(_held.pack(token, crawl, pack_fp(fp)) for token, crawl, fp in held)


def unpack_held(packed: bytes) -> Held:
    token, crawl, fp = _held.unpack(packed)
    return int(token), crawl, unpack_fp(fp)


def pack_settlements(settlements: Sequence[tuple[int, Settlement]]) -> list[bytes]:
    """Pack settlements, each with the number of its crawl, for settle.lua: a frame, and the ids."""
    batches, packed, ids = [], bytearray(), []
    for token, several in itertools.groupby(settlements, key=lambda pair: pair[1].lease.token):
        number = 0
        for crawl, settlement in several:
            code, payload = _pack_outcome(settlement.outcome)
            flags = BLOCKED * settlement.blocked + SENT * settlement.sent + ANSWERED * answered(settlement)
            packed += bytes((code, flags)) + pack_items(settlement.items) + payload
            ids.append(struct.pack(">I8s", crawl, pack_fp(settlement.lease.fingerprint)))
            number += 1
        batches.append(struct.pack(">dH", token, number))
    return [struct.pack(">H", len(batches)) + b"".join(batches) + bytes(packed), *ids]


def _pack_outcome(outcome: Outcome) -> tuple[int, bytes]:
    match outcome:
        case Done():
            return DONE, b""
        case Fetched(page=page):
            return FETCHED, _long(_pack(page))
        case Gone():
            return GONE, b""
        case Filtered(rule=rule):
            return FILTERED, _short(rule.value)
        case Dead(failure=failure, page=page):
            return DEAD, _pack_failure(failure, page)
        case Retry(delay=delay, charged=charged, rest=rest):
            return RETRY, struct.pack(">dBd", delay, charged, rest)
        case Released(delay=delay):
            return RELEASED, _double.pack(delay)
        case _:
            assert_never(outcome)


def _pack_failure(failure: Failure, page: PageRecord | None) -> bytes:
    reason = failure.reason.encode()[:65_535]
    kept = b"" if page is None else _pack(page)
    return b"".join(
        (
            struct.pack(">H", failure.status),
            _short(failure.kind.value),
            struct.pack(">H", len(reason)) + reason,
            _long(kept),
        )
    )


def pack_items(items: Sequence[Item]) -> bytes:
    return _long(_pack(list(items)) if items else b"")


def pack_acknowledgements(acknowledgements: Sequence[tuple[int, Acknowledgement]]) -> bytes:
    """Pack acknowledgements, each with the number of its crawl, for acknowledge.lua."""
    packed = bytearray(struct.pack(">H", len(acknowledgements)))
    for crawl, acknowledgement in acknowledgements:
        code, payload = _pack_outcome(acknowledgement.outcome)
        packed += struct.pack(">I8s", crawl, pack_fp(acknowledgement.fingerprint))
        packed += _short(acknowledgement.consumer) + bytes((code,)) + payload
        packed += pack_items(acknowledgement.items)
    return bytes(packed)


def pack_crawls(crawls: Iterable[int]) -> bytes:
    return b"".join(struct.pack(">I", crawl) for crawl in crawls)


def fitting(number: int) -> int:
    """Give a burst or concurrency that two bytes hold: no host has as many requests out."""
    return min(number, 32_767)


def pack_names(names: Iterable[str]) -> bytes:
    return b"".join(map(_short, names))


def pack_paces(paces: Mapping[str, Pace]) -> bytes:
    """Pack the hosts that have a pace of their own within a crawl, for terms_set.lua."""
    packed = bytearray(struct.pack(">H", len(paces)))
    for host, pace in paces.items():
        packed += _short(host) + struct.pack(
            ">dHH", pace.interval, fitting(pace.burst), fitting(pace.concurrency)
        )
    return bytes(packed)


def pack_replays(letters: Sequence[tuple[int, bool]]) -> bytes:
    """Pack which letters are put back, and which of them are parsed again."""
    return struct.pack(">H", len(letters)) + b"".join(pack_fp(fp) + bytes((again,)) for fp, again in letters)


def pack_ordinals(letters: Iterable[tuple[float, int]]) -> bytes:
    return b"".join(_dated.pack(ordinal, pack_fp(fp)) for ordinal, fp in letters)


# --- out of the store ------------------------------------------------------------------------------


class Entry(msgspec.Struct, frozen=True):
    """A request as it waits in a lane."""

    ordinal: int
    fingerprint: int
    attempts: int
    crashes: int
    rests: int
    priority: int
    first_at: float | None
    packed: bytes


class Record(msgspec.Struct, frozen=True):
    """A request outside a lane: it brings along where it belongs."""

    crawl: int
    host: str
    pool: str
    entry: Entry


class Leased(msgspec.Struct, frozen=True):
    leased_until: float
    landed: bool
    interval: float  # of its host, and its burst: the pace under which it was leased
    burst: int
    record: Record


def unpack_entry(packed: bytes) -> Entry:
    high, low, attempts, crashes, rests, priority, fp = _entry.unpack_from(packed)
    position, first_at = _entry.size, None
    if attempts + rests:
        [first_at] = _double.unpack_from(packed, position)
        position += _double.size
    ordinal = (high << 32) + low
    return Entry(ordinal, unpack_fp(fp), attempts, crashes, rests, priority, first_at, packed[position:])


def score_of(packed: bytes) -> int:
    """Give the place of an ENTRY in its lane."""
    entry = unpack_entry(packed)
    return band(entry.priority, entry.attempts) * RANK + entry.ordinal


def _short_at(packed: bytes, position: int) -> tuple[str, int]:
    end = position + 1 + packed[position]
    return packed[position + 1 : end].decode(), end


def unpack_record(packed: bytes, position: int = 0) -> Record:
    [crawl] = struct.unpack_from(">I", packed, position)
    host, position = _short_at(packed, position + 4)
    pool, position = _short_at(packed, position)
    return Record(crawl, host, pool, unpack_entry(packed[position:]))


def unpack_leased(packed: bytes, position: int = 0) -> Leased:
    leased_until, _, landed, interval, burst = _leased.unpack_from(packed, position)
    record = unpack_record(packed, position + _leased.size)
    return Leased(leased_until, bool(landed), interval, burst, record)


def unpack_grants(
    granted: Sequence[bytes], token: int, leased_until: float, names: Mapping[int, str]
) -> Iterator[Lease]:
    """Give what lease.lua handed out; `names` are those of crawls, by their number."""
    for packed in granted:
        leased = unpack_leased(packed)
        record, entry = leased.record, leased.record.entry
        yield Lease(
            names[record.crawl],
            entry.fingerprint,
            token,
            record.host,
            unpack(entry.packed),
            entry.attempts + 1,
            entry.crashes,
            entry.rests,
            leased_until,
            leased.interval,
            leased.burst,
        )


def unpack_letter(crawl: str, packed: bytes) -> tuple[int, DeadLetter]:
    """Give a dead letter and its place in the order of acceptance."""
    died_at, status, size = _letter.unpack_from(packed)
    position = _letter.size + size
    page = unpack_page(packed[_letter.size : position]) if size else None
    holder, position = _short_at(packed, position)
    kind, position = _short_at(packed, position)
    [length] = struct.unpack_from(">H", packed, position)
    reason = packed[position + 2 : position + 2 + length].decode(errors="replace")
    record = unpack_record(packed, position + 2 + length)
    entry = record.entry
    return entry.ordinal, DeadLetter(
        crawl=crawl,
        fingerprint=entry.fingerprint,
        host=record.host,
        request=unpack(entry.packed),
        kind=FailureClass(kind),
        reason=reason,
        status=status,
        attempts=entry.attempts,
        crashes=entry.crashes,
        first_at=died_at if entry.first_at is None else entry.first_at,
        died_at=died_at,
        holder=holder,
        page=page,
    )


def unpack_parsing(packed: bytes) -> tuple[PageRecord, str, Record]:
    """Give a page that is still to be parsed, who fetched it, and its request."""
    id_size, size = struct.unpack_from(">HI", packed)
    start = 6 + id_size
    holder, position = _short_at(packed, start + size)
    return unpack_page(packed[start : start + size]), holder, unpack_record(packed, position)

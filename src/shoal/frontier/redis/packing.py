"""What travels between client and scripts, and what lies in the store: packed as keys.py says."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from shoal.frontier.answers import DeadLetter
from shoal.frontier.rules import answered
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

_double = struct.Struct(">d")
_held = struct.Struct(">dI8s")
_dated = struct.Struct(">d8s")
_record = struct.Struct(">dI")
_entry = struct.Struct(">HBHB8s6x")  # without the ordinal, which a score or a record has, too
_leased = struct.Struct(">ddB")
_pace = struct.Struct(">dH")
_settlement = struct.Struct(">dI8sBBd")
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


# --- into scripts ----------------------------------------------------------------------------------


def pack_links(links: Iterable[tuple[int, Link]]) -> bytes:
    """Pack links, each with the number of its crawl, for add.lua."""
    lanes: dict[tuple[int, str, str], int] = {}
    packed = bytearray()
    number = 0
    for crawl, link in links:
        lane = lanes.setdefault((crawl, link.host, link.pool), len(lanes) + 1)
        decimal = str(link.fingerprint).encode()
        packed += struct.pack(">HBB", lane, link.priority, len(decimal)) + decimal
        packed += pack_fp(link.fingerprint) + _long(link.packed)
        number += 1
    named = [struct.pack(">I", crawl) + _short(host) + _short(pool) for crawl, host, pool in lanes]
    return b"".join((struct.pack(">H", len(lanes)), *named, struct.pack(">H", number), packed))


Held = tuple[int, int, int]  # token, number of the crawl, fingerprint: what a lease goes by


def pack_held(held: Iterable[Held]) -> bytes:
    """Pack which leases are meant."""
    return b"".join(_held.pack(token, crawl, pack_fp(fp)) for token, crawl, fp in held)


def unpack_held(packed: bytes) -> Held:
    token, crawl, fp = _held.unpack(packed)
    return int(token), crawl, unpack_fp(fp)


def pack_settlements(settlements: Sequence[tuple[int, Settlement]]) -> bytes:
    """Pack settlements, each with the number of its crawl, for settle.lua."""
    packed = bytearray(struct.pack(">H", len(settlements)))
    for crawl, settlement in settlements:
        lease = settlement.lease
        code, payload = _pack_outcome(settlement.outcome)
        flags = BLOCKED * settlement.blocked + SENT * settlement.sent + ANSWERED * answered(settlement)
        fp = pack_fp(lease.fingerprint)
        packed += _settlement.pack(lease.token, crawl, fp, code, flags, lease.interval)
        packed += payload + pack_items(settlement.items)
    return bytes(packed)


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


@dataclass(frozen=True, slots=True)
class Entry:
    """A request as it waits in a lane."""

    fingerprint: int
    attempts: int
    crashes: int
    rests: int
    priority: int
    first_at: float | None
    packed: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """A request outside a lane: it brings along where it belongs."""

    ordinal: float
    crawl: int
    host: str
    pool: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class Leased:
    leased_until: float
    landed: bool
    record: Record


def unpack_entry(packed: bytes) -> Entry:
    attempts, crashes, rests, priority, fp = _entry.unpack_from(packed)
    position, first_at = _entry.size, None
    if attempts + rests:
        [first_at] = _double.unpack_from(packed, position)
        position += _double.size
    return Entry(unpack_fp(fp), attempts, crashes, rests, priority, first_at, packed[position:])


def _short_at(packed: bytes, position: int) -> tuple[str, int]:
    end = position + 1 + packed[position]
    return packed[position + 1 : end].decode(), end


def unpack_record(packed: bytes, position: int = 0) -> Record:
    ordinal, crawl = _record.unpack_from(packed, position)
    host, position = _short_at(packed, position + _record.size)
    pool, position = _short_at(packed, position)
    return Record(ordinal, crawl, host, pool, unpack_entry(packed[position:]))


def unpack_leased(packed: bytes, position: int = 0) -> Leased:
    leased_until, _, landed = _leased.unpack_from(packed, position)
    return Leased(leased_until, bool(landed), unpack_record(packed, position + _leased.size))


def unpack_grants(granted: Sequence[bytes], token: int, leased_until: float) -> Iterator[tuple[int, Lease]]:
    """Give what lease.lua handed out, each with the number of its crawl instead of the name."""
    for packed in granted:
        interval, burst = _pace.unpack_from(packed)
        record = unpack_leased(packed, _pace.size).record
        entry = record.entry
        yield (
            record.crawl,
            Lease(
                "",
                entry.fingerprint,
                token,
                record.host,
                unpack(entry.packed),
                entry.attempts + 1,
                entry.crashes,
                entry.rests,
                leased_until,
                interval,
                burst,
            ),
        )


def unpack_letter(crawl: str, packed: bytes) -> tuple[float, DeadLetter]:
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
    return record.ordinal, DeadLetter(
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

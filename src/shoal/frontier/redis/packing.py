"""Arguments of scripts, packed as the header of each Lua file describes.

Outcomes are applied by `settle.lua` and `acknowledge.lua`. The same rules are in `frontier/sqlite/settle.py`
and in `tests/model/settle.py`; the table of transitions is in `frontier/__init__.py`.
"""

import itertools
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

import msgspec

from shoal.frontier.redis.records import pack_dated, pack_fp, unpack_fp
from shoal.frontier.redis.seen import seen_hash
from shoal.frontier.rules import band, host_signal
from shoal.model.errors import Rejected
from shoal.model.failure import Failure
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.page import Item, PageRecord
from shoal.model.request import Link, Request, pack

DONE, FETCHED, GONE, FILTERED, DEAD, RETRY, RELEASED = range(1, 8)
SENT, HAS_SIGNAL, SIGNAL = 2, 4, 8

_double = struct.Struct(">d")
_held = struct.Struct(">dI8s")
# The ENTRY of a new link: without the ordinal, which add.lua assigns, and with all counters 0.
_new = struct.Struct(">5xB8s")

_SAME = bytes(5)
_pack = msgspec.msgpack.Encoder().encode


def _short(text: str) -> bytes:
    """Pack a text of at most 255 bytes; raise `Rejected` for a longer one, which can never be queued."""
    encoded = text.encode()
    if len(encoded) > 255:
        raise Rejected(f"a host, pool or rule has more than 255 bytes: {text[:80]}")
    return bytes((len(encoded),)) + encoded


def _long(packed: bytes) -> bytes:
    return struct.pack(">I", len(packed)) + packed


class _Run(NamedTuple):
    """Consecutive links of one lane and one band."""

    host: int
    crawl: int
    pool: str
    band: int


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
    rows.sort(key=lambda row: row[0].host)  # links of a host become adjacent and keep their order
    frame = bytearray()
    runs = 0
    for run, several in itertools.groupby(rows, key=operator.itemgetter(0)):
        found = [packed for _, packed in several]
        frame += struct.pack(">IH", run.crawl, run.host) + _short(run.pool)
        frame += struct.pack(">BH", run.band, len(found)) + b"".join(found)
        runs += 1
    return [struct.pack(">HH", len(rows), runs) + bytes(frame), *map(_name, hosts)]


def pack_readmitted(links: Sequence[Link]) -> bytes:
    """Pack links for readmit.lua."""
    packed = bytearray(struct.pack(">H", len(links)))
    for link in links:
        fp = pack_fp(link.fingerprint)
        packed += fp + _short(link.host) + _short(link.pool)
        packed += _long(_new.pack(link.priority, fp) + link.packed)
    return bytes(packed)


def _name(text: str) -> bytes:
    return _short(text)[1:]


Held = tuple[int, int, int]  # token, number of the crawl, fingerprint: identifies a lease


def pack_held(held: Iterable[Held]) -> bytes:
    """Pack the identities of leases."""
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
            flags = SENT * settlement.sent
            if (signal := host_signal(settlement)) is not None:
                flags += HAS_SIGNAL + SIGNAL * signal
            packed += bytes((code, flags)) + pack_items(settlement.items) + pack_tally(settlement.tally)
            packed += pack_history(settlement) + payload
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
        case Retry(delay=delay, charged=charged, rest=rest, instead=instead):
            return RETRY, struct.pack(">dBd", delay, charged, rest) + _pack_replacement(instead)
        case Released(delay=delay, instead=instead):
            return RELEASED, _double.pack(delay) + _pack_replacement(instead)
        case _:
            assert_never(outcome)


def _pack_replacement(instead: Request | None) -> bytes:
    """Pack the pool and the content of the request that is tried next; empty: as it is."""
    return _SAME if instead is None else _short(instead.pool) + _long(pack(instead))


def _pack_failure(failure: Failure, page: PageRecord | None) -> bytes:
    reason = failure.text.encode()[:65_535]
    packed = b"" if page is None else _pack(page)
    return b"".join(
        (
            struct.pack(">H", failure.status),
            _short(failure.failure_class.value),
            struct.pack(">H", len(reason)) + reason,
            _long(packed),
        )
    )


def pack_items(items: Sequence[Item]) -> bytes:
    return _long(_pack(list(items)) if items else b"")


def pack_history(ended: Settlement | Acknowledgement) -> bytes:
    """Pack what the next generations need to know of a request; empty: nothing."""
    outcome = ended.outcome
    history = outcome.page.history if isinstance(outcome, Done) else ended.history
    return struct.pack(">H", len(history)) + history


def pack_tally(tally: Mapping[str, int]) -> bytes:
    """Pack what a page adds to the totals of its crawl."""
    packed = b"".join(
        _short(name) + struct.pack(">I", min(count, 0xFFFF_FFFF)) for name, count in tally.items()
    )
    return struct.pack(">H", len(packed)) + packed


def pack_acknowledgements(acknowledgements: Sequence[tuple[int, Acknowledgement]]) -> bytes:
    """Pack acknowledgements, each with the number of its crawl, for acknowledge.lua."""
    packed = bytearray(struct.pack(">H", len(acknowledgements)))
    for crawl, acknowledgement in acknowledgements:
        code, payload = _pack_outcome(acknowledgement.outcome)
        packed += struct.pack(">I8s", crawl, pack_fp(acknowledgement.fingerprint))
        packed += _short(acknowledgement.consumer) + bytes((code,)) + payload
        packed += pack_items(acknowledgement.items) + pack_tally(acknowledgement.tally)
        packed += pack_history(acknowledgement)
    return bytes(packed)


def pack_crawls(crawls: Iterable[int]) -> bytes:
    return b"".join(struct.pack(">I", crawl) for crawl in crawls)


def clamp_int16(number: int) -> int:
    """Limit a burst or concurrency to two bytes: no host has that many requests in flight."""
    return min(number, 32_767)


def pack_names(names: Iterable[str]) -> bytes:
    return b"".join(map(_short, names))


def pack_paces(paces: Mapping[str, Pace]) -> bytes:
    """Pack the paces of single hosts of a crawl, for crawl_options_set.lua."""
    packed = bytearray(struct.pack(">H", len(paces)))
    for host, pace in paces.items():
        packed += _short(host) + struct.pack(
            ">dHH", pace.interval, clamp_int16(pace.burst), clamp_int16(pace.concurrency)
        )
    return bytes(packed)


def pack_replays(letters: Sequence[tuple[int, bool]]) -> bytes:
    """Pack which letters are requeued, and which of them are parsed again instead of fetched."""
    return struct.pack(">H", len(letters)) + b"".join(pack_fp(fp) + bytes((again,)) for fp, again in letters)


def pack_ordinals(letters: Iterable[tuple[float, int]]) -> bytes:
    return b"".join(pack_dated(ordinal, fp) for ordinal, fp in letters)

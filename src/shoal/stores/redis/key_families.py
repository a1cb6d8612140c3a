"""Every kind of key of a shared store: its Redis type, and a check whether its entries can be read.

`redis_client/key_names.py` and `frontier/redis/keys.py` describe the keys; a test compares this table with
them. A check takes a field and a value of a hash, a member of a set or a sorted set, an element of a list, a
value of a string, or the id and the packed fields of a stream entry, and raises if a reader would.
"""

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from shoal.frontier.redis import records
from shoal.frontier.redis.chunks import unpack_chunk
from shoal.frontier.redis.generations import unpack_generations
from shoal.frontier.redis.spill import IN_SERVER, LaneName
from shoal.model import crawl_totals
from shoal.model.generations.page_history import unpack_history
from shoal.model.page import Item, PageRecord
from shoal.model.request import unpack
from shoal.model.spider_versions import KEY as VERSIONS
from shoal.model.spider_versions import SpiderVersions
from shoal.stores.contract.heartbeat import Heartbeat

Check = Callable[[bytes, bytes], object]  # member or field, and value

_CRAWL_OPTIONS = struct.Struct(">dHHHIBBddHHdd")
_LEASE_ID_BYTES = 12
_decode_page = msgspec.msgpack.Decoder(PageRecord).decode
_decode_items = msgspec.msgpack.Decoder(list[Item]).decode
_decode_heartbeat = msgspec.msgpack.Decoder(Heartbeat).decode


class Unfit(ValueError):
    """The entry does not have the form that it should have."""


@dataclass(frozen=True, slots=True)
class Family:
    """Keys of one kind. `pattern` matches what follows the tag; its group `crawl` is the crawl's number."""

    name: str
    type: str
    pattern: re.Pattern[str]
    check: Check
    fleet: bool = False  # its keys start with the tag of the fleet, and not with that of a shard


def _family(name: str, type: str, pattern: str, check: Check, *, fleet: bool = False) -> Family:
    compiled = re.compile(pattern.replace("C", r"(?P<crawl>\d+)", 1), re.DOTALL)
    return Family(name, type, compiled, check, fleet)


# --- checks ----------------------------------------------------------------------------------------------


def _any(member: bytes, value: bytes) -> None:
    """Accept everything: the reader does, too."""


def _text(member: bytes, value: bytes) -> None:
    if not (text := member.decode()).isprintable() or len(member) > 255:
        raise Unfit(f"not a name: {text[:40]!r}")


def _text_value(member: bytes, value: bytes) -> None:
    value.decode()


def _integer(member: bytes, value: bytes) -> None:
    member.decode()
    int(value)


def _integer_member(member: bytes, value: bytes) -> None:
    int(member)


def _integer_string(member: bytes, value: bytes) -> None:
    int(value)


def _size(expected: int) -> Check:
    def check(member: bytes, value: bytes) -> None:
        if len(value) != expected:
            raise Unfit(f"{len(value)} bytes instead of {expected}")

    return check


_NUMBERS = {
    *(b"latest", b"offset", b"token", b"moment", b"ordinal", b"version", b"rested", b"rested_version"),
    *(b"swept", b"frozen", b"crawl", b"schema"),
}


def _meta(field: bytes, value: bytes) -> None:
    if field in _NUMBERS and not math.isfinite(float(value)):
        raise Unfit("not a number")


def _options(field: bytes, value: bytes) -> None:
    int(field)
    _CRAWL_OPTIONS.unpack_from(value)
    length = value[_CRAWL_OPTIONS.size]
    if len(value) != _CRAWL_OPTIONS.size + 1 + length:
        raise Unfit("wrong length")
    value[_CRAWL_OPTIONS.size + 1 :].decode()


def _host(name: bytes, packed: bytes) -> None:
    _text(name, b"")
    host = records.unpack_host(name.decode(), packed)
    if not math.isfinite(host.ready) or host.packed_bytes != len(packed):
        raise Unfit("not the state of a host")


def _responses(name: bytes, value: bytes) -> None:
    if value.strip(b"01234567"):
        raise Unfit("not the signals of responses")


def _entry(packed: bytes, value: bytes) -> None:
    unpack(records.unpack_entry(packed).packed)


def _record(packed: bytes, value: bytes) -> None:
    unpack(records.unpack_record(packed).entry.packed)


def _leased(field: bytes, packed: bytes) -> None:
    if field == b"_":
        packed[1:].decode()
        return
    if len(field) != _LEASE_ID_BYTES:
        raise Unfit("not the id of a lease")
    unpack(records.unpack_leased(packed).record.entry.packed)


def _page(fp: bytes, packed: bytes) -> None:
    records.unpack_fp(fp)
    unpack(records.unpack_parsing(packed)[2].entry.packed)


def _letter(fp: bytes, packed: bytes) -> None:
    records.unpack_fp(fp)
    records.unpack_letter("", packed)


def _history(fp: bytes, packed: bytes) -> None:
    records.unpack_fp(fp)
    unpack_history(packed)


def _generations(name: bytes, packed: bytes) -> None:
    name.decode()
    unpack_generations(packed)


def _bucket_name(member: bytes, value: bytes) -> None:
    if re.fullmatch(rb"\d+/\d+", member) is None:
        raise Unfit("not the name of a bucket")


def _dated(member: bytes, value: bytes) -> None:
    if len(member) != 16:
        raise Unfit("not a date of a dead letter")


def _chunk_id(id: bytes, value: bytes) -> None:
    records.chunk_size(id)
    id.decode()


def _chunk(id: bytes, body: bytes) -> None:
    _chunk_id(id, b"")
    if body.startswith(IN_SERVER):
        for entry in unpack_chunk(body[1:]):
            _entry(entry, b"")
    elif not body.startswith(b"@") or not body[1:].decode():
        raise Unfit("neither a chunk nor the name of one")


def _lane_name(name: bytes, value: bytes) -> None:
    LaneName.unpack(name)


def _deadline(token: bytes, value: bytes) -> None:
    int(token)


def _call(member: bytes, value: bytes) -> None:
    struct.unpack_from(">d", value)


def _turn_taker(member: bytes, value: bytes) -> None:
    struct.unpack_from(">dd", value)


def _robots(member: bytes, value: bytes) -> None:
    struct.unpack_from(">dI", value)


def _written(output: bytes, position: bytes) -> None:
    output.decode()
    if re.fullmatch(rb"\d+-\d+", position) is None:
        raise Unfit("not the id of a stream entry")


def _writer(field: bytes, value: bytes) -> None:
    name = field.decode()
    value.decode()
    if name.startswith("until "):
        int(value)


def _quota(worker: bytes, value: bytes) -> None:
    if worker == b"let go":
        float(value)
    elif re.fullmatch(rb"\d+ \d+", value) is None:
        raise Unfit("not a part of a quota")


def _value(key: bytes, value: bytes) -> None:
    name = key.decode()
    if name.startswith(crawl_totals.PART):
        crawl_totals.CrawlTotals.load(value)
    elif name == VERSIONS:
        SpiderVersions.load(value)


def _fingerprint(field: bytes, value: bytes) -> None:
    records.unpack_fp(field)


def _held(field: bytes, value: bytes) -> None:
    records.unpack_fp(field)
    _record(value, b"")


def fields_of(packed: bytes) -> Mapping[bytes, bytes]:
    """Unpack the fields of a stream entry, as `pack_fields` has packed them."""
    flat = msgspec.msgpack.decode(packed, type=list[bytes])
    return dict(zip(flat[::2], flat[1::2], strict=True))


def pack_fields(flat: list[bytes]) -> bytes:
    return msgspec.msgpack.encode(flat)


def _announced(id: bytes, packed: bytes) -> None:
    fields = fields_of(packed)
    fields[b"crawl"].decode()
    records.unpack_fp(fields[b"fp"])
    unpack(fields[b"request"])
    _decode_page(fields[b"page"])


def _items(id: bytes, packed: bytes) -> None:
    fields = fields_of(packed)
    records.unpack_fp(fields[b"fp"])
    _decode_items(fields[b"items"])


def _heartbeat(member: bytes, packed: bytes) -> None:
    _decode_heartbeat(packed)


UNREADABLE = (
    msgspec.DecodeError,
    struct.error,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
)
"""What a check raises; `zlib.error` is wrapped by `unpack_chunk`."""

FAMILIES = (
    _family("m", "hash", r"m", _meta),
    _family("c", "hash", r"c", _options),
    _family("n", "hash", r"n:C", _integer),
    _family("h", "hash", r"h", _host),
    _family("ho", "hash", r"ho", _size(20)),
    _family("hw", "hash", r"hw", _responses),
    _family("hp", "zset", r"hp", _text),
    _family("ad", "zset", r"ad:.*", _text),
    _family("ht", "string", r"ht:.*", _turn_taker),
    _family("hc", "hash", r"hc:C", _size(12)),
    _family("b", "hash", r"b:C", _integer),
    _family("q", "list", r"q:C:.*", _entry),
    _family("w", "zset", r"w:C:.*", _entry),
    _family("x", "zset", r"x:C:.*", _entry),
    _family("li", "zset", r"li:C:.*", _text),
    _family("xli", "zset", r"xli:C:.*", _text),
    _family("dl", "zset", r"dl:C", _record),
    _family("sp", "zset", r"sp:C:.*", _chunk_id),
    _family("spb", "hash", r"spb:C", _chunk),
    _family("rf", "zset", r"rf", _lane_name),
    _family("l", "hash", r"l:\d+", _leased),
    _family("lx", "zset", r"lx", _deadline),
    _family("su", "hash", r"su", _integer),
    _family("ca", "string", r"ca:.*", _call),
    _family("pg", "hash", r"pg:C", _page),
    _family("pages", "stream", r"pages", _announced),
    _family("rollcall", "string", r"rollcall", _any),
    _family("items", "stream", r"items:C", _items),
    _family("written", "hash", r"written:C", _written),
    _family("writer", "hash", r"writer:C", _writer),
    _family("allowance", "hash", r"allowance:C", _quota),
    _family("sites", "hash", r"sites:C", _integer),
    _family("quarantine", "stream", r"quarantine:C", _any),
    _family("d", "hash", r"d:C", _letter),
    _family("rd", "hash", r"rd:C", _fingerprint),
    _family("hd", "hash", r"hd:C", _held),
    _family("dz", "zset", r"dz:C", _dated),
    _family("hy", "hash", r"hy:C", _history),
    _family("s", "set", r"s:C:\d+(?:/\d+)?", _integer_member),
    _family("so", "set", r"so:C", _bucket_name),
    _family("sm", "hash", r"sm:C", _integer),
    _family("tot", "hash", r"tot:C", _integer),
    _family("sb", "string", r"sb:C", _any),
    _family("r", "string", r"r:.*", _robots),
    _family("v", "hash", r"v:C", _value),
    _family("crawls", "hash", r"crawls", _integer),
    _family("dropped", "set", r"dropped", _integer_member),
    _family("checkpoints", "hash", r"checkpoints", _any),
    _family("generations", "hash", r"generations", _generations),
    _family("F:crawls", "hash", r"crawls", _any, fleet=True),  # what cannot be used is refused by name
    _family("F:deleted", "zset", r"deleted", _any, fleet=True),
    _family("F:signatures", "hash", r"signatures", _any, fleet=True),
    _family("F:news", "string", r"news", _integer_string, fleet=True),
    _family("F:workers", "set", r"workers", _text, fleet=True),
    _family("F:worker", "string", r"worker:.*", _heartbeat, fleet=True),
    _family("F:exits", "hash", r"exits", _any, fleet=True),  # what cannot be read counts as unknown
    _family("F:levels", "hash", r"levels", _any, fleet=True),  # what cannot be read is learned again
    _family("F:levelchanges", "zset", r"levelchanges", _any, fleet=True),
    _family("F:schedules", "hash", r"schedules", _any, fleet=True),  # what cannot be read is logged and left
    _family("F:api", "hash", r"api", _any, fleet=True),  # what cannot be read is left out
    _family("F:monitoring", "hash", r"monitoring", _any, fleet=True),  # what cannot be read is left out
    _family("F:id", "string", r"id", _text_value, fleet=True),
    _family("F:relay", "string", r"relay", _text_value, fleet=True),
    _family("F:quarantine", "stream", r"quarantine:C", _any, fleet=True),
)


def check_options(crawl: int, packed: bytes) -> str:
    """Return why the options of a crawl cannot be read; empty: they can."""
    try:
        _options(str(crawl).encode(), packed)
    except UNREADABLE as error:
        return str(error)
    return ""


def family_of(key: str, *, fleet: bool) -> tuple[Family, int] | None:
    """Return the family of a key and the number of its crawl (0: none); None: the key is not ours."""
    name = key.partition("}:")[2]
    for family in FAMILIES:
        if family.fleet == fleet and (found := family.pattern.fullmatch(name)) is not None:
            return family, int(found.groupdict().get("crawl") or 0)
    return None

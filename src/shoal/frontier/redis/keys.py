"""The key space of the frontier on Redis, and the packed values in it.

A store is cut into shards by host. `T` stands for a shard's hash tag, `{shoal:07}`: every key of a shard
starts with it, and a script touches the keys of one shard, so the same scripts run on one node and on a
cluster. `KEYS[1]` is always `T:m`; a script composes the other names from its tag. `C` is the number of a
crawl: a crawl that is deleted and started again has another number, so what is left of the old one can be
deleted in batches. `P` is a pool. Keys marked * are shared with other packages and named in
`redis_client/key_names.py`.

    T:m *          hash    meta: latest, offset (shard.lua), token, moment, ordinal, version of the crawl
                           options; epoch (of the server process), rested (when it last changed),
                           rested_version; swept, sweep (when to look for idle hosts, and the cursor:
                           idle_hosts.lua); sent_by (until when requests may leave that have taken
                           their turn); frozen (until when), freezer (name of the repair that froze it)
    T:c *          hash    C -> options of a crawl (CRAWL_OPTIONS)
    T:n:C          hash    counters of a crawl in this shard: the states, duplicate, over_budget, retries,
                           crashes, purged, items, `dead.<class>`, `filtered.<rule>`, and
                           `pool.<pool>`: waiting or delayed, for every pool but http

    T:tot:C        hash    totals that pages add to: `links.<rule>` (not followed), rejected, withheld,
                           partial, hook_items, hook_faults, repeats, `discarded.<reason>` (items), and
                           counts of items and filled fields (`model/yields`)

    T:h            hash    host -> state (HOST, followed by one LANE per lane); deleted when idle. `@` and an
                           address: the turns of that address
    T:ho           hash    host -> what the operator has set, and its Crawl-delay (OVERRIDES)
    T:hw           hash    host -> the signals of its latest responses, a digit each (adaptive_delay.py)
    T:ht:host      string  >ddd seconds, since, due for others; the taker that may have its next turn of the
                           host that many seconds earlier than others (rate_ticket.lua). Expires
    T:ad:<address> zset    hosts that have this address -> when one was last asked. Expires
    T:hp           zset    hosts that the operator has paused -> until when
    T:hc:C         hash    host -> >dHH the pace of the crawl there, if it differs
    T:b:C          hash    host -> requests that were accepted for it, where the crawl has a budget

    T:q:C:P:B:host list    a lane: its new links of band B, in the order in which they were accepted (ENTRY)
    T:w:C:P:host   zset    the same lane: returned requests, ENTRY -> band * 2^42 + ordinal
    T:x:C:P:host   zset    a lane of suspects, likewise
    T:li:C:P       zset    the schedule of a crawl and pool: host -> its lane's band * 2^49 + when the lane is
                           due, in steps of 2^-18 s since 2020
    T:xli:C:P      zset    the same for lanes of suspects
    T:dl:C         zset    delayed: RECORD -> the instant at which it may go
    T:sp:C:P:host  zset    spilled chunks of a lane's tail: id -> best score (spilled.lua)
    T:spb:C        hash    id -> the chunk, or where it is stored
    T:rf           zset    lanes that need a chunk back -> when to ask a worker for it

    T:l:<token>    hash    one batch of leases: >I C and fp -> LEASED; `_` -> 1 if deadlines differ, holder
    T:lx           zset    token -> the earliest deadline in its batch
    T:su           hash    holder -> number of suspects that it holds
    T:ca:<holder>  string  >d token that answered the holder's latest lease call, and the id of that call;
                           expires

    T:pg:C         hash    fp -> PAGE: fetched, not parsed yet
    T:pages *      stream  the same pages, announced to the parse stage
    T:items:C *    stream  items of parsed pages
    T:d:C          hash    fp -> DEAD_LETTER
    T:dz:C         zset    >d ordinal and fp -> when it died

    T:rd:C         hash    fp -> nothing: requests that robots.txt disallowed (readmit.lua)
    T:hd:C         hash    fp -> RECORD: requests that are held back, for a release (readmit.lua)
    T:hy:C         hash    fp -> how the request ended, for the next generations (`page_history.py`)
    T:s:C:<n>      set     fingerprints that a crawl has seen, in buckets (seen.lua)
    T:so:C         set     names of buckets of the seen-set that were too large to be split
    T:sm:C         hash    size of the seen-set (seen.lua); lost: requests that a repair found in no state;
                           forgotten: requests that a repair found to be missing in the seen-set
    T:sb:C         string  the seen-set as a Bloom filter, if the crawl uses one
    T:r:<origin>   string  robots.txt: >dI expires, status; text. Expires

and, in the crawl's home shard (that of its name as if it were a host) or in shard 0:

    T:v:C          hash    values that the engine stores for the crawl (home shard)
    T:crawls       hash    name -> C (shard 0); `T:m` has the last number, `crawl`
    T:dropped      set     numbers of crawls that are being deleted (shard 0)
    T:checkpoints  hash    name -> bytes (shard 0)
    T:generations  hash    name -> the earlier generations of a crawl (`generations.py`, shard 0)

Instants are epoch seconds, doubles, on the shard's clock, which never goes back (shard.lua); those that only
operators see are on the server's clock. A lane gets a moment, a step that no other lane has, whenever it is
served or stops being empty. It is due when its host is, and not before its moment: so among lanes of one
band, the lane that has been due for longest goes first.

Whether a lane is scheduled follows from its host alone, after every script: an empty lane is not; nor is any
lane of a host that is paused or has as many requests in flight as it may; every other lane is. A list of new
links exists if and only if its host records it: links join an existing list without reading the host.

Packed values are big-endian, so that members with equal scores sort by their ordinal. `s1` stands for a byte
with the length, followed by that many bytes; `s2` and `s4` are the same with two and four bytes of length.

    ENTRY      >I6HBHB its ordinal, attempts, crashes, rests, priority; fp; if attempts + rests > 0: >d first
                       leased at; the packed request (`Link.packed`)
    RECORD     >I      C; s1 host; s1 pool; ENTRY
    LEASED     >ddBdH  deadline, granted at, 1 if landed, interval and burst of its host; RECORD
    PAGE       >HI     length of the stream entry's id, length of the page; both; s1 holder; RECORD
    DEAD_LETTER  >dH   died at, status; s4 page (empty: none); s1 holder; s1 class; s2 reason
                       (one line; below it, the traceback of a spider that raised); RECORD
    HOST       >ddddddHHHIIHBB  tat, last, rest until, token, interval, slow, burst, concurrency, inflight,
                       failures, version of the crawl options, responses without a block, flags (1 paused,
                       2 has OVERRIDES, 4 has responses in T:hw, 8 has T:ht; from 16 on: leases whose
                       request has not taken its turn), number of lanes (255: or more)
    LANE       >IBBHd  C, flags (1 suspects, 2 has spilled chunks, 4 scheduled, 8 has returned requests), band
                       of its head (255: empty), bands that have new links (bit B), moment; s1 pool
    OVERRIDES  >dhhd   interval, burst, concurrency (-1: not set), Crawl-delay
    CRAWL_OPTIONS  >dHHHIBBddHHdd  interval, burst, concurrency, crashes that kill, budget, 1 if paused, 1 if
                       it has any T:hc, then the rules for slowing down: threshold, reach, at least, window,
                       floor, ceiling; s1 name

In a script, fingerprints are opaque strings of eight bytes, big-endian; Lua numbers could not hold them.
"""

import re
from typing import NamedTuple

from shoal.redis_client.key_names import PARSE_GROUP, crawl_options, items, pages
from shoal.redis_client.key_names import shard_meta as meta

__all__ = ["PARSE_GROUP", "crawl_options", "items", "meta", "pages"]

HTTP = "http"  # the default pool
PAUSED_AT = 18  # the byte of CRAWL_OPTIONS that is 1 if a crawl is paused
HEAD = b"_"  # the field of a batch that is not a lease


def counters(tag: str, crawl: int) -> str:
    return f"{tag}:n:{crawl}"


def totals(tag: str, crawl: int) -> str:
    return f"{tag}:tot:{crawl}"


def hosts(tag: str) -> str:
    return f"{tag}:h"


def delayed(tag: str, crawl: int) -> str:
    return f"{tag}:dl:{crawl}"


def batch(tag: str, token: str) -> str:
    return f"{tag}:l:{token}"


def deadlines(tag: str) -> str:
    return f"{tag}:lx"


def suspects_held(tag: str) -> str:
    return f"{tag}:su"


def parsing(tag: str, crawl: int) -> str:
    """Return the key of the pages that are not parsed yet."""
    return f"{tag}:pg:{crawl}"


def dead_letters(tag: str, crawl: int) -> str:
    return f"{tag}:d:{crawl}"


def held(tag: str, crawl: int) -> str:
    return f"{tag}:hd:{crawl}"


def dead_letter_dates(tag: str, crawl: int) -> str:
    return f"{tag}:dz:{crawl}"


def seen(tag: str, crawl: int, bucket: int | str) -> str:
    return f"{tag}:s:{crawl}:{bucket}"


def seen_large(tag: str, crawl: int) -> str:
    """Return the key of the names of buckets that were too large to be split."""
    return f"{tag}:so:{crawl}"


def seen_size(tag: str, crawl: int) -> str:
    return f"{tag}:sm:{crawl}"


def bloom_filter(tag: str, crawl: int) -> str:
    return f"{tag}:sb:{crawl}"


def values(tag: str, crawl: int) -> str:
    """Return the key of the values of a crawl; `tag` is its home shard."""
    return f"{tag}:v:{crawl}"


def histories(tag: str, crawl: int) -> str:
    """Return the key of what the next generations of a crawl need to know of its requests."""
    return f"{tag}:hy:{crawl}"


def generations(tag: str) -> str:
    return f"{tag}:generations"


def crawls(tag: str) -> str:
    return f"{tag}:crawls"


def dropped(tag: str) -> str:
    return f"{tag}:dropped"


def checkpoints(tag: str) -> str:
    return f"{tag}:checkpoints"


def fresh(tag: str, crawl: int, pool: str, host: str, band: int) -> str:
    """Return the key of the new links of a lane in one band."""
    return f"{tag}:q:{crawl}:{pool}:{band}:{host}"


def returned(tag: str, crawl: int, pool: str, host: str) -> str:
    """Return the key of the returned requests of a lane."""
    return f"{tag}:w:{crawl}:{pool}:{host}"


def suspects(tag: str, crawl: int, pool: str, host: str) -> str:
    """Return the key of a lane of suspects."""
    return f"{tag}:x:{crawl}:{pool}:{host}"


def schedule(tag: str, crawl: int, pool: str, *, suspect: bool) -> str:
    return f"{tag}:{'xli' if suspect else 'li'}:{crawl}:{pool}"


def chunks(tag: str, crawl: int, pool: str, host: str) -> str:
    """Return the key of the spilled chunks of a lane."""
    return f"{tag}:sp:{crawl}:{pool}:{host}"


def chunk_bodies(tag: str, crawl: int) -> str:
    return f"{tag}:spb:{crawl}"


class BatchKey(NamedTuple):
    token: str


class LaneKey(NamedTuple):
    crawl: int
    suspect: bool
    pool: str
    host: str


class ScheduleKey(NamedTuple):
    crawl: int
    suspect: bool
    pool: str


_BATCH = re.compile(r"l:(\d+)")
_FRESH = re.compile(r"q:(\d+):(.*?):\d+:(.*)", re.DOTALL)
_SORTED = re.compile(r"([wx]):(\d+):(.*?):(.*)", re.DOTALL)
_SCHEDULE = re.compile(r"(x?)li:(\d+):(.*)", re.DOTALL)


def parse(key: str) -> BatchKey | LaneKey | ScheduleKey | None:
    """Parse the key of a batch, a lane or a schedule; None for all others."""
    name = key.partition("}:")[2]
    if found := _BATCH.fullmatch(name):
        return BatchKey(found[1])
    if found := _FRESH.fullmatch(name):
        return LaneKey(int(found[1]), False, found[2], found[3])
    if found := _SORTED.fullmatch(name):
        return LaneKey(int(found[2]), found[1] == "x", found[3], found[4])
    if found := _SCHEDULE.fullmatch(name):
        return ScheduleKey(int(found[2]), bool(found[1]), found[3])
    return None

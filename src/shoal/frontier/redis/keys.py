"""The key space of the frontier on Redis, and what lies under each key.

A store is cut into shards by host. `T` stands for a shard's hash tag, `{shoal:07}`: every key of a shard
begins with it, and a script touches the keys of one shard, so the same scripts run on one node and on a
cluster. `KEYS[1]` is always `T:m`; a script makes the other names from its tag. `C` is the number of a crawl:
a crawl that is dropped and begun again has another number, so what is left of the old one can be swept away
in slices. `P` is a pool.

    T:m            hash    meta: latest, offset (shard.lua), token, moment, ordinal, version of the terms;
                           epoch (of the server process), rested (when it last changed), rested_version;
                           swept, sweep (when to look for hosts to forget, and from where on: forgetting.lua);
                           frozen (until when), freezer (who puts the shard right: `repair`)
    T:c            hash    C -> terms of a crawl (TERMS)
    T:n:C          hash    counters of a crawl in this shard: the states, duplicate, over_budget, retries,
                           crashes, purged, items (brought), `dead.<class>`, `filtered.<rule>`

    T:h            hash    host -> state (HOST, followed by one LANE for each of its lanes); forgotten if idle
    T:ho           hash    host -> what was set by hand, and its Crawl-delay (OVERRIDES)
    T:hw           hash    host -> its latest answers, a `1` for each block and a `0` for each other
    T:hc:C         hash    host -> >dHH the pace that the crawl asks for there, if it is another one
    T:b:C          hash    host -> requests it has brought, where the crawl has a budget

    T:q:C:P:B:host list    a lane: its new links of band B, in the order in which they were accepted (ENTRY)
    T:w:C:P:host   zset    the same lane: what came back, ENTRY -> band * 2^42 + ordinal
    T:x:C:P:host   zset    a lane of suspects, likewise
    T:li:C:P       zset    the line of a roster (crawl and pool): host -> its lane's band * 2^49 + when the
                           lane is due, in steps of 2^-18 s from 2020 on
    T:xli:C:P      zset    the same for lanes of suspects
    T:dl:C         zset    delayed: RECORD -> the instant at which it may go
    T:sp:C:P:host  zset    chunks of a lane's tail that were spilled: id -> best score (spilled.lua)
    T:spb:C        hash    id -> the chunk, or where it is
    T:rf           zset    lanes that want a chunk back -> when to ask for it

    T:l:<token>    hash    one batch of leases: >I C and fp -> LEASED; `_` -> 1 if deadlines differ, holder
    T:lx           zset    token -> the earliest deadline in its batch
    T:su           hash    holder -> suspects that it has
    T:ca:<holder>  string  >d token that answered the holder's latest call for work, and the call; expires

    T:pg:C         hash    fp -> PAGE: fetched, its links and items still to come
    T:pages        stream  the same, announced: crawl (its name), fp, request, page (msgpack, PageRecord)
    T:rollcall     string  there until names of consumers that are gone are looked for again
    T:items:C      stream  one entry for each page that brought any: fp, items (msgpack, list[Item])
    T:written:C    hash    output -> the last entry of that stream that it has
    T:writer:C     hash    who writes which output, and until when (in one shard, by C)
    T:d:C          hash    fp -> LETTER
    T:dz:C         zset    >d ordinal and fp -> when it died

    T:s:C:<n>      set     what a crawl has seen, in buckets (seen.lua)
    T:sm:C         hash    how large that is
    T:r:<origin>   string  robots.txt: >dI expires, status; text. Expires

and, in the crawl's home shard (that of its name as if it were a host) or in shard 0:

    T:v:C          hash    the crawl's own values (home shard)
    T:crawls       hash    name -> C (shard 0); `T:m` has the last number given, `crawl`
    T:dropped      set     numbers of crawls that are still to be swept away (shard 0)
    T:checkpoints  hash    name -> bytes (shard 0)

Instants are epoch seconds, doubles, on the shard's own clock, which never goes back (shard.lua); those that
only people read are on the server's. A lane gets a moment, a step that no other lane has, whenever it is
served or ceases to be empty. It is due when its host is, and not before its moment: so among lanes of one
band, the one goes first that could have gone for longest.

Whether a lane stands in line follows from its host alone, and is so after every script: an empty lane does
not; nor does any lane of a host that is paused or has as many requests out as it may; every other lane does.
A list of new links is there if and only if its host says so: links join a list without asking.

Packed values are big-endian, because then members of one score sort by their ordinal; `s1` stands for a byte
with the length and so many bytes, `s2` and `s4` for the same with two and four.

    ENTRY      >I6HBHB its ordinal, attempts, crashes, rests, priority; fp; if attempts + rests > 0: >d first
                       leased at; the packed request (`Link.packed`)
    RECORD     >I      C; s1 host; s1 pool; ENTRY
    LEASED     >ddBdH  deadline, granted at, 1 if landed, interval and burst of its host; RECORD
    PAGE       >HI     length of the stream entry's id, length of the page; both; s1 holder; RECORD
    LETTER     >dH     died at, status; s4 page (empty: none); s1 holder; s1 class; s2 reason; RECORD
    HOST       >ddddddHHHIIHBB  tat, last, rest until, token, interval, slow, burst, concurrency, inflight,
                       failures, version of the terms, answers without a block, flags (1 paused, 2 has
                       OVERRIDES, 4 has answers in T:hw), number of lanes
    LANE       >IBBHd  C, flags (1 suspects, 2 has spilled chunks, 4 in line, 8 has any that came back), band
                       of its head (255: empty), bands of its new links (bit B: any), moment; s1 pool
    OVERRIDES  >dhhd   interval, burst, concurrency (-1: not set), Crawl-delay
    TERMS      >dHHHIBBddHHdd  interval, burst, concurrency, crashes that kill, budget, 1 if paused, 1 if it
                       has any T:hc, then the rules for slowing down: threshold, reach, at least, window,
                       floor, ceiling; s1 name

In a script, fingerprints are opaque strings of eight bytes, big-endian; Lua's numbers could not hold them.
"""

PAUSED_AT = 18  # the byte of TERMS that says whether a crawl is paused
PARSERS = "parse"  # the consumer group of T:pages
HEAD = b"_"  # the field of a batch that is no lease


def meta(tag: str) -> str:
    return f"{tag}:m"


def terms(tag: str) -> str:
    return f"{tag}:c"


def counters(tag: str, crawl: int) -> str:
    return f"{tag}:n:{crawl}"


def hosts(tag: str) -> str:
    """Name the states of a shard's hosts."""
    return f"{tag}:h"


def delayed(tag: str, crawl: int) -> str:
    return f"{tag}:dl:{crawl}"


def batch(tag: str, token: str) -> str:
    """Name one batch of leases."""
    return f"{tag}:l:{token}"


def deadlines(tag: str) -> str:
    """Name the deadlines of a shard's batches."""
    return f"{tag}:lx"


def suspects_out(tag: str) -> str:
    """Name what says how many suspects each holder has."""
    return f"{tag}:su"


def parsing(tag: str, crawl: int) -> str:
    """Name the pages of a crawl that are still to be parsed."""
    return f"{tag}:pg:{crawl}"


def letters(tag: str, crawl: int) -> str:
    return f"{tag}:d:{crawl}"


def dates(tag: str, crawl: int) -> str:
    """Name what says when the letters of a crawl died."""
    return f"{tag}:dz:{crawl}"


def seen(tag: str, crawl: int, bucket: int) -> str:
    """Name a bucket of what a crawl has seen."""
    return f"{tag}:s:{crawl}:{bucket}"


def seen_size(tag: str, crawl: int) -> str:
    """Name what says how large that is."""
    return f"{tag}:sm:{crawl}"


def values(tag: str, crawl: int) -> str:
    """Name a crawl's own values, in its home shard."""
    return f"{tag}:v:{crawl}"


def crawls(tag: str) -> str:
    return f"{tag}:crawls"


def dropped(tag: str) -> str:
    return f"{tag}:dropped"


def checkpoints(tag: str) -> str:
    return f"{tag}:checkpoints"


def pages(tag: str) -> str:
    """Name the stream in which a shard announces pages to the parse stage."""
    return f"{tag}:pages"


def items(tag: str, crawl: int) -> str:
    """Name the stream of a crawl's items in a shard."""
    return f"{tag}:items:{crawl}"


def fresh(tag: str, crawl: int, pool: str, host: str, band: int) -> str:
    """Name the new links of a lane that are of one band."""
    return f"{tag}:q:{crawl}:{pool}:{band}:{host}"


def returned(tag: str, crawl: int, pool: str, host: str) -> str:
    """Name what came back to a lane."""
    return f"{tag}:w:{crawl}:{pool}:{host}"


def suspects(tag: str, crawl: int, pool: str, host: str) -> str:
    """Name a lane of suspects."""
    return f"{tag}:x:{crawl}:{pool}:{host}"


def line(tag: str, crawl: int, pool: str, *, suspect: bool) -> str:
    """Name the line in which the lanes of a roster stand."""
    return f"{tag}:{'xli' if suspect else 'li'}:{crawl}:{pool}"


def chunks(tag: str, crawl: int, pool: str, host: str) -> str:
    """Name the chunks of a lane that were spilled."""
    return f"{tag}:sp:{crawl}:{pool}:{host}"


def chunk_bodies(tag: str, crawl: int) -> str:
    return f"{tag}:spb:{crawl}"

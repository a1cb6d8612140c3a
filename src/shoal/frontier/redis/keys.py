"""The key space of the frontier on Redis, and what lies under each key.

A store is cut into shards by host. `T` stands for a shard's hash tag, `{shoal:07}`: every key of a shard begins
with it, every script touches the keys of one shard, so the same scripts run on one node and on a cluster.
`KEYS[1]` is always `T:m`; a script makes the other names from its tag. `C` is the number of a crawl: a crawl that
is dropped and begun again has another number, so that what is left of the old one can be swept away in slices.

    T:m            hash    meta: format, latest and offset (clock.lua), token, stamp, version of the terms, rested
    T:c            hash    C -> terms of a crawl (TERMS)
    T:n:C          hash    counters of a crawl in this shard: the states, duplicate, over_budget, retries, crashes,
                           purged, `dead.<class>`, `filtered.<rule>`

    T:h            hash    host -> state (HOST, followed by one LANE for each of its lanes)
    T:ho           hash    host -> what was set by hand, and its Crawl-delay (OVERRIDES); read when a flag says so
    T:hw           hash    host -> its latest answers, a `1` for each block and a `0` for each other
    T:b:C          hash    host -> requests it has brought, where the crawl has a budget

    T:q:C:P:host   zset    a lane, P its pool: ENTRY -> band * 2^42 + ordinal
    T:x:C:P:host   zset    the same for suspects
    T:el:C:P       zset    eligible lanes of a roster (crawl and pool): host -> band of its head * 2^42 + stamp
    T:co:C:P       zset    cooling lanes: host -> the instant at which it is due
    T:xel:C:P, T:xco:C:P   the same for lanes of suspects
    T:dl:C         zset    delayed: RECORD -> the instant at which it may go

    T:l:<token>    hash    one batch of leases: fp -> LEASED; `_` -> holder
    T:lx           zset    token -> the earliest deadline in its batch
    T:su           hash    holder -> suspects that it has
    T:ca:<holder>  string  the holder's latest call for work and the token that answered it; expires

    T:pg:C         hash    fp -> PAGE: fetched, its links and items still to come
    T:pages        stream  the same, announced: crawl (its name), fp, request, page (msgpack)
    T:items:C      stream  one entry for each page that brought any: fp, items (msgpack, list[Item])
    T:d:C          hash    fp -> LETTER
    T:dz:C         zset    ordinal (>d) + fp -> when it died

    T:s:C:<b>      set     what a crawl has seen (seen.lua), in buckets; T:sm:C says how many there are
    T:sp:C:P:host, T:spb   chunks of a lane's tail that were spilled
    T:r:<origin>   string  robots.txt: `>dI` expires, status; body. Expires

and, in the crawl's home shard (that of its name as if it were a host) or in shard 0:

    T:v:C          hash    the crawl's own values (home shard)
    T:crawls       hash    name -> C; `T:m` has the last number given, `crawl` (shard 0)
    T:checkpoints  hash    name -> bytes (shard 0)

Instants are epoch seconds, doubles, on the shard's own clock, which never goes back (clock.lua): what is told to
a caller has `offset` taken off. Stamps count up whenever a lane is served or ceases to be empty: among lanes of
one band, the one with the lowest stamp was served least recently.

Where a lane is follows from its host alone, and is so after every script: an empty lane is in neither `el` nor
`co`; nor is any lane of a host that is paused or has as many requests out as it may; every other lane is in
exactly one of the two.

Packed values are big-endian, because then members of one score sort by their ordinal; `s1` stands for a byte
with the length and so many bytes.

    ENTRY      >HBHB   attempts, crashes, rests, priority; fp (8 bytes); if attempts + rests > 0: >d first leased
                       at; the packed request (`Link.packed`)
    RECORD     >dI     ordinal, C; s1 host; s1 pool; ENTRY
    LEASED     >ddB    deadline, granted at, 1 if landed; RECORD
    PAGE       >HI     length of the stream entry's id, length of the page; both; s1 holder; RECORD
    LETTER     >dHI    died at, status, length of the page (0: none); the page; s1 holder; s1 class; s1 reason;
                       RECORD
    HOST       >ddddddHHHIIHBB  tat, last, rest until, token, interval, slow, burst, concurrency, inflight, failures,
                       version of the terms, answers without a block, flags (1 paused, 2 has OVERRIDES, 4 has
                       answers in T:hw), number of lanes
    LANE       >IBBd   C, flags (1 suspects, 2 has spilled chunks), band of its head (255: empty), stamp; s1 pool
    OVERRIDES  >dhhd   interval, burst, concurrency (-1: not set), Crawl-delay
    TERMS      >dHHHIBddHHdd  interval, burst, concurrency, crashes that kill, budget, paused, then the rules for
                       slowing down: threshold, reach, at least, window, floor, ceiling; s1 name

In a script, fingerprints are opaque strings of eight bytes, big-endian; Lua's numbers could not hold them.
"""

FORMAT = 1  # of everything above; a store of another format is refused


def meta(tag: str) -> str:
    return f"{tag}:m"


def pages(tag: str) -> str:
    """Name the stream in which a shard announces pages to the parse stage."""
    return f"{tag}:pages"


def items(tag: str, crawl: int) -> str:
    """Name the stream of a crawl's items in a shard."""
    return f"{tag}:items:{crawl}"

"""The Redis keys that more than one package uses: the one place that composes their names.

A store is cut into shards. Every key of a shard starts with its hash tag `T`, `{shoal:07}`, so that all of
them are in one slot of a cluster. Keys of the fleet that belong to no shard start with `F`, `{shoal:fleet}`.
`C` is the number of a crawl. `frontier/redis/keys.py` documents the keys that only the frontier uses.

    {shoal}:meta    hash    shards, schema: fixed by the first client that opens the store

    T:m             hash    meta of the shard. `KEYS[1]` of every script; a script composes all other names
                            from its tag
    T:c             hash    C -> options of a crawl; a crawl without them has been deleted
    T:pages         stream  pages to parse, added by the frontier, read by the bus: crawl (its name), fp,
                            request, page (msgpack, PageRecord). Consumer group `parse`
    T:rollcall      string  exists until consumers that are gone are next looked for (set by the bus)
    T:items:C       stream  one entry per page that has items, added by the frontier, read by the sinks: fp,
                            items (msgpack, list[Item])
    T:written:C     hash    output -> the last entry of T:items:C that it has written (sinks)
    T:writer:C      hash    which worker writes which output, and until when; only in shard C % shards (sinks)
    T:allowance:C   hash    worker -> its part of the page quota; only in shard C % shards (stores)
    T:sites:C       hash    site -> its requests, if they are limited; only in shard C % shards (stores)
    T:quarantine:C  stream  entries of the crawl that could not be read: place, id, reason, size, at, body
                            (redis_client); C is 0 for those of no crawl

    F:crawls        hash    name -> CrawlRecord (stores)
    F:signatures    hash    name -> HMAC of its record in F:crawls, for records that were signed (stores)
    F:news          string  a counter that changes when workers should look at the crawls again (stores)
    F:deleted       zset    names of crawls that `delete` removed -> when: a crawl that is neither here nor in
                            F:crawls was lost (stores)
    F:workers       set     names of workers (stores)
    F:worker:NAME   string  the worker's last Heartbeat; expires (stores)
    F:exits         hash    records about exits: e/EXIT and h/EXIT/HOST (msgpack, ExitRecord), c/CRAWL
                            (msgpack, Spending), r/HOST (msgpack, HostExits), s/ (msgpack, Division) (stores)
    F:levels        hash    records about levels: HOST (msgpack, HostLevels), c/CRAWL (msgpack, SpentPages)
                            (stores)
    F:levelchanges  zset    their keys, in the order of their last change (stores)
    F:api           hash    records of the HTTP API: i/KEY, w/NAME, d/WEBHOOK/ID (stores)
    F:schedules     hash    s/NAME: a schedule (msgpack, Schedule); t/NAME: its state (ScheduleState) (stores)
    F:monitoring    hash    f/WORKER: figures of a worker (msgpack, WorkerFigures); alerts: the AlertBook;
                            claim: the process that evaluates alerts (stores)
    F:id            string  random id of the store, which names its queue at NATS (bus)
    F:relay         string  the worker that moves pages from T:pages to NATS; expires (bus)
    F:quarantine:0  stream  entries of keys that start with F, as in T:quarantine:C
"""

from typing import Final

PARSE_GROUP: Final = "parse"  # the consumer group of T:pages

LUA_CONSTANTS: Final = {
    "CRAWL_OPTIONS_KEY": ":c",
    "PAGES_KEY": ":pages",
    "CONSUMER_GC_KEY": ":rollcall",
    "ITEMS_KEY": ":items:",
    "WRITTEN_KEY": ":written:",
    "WRITER_KEY": ":writer:",
    "PAGE_QUOTA_KEY": ":allowance:",
    "SITE_BUDGET_KEY": ":sites:",
    "QUARANTINE_KEY": ":quarantine:",
    "PARSE_GROUP": PARSE_GROUP,
}
"""What scripts append to the tag (and to which they append C, after a final colon), by Lua constant."""


def shard_tag(namespace: str, shard: int) -> str:
    return f"{{{namespace}:{shard:02}}}"


def fleet_tag(namespace: str) -> str:
    return f"{{{namespace}:fleet}}"


def store_tag(namespace: str) -> str:
    return f"{{{namespace}}}"


def store_meta(namespace: str) -> str:
    return f"{store_tag(namespace)}:meta"


def shard_meta(tag: str) -> str:
    return f"{tag}:m"


def crawl_options(tag: str) -> str:
    return tag + LUA_CONSTANTS["CRAWL_OPTIONS_KEY"]


def pages(tag: str) -> str:
    return tag + LUA_CONSTANTS["PAGES_KEY"]


def consumer_gc(tag: str) -> str:
    return tag + LUA_CONSTANTS["CONSUMER_GC_KEY"]


def items(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['ITEMS_KEY']}{crawl}"


def written(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['WRITTEN_KEY']}{crawl}"


def writer(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['WRITER_KEY']}{crawl}"


def site_budget(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['SITE_BUDGET_KEY']}{crawl}"


def page_quota(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['PAGE_QUOTA_KEY']}{crawl}"


def quarantine(tag: str, crawl: int) -> str:
    return f"{tag}{LUA_CONSTANTS['QUARANTINE_KEY']}{crawl}"


def keys_with(tag: str) -> str:
    """Return the pattern of all keys that start with a tag."""
    return f"{tag}:*"


def crawl_records(fleet: str) -> str:
    return f"{fleet}:crawls"


def deleted_crawls(fleet: str) -> str:
    return f"{fleet}:deleted"


def record_signatures(fleet: str) -> str:
    return f"{fleet}:signatures"


def news(fleet: str) -> str:
    return f"{fleet}:news"


def workers(fleet: str) -> str:
    return f"{fleet}:workers"


def heartbeat(fleet: str, worker: str) -> str:
    return f"{fleet}:worker:{worker}"


def schedules(fleet: str) -> str:
    return f"{fleet}:schedules"


def api_records(fleet: str) -> str:
    return f"{fleet}:api"


def monitoring(fleet: str) -> str:
    return f"{fleet}:monitoring"


def exits(fleet: str) -> str:
    return f"{fleet}:exits"


def levels(fleet: str) -> str:
    return f"{fleet}:levels"


def level_changes(fleet: str) -> str:
    return f"{fleet}:levelchanges"


def store_id(fleet: str) -> str:
    return f"{fleet}:id"


def relay(fleet: str) -> str:
    return f"{fleet}:relay"

"""Corrections of one shard: leases, hosts, pages, dead letters and the seen-set."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import (
    UNREADABLE,
    announced_as,
    pack_dated,
    unpack_leased,
    unpack_letter,
    unpack_parsing,
)
from shoal.frontier.redis.repair.scan import UnlinkedLane
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import BATCH
from shoal.frontier.redis.seen import bucket_of, seen_hash
from shoal.frontier.redis.shard_client import chunks
from shoal.redis_client import ScriptArgument

# Each of these takes a few milliseconds.
LEASES_PER_CALL = 100
HOSTS_PER_CALL = 100
PAGES_PER_CALL = 100

FAULTS = {  # as repair_hosts.lua reports them
    "wire": "a wrong number of requests in flight",
    "unknown": "a lane that its host did not have",
    "holds": "a lane with other contents than its host recorded",
    "line": "a lane that was wrongly scheduled, or not scheduled",
    "chunk": "a lane that had not requested its next chunk",
}


# --- the numbers that a shard gives out: above all those that it has given ---------------------------------


async def repair_meta(shard: Shard, *, ordinal: int) -> None:
    """Raise the latest token and ordinal of a shard above those in use."""
    tokens = [int(member) async for member, _ in shard.scan.sorted(keys.deadlines(shard.tag))]
    meta = keys.meta(shard.tag)
    for name, used in (("token", max(tokens, default=0)), ("ordinal", ordinal)):
        if int(await shard.do("HGET", meta, name) or 0) < used:
            await shard.do("HSET", meta, name, used)
            shard.report.add(f"a shard that would have given out a {name} again", shard.tag)


# --- leases: each batch has its deadline; suspects and requests in flight follow from them ---------------


async def repair_leases(shard: Shard, tokens: set[str]) -> Counter[str]:
    """Correct these batches and those with a deadline; return the requests in flight by host."""
    dated = {token.decode() async for token, _ in shard.scan.sorted(keys.deadlines(shard.tag))}
    every = sorted(dated | tokens, key=int)
    for some in chunks(every, LEASES_PER_CALL):
        wrong = await shard.run_frozen(shard.scripts.repair_leases, *some)
        shard.report.add(
            "a batch of leases without its deadline, or a deadline without its batch", number=len(wrong)
        )
    inflight: Counter[str] = Counter()
    suspects: Counter[bytes] = Counter()
    for token in every:
        await shard.renew_freeze()
        batch = [pair async for pair in shard.scan.hash(keys.batch(shard.tag, token))]
        holder = dict(batch).get(keys.HEAD, b"0")[1:]
        for field, packed in batch:
            if field == keys.HEAD:
                continue
            try:
                leased = unpack_leased(packed)
            except UNREADABLE:
                continue  # the audit reports it
            inflight[leased.record.host] += not leased.landed
            suspects[holder] += leased.record.entry.crashes > 0
    await _repair_suspects(shard, +suspects)
    return inflight


async def _repair_suspects(shard: Shard, suspects: Mapping[bytes, int]) -> None:
    key = keys.suspects_held(shard.tag)
    flat = await shard.do("HGETALL", key)
    recorded = {holder: int(count) for holder, count in zip(flat[::2], flat[1::2], strict=True)}
    for holder in recorded.keys() | suspects.keys():
        if recorded.get(holder, 0) == suspects.get(holder, 0):
            continue
        shard.report.add("a wrong number of suspects", holder.decode())
        if holder in suspects:
            await shard.do("HSET", key, holder, suspects[holder])
        else:
            await shard.do("HDEL", key, holder)


# --- hosts: requests in flight, contents of lanes, schedules ---------------------------------------------


async def repair_hosts(
    shard: Shard, unlinked: Mapping[str, Collection[UnlinkedLane]], inflight: Counter[str]
) -> None:
    """Correct all hosts, from the lanes that they do not have and the requests in flight."""
    names: list[str] = []
    async for name, _ in shard.scan.hash(keys.hosts(shard.tag)):
        names.append(name.decode())
        if len(names) == HOSTS_PER_CALL:
            await _repair_hosts(shard, unlinked, inflight, names)
            names = []
    # The rest includes hosts that were deleted as idle although they have requests.
    await _repair_hosts(shard, unlinked, inflight, list(dict.fromkeys([*names, *+inflight, *unlinked])))


async def _repair_hosts(
    shard: Shard,
    unlinked: Mapping[str, Collection[UnlinkedLane]],
    inflight: Mapping[str, int],
    names: Sequence[str],
) -> None:
    for some in chunks(names, HOSTS_PER_CALL):
        arguments: list[ScriptArgument] = []
        for name in some:
            lanes = b"".join(lane.pack() for lane in unlinked.get(name, ()))
            arguments += [name, inflight.get(name, 0), lanes]
        faults = await shard.run_frozen(shard.scripts.repair_hosts, *arguments)
        for host, pool, fault in zip(faults[::3], faults[1::3], faults[2::3], strict=True):
            shard.report.add(FAULTS[fault.decode()], f"{host.decode()} {pool.decode()}".strip())


# --- pages: each page that is not parsed yet has its stream entry, and no other entry exists -------------


async def repair_announcements(shard: Shard, name: str, crawl: int) -> None:
    """Announce pages again that have no stream entry; delete entries that have no page."""
    if shard.relayed:
        return  # the entries are with the other bus
    pages = shard.scan.hash(keys.parsing(shard.tag, crawl))
    announced_ids = {fp: announced_as(packed) async for fp, packed in pages if _is_readable(packed)}
    entries = await _delete_stale_entries(shard, name, announced_ids)
    missing = [fp for fp, id in announced_ids.items() if id not in entries]
    for some in chunks(missing, PAGES_PER_CALL):
        await shard.run_frozen(shard.scripts.repair_pages, crawl, *some)
        shard.report.add("a page to be parsed that was not in the stream", number=len(some))


def _is_readable(page: bytes) -> bool:
    try:
        unpack_parsing(page)
    except UNREADABLE:
        return False  # the audit reports it
    return True


async def _delete_stale_entries(shard: Shard, name: str, announced_ids: dict[bytes, bytes]) -> set[bytes]:
    """Delete a crawl's stream entries that belong to no page; return the ids of all entries."""
    stream, after = keys.pages(shard.tag), b"-"
    found: set[bytes] = set()
    while entries := await shard.do("XRANGE", stream, after, "+", "COUNT", BATCH):
        for id, fields in entries:
            values = dict(zip(fields[::2], fields[1::2], strict=True))
            found.add(id)
            if values[b"crawl"].decode() == name and announced_ids.get(values[b"fp"]) != id:
                await shard.pipeline([("XACK", stream, keys.PARSE_GROUP, id), ("XDEL", stream, id)])
                shard.report.add("a stream entry without its page")
        after = b"(" + entries[-1][0]
        await shard.renew_freeze()
    return found


# --- dead letters: each has a date, and no other date exists ---------------------------------------------


async def repair_dates(shard: Shard, crawl: int) -> None:
    """Date the letters that have no date; delete dates that have no letter."""
    dates = keys.dead_letter_dates(shard.tag, crawl)
    dated = {member[8:]: member async for member, _ in shard.scan.sorted(dates)}
    async for fp, packed in shard.scan.hash(keys.dead_letters(shard.tag, crawl)):
        if dated.pop(fp, None) is None:
            try:
                ordinal, letter = unpack_letter("", packed)
            except UNREADABLE:
                continue  # the audit reports it
            await shard.do("ZADD", dates, letter.died_at, pack_dated(ordinal, letter.fingerprint))
            shard.report.add("a dead letter without a date")
    for member in dated.values():
        await shard.do("ZREM", dates, member)
        shard.report.add("a date without a dead letter")


# --- the seen-set: its size, and buckets whose split was aborted -----------------------------------------


async def count_seen(shard: Shard, crawl: int) -> int | None:
    """Count the seen-set, and finish aborted splits if the size is wrong; None: a Bloom filter."""
    size, buckets, bits = await shard.do("HMGET", keys.seen_size(shard.tag, crawl), "size", "buckets", "bits")
    if bits is not None:
        return None
    number = int(buckets or 1)
    if buckets is None and (found := await shard.scan.seen_buckets(crawl)) > 1:
        number = found
        await shard.do("HSET", keys.seen_size(shard.tag, crawl), "buckets", number)
        shard.report.add("a seen-set without its number of buckets")
    seen = await shard.scan.seen_members(crawl, number, between=shard.renew_freeze)
    if seen != int(size or 0):
        await _finish_splits(shard, crawl, number)
        seen = await shard.scan.seen_members(crawl, number, between=shard.renew_freeze)
    return seen


async def _finish_splits(shard: Shard, crawl: int, number: int) -> None:
    """Remove members that a split has copied from the bucket that they were copied from."""
    for bucket in range(number):
        here = keys.seen(shard.tag, crawl, bucket)
        misplaced: defaultdict[int, list[bytes]] = defaultdict(list)
        for member in await shard.do("SMEMBERS", here):
            if (right := bucket_of(seen_hash(int(member)), number)) != bucket:
                misplaced[right].append(member)
        for right, members in misplaced.items():
            await shard.do("SADD", keys.seen(shard.tag, crawl, right), *members)
            await shard.do("SREM", here, *members)
        if misplaced:
            shard.report.add("a part of the seen-set that was copied and not moved")
        await shard.renew_freeze()

"""The counters of a crawl: everything counted again, and written down where it differs."""

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import chunk_size, unpack_letter
from shoal.frontier.redis.repair.recount import Found, corrected
from shoal.frontier.redis.repair.seen import count_seen
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import SLICE


async def mend_counters(shard: Shard, name: str, crawl: int) -> None:
    """Have the counters of a crawl say what there is."""
    flat = await shard.do("HGETALL", keys.counters(shard.tag, crawl))
    told = {counter.decode(): int(count) for counter, count in zip(flat[::2], flat[1::2], strict=True)}
    found = await _recounted(shard, crawl)
    changes = corrected(told, found)
    size: int | str = "" if found.seen is None else found.seen
    pairs = [part for pair in changes.items() for part in pair]
    await shard.run_frozen(shard.scripts.repair_counts, crawl, size, *pairs)
    for counter, count in changes.items():
        shard.findings.note_counter(name, counter, by=count - told.get(counter, 0))


async def _recounted(shard: Shard, crawl: int) -> Found:
    tag = shard.tag
    found = Found()
    found.delayed, found.parsing = await shard.pipeline(
        [("ZCARD", keys.delayed(tag, crawl)), ("HLEN", keys.parsing(tag, crawl))]
    )
    found.leased = await _count_leased(shard, crawl)
    found.waiting = await _count_waiting(shard, crawl)
    async for _, packed in shard.slices.hash(keys.letters(tag, crawl)):
        found.letters[unpack_letter("", packed)[1].kind.value] += 1
    await shard.hold()
    found.seen = await count_seen(shard, crawl)
    return found


async def _count_leased(shard: Shard, crawl: int) -> int:
    leased, number = 0, crawl.to_bytes(4, "big")
    async for token, _ in shard.slices.sorted(keys.deadlines(shard.tag)):
        async for field, _ in shard.slices.hash(keys.batch(shard.tag, token.decode())):
            leased += field != keys.HEAD and field.startswith(number)
        await shard.hold()
    return leased


async def _count_waiting(shard: Shard, crawl: int) -> int:
    waiting: int = 0
    sizes: list[tuple[str, str]] = []
    async for host in shard.slices.hosts():
        for lane in host.lanes:
            if lane.crawl == crawl:
                sizes.append(("ZCARD", lane.returned(shard.tag, host.name)))
                sizes += [("LLEN", lane.fresh(shard.tag, host.name, band)) for band in lane.bands]
        if len(sizes) >= SLICE:
            waiting += sum(await shard.pipeline(sizes))
            sizes = []
            await shard.hold()
    waiting += sum(await shard.pipeline(sizes))
    async for id, _ in shard.slices.hash(keys.chunk_bodies(shard.tag, crawl)):
        waiting += chunk_size(id)
    return waiting

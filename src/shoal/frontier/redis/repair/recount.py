"""The counters of a crawl: recompute them from the data, and write those that differ."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import chunk_size, unpack_letter, unpack_record
from shoal.frontier.redis.repair.fixes import count_seen
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import BATCH
from shoal.model.failure import FailureClass


@dataclass(slots=True)
class Found:
    """The requests of a crawl in a shard, counted in the data."""

    seen: int | None = None  # None: a Bloom filter, which cannot be counted
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    parsing: int = 0
    letters: Counter[str] = field(default_factory=Counter)  # dead letters that exist, by class
    pools: Counter[str] = field(default_factory=Counter)  # waiting or delayed, in pools other than http


async def repair_counters(shard: Shard, name: str, crawl: int, *, lost: float = 0) -> None:
    """Write the counters of a crawl that differ from the data.

    `lost`: up to that many requests that are in no place count as `unreadable`, and not as done.
    """
    flat = await shard.do("HGETALL", keys.counters(shard.tag, crawl))
    recorded = {counter.decode(): int(count) for counter, count in zip(flat[::2], flat[1::2], strict=True)}
    found = await _count(shard, crawl)
    changes = correct_counters(recorded, found, lost=lost)
    size: int | str = "" if found.seen is None else found.seen
    pairs = [part for pair in changes.items() for part in pair]
    await shard.run_frozen(shard.scripts.repair_counts, crawl, size, *pairs)
    for counter, count in changes.items():
        shard.report.add_counter(name, counter, by=count - recorded.get(counter, 0))


async def _count(shard: Shard, crawl: int) -> Found:
    tag = shard.tag
    found = Found()
    found.delayed, found.parsing = await shard.pipeline(
        [("ZCARD", keys.delayed(tag, crawl)), ("HLEN", keys.parsing(tag, crawl))]
    )
    found.leased = await _count_leased(shard, crawl)
    found.waiting = await _count_waiting(shard, crawl)
    found.pools = await _count_pools(shard, crawl)
    async for _, packed in shard.scan.hash(keys.dead_letters(tag, crawl)):
        found.letters[unpack_letter("", packed)[1].kind.value] += 1
    await shard.renew_freeze()
    found.seen = await count_seen(shard, crawl)
    return found


async def _count_leased(shard: Shard, crawl: int) -> int:
    leased, number = 0, crawl.to_bytes(4, "big")
    async for token, _ in shard.scan.sorted(keys.deadlines(shard.tag)):
        async for field_name, _ in shard.scan.hash(keys.batch(shard.tag, token.decode())):
            leased += field_name != keys.HEAD and field_name.startswith(number)
        await shard.renew_freeze()
    return leased


async def _count_waiting(shard: Shard, crawl: int) -> int:
    waiting: int = 0
    sizes: list[tuple[str, str]] = []
    async for host in shard.scan.hosts():
        for lane in host.lanes:
            if lane.crawl == crawl:
                sizes.append(("ZCARD", lane.returned(shard.tag, host.name)))
                sizes += [("LLEN", lane.fresh(shard.tag, host.name, band)) for band in lane.bands]
        if len(sizes) >= BATCH:
            waiting += sum(await shard.pipeline(sizes))
            sizes = []
            await shard.renew_freeze()
    waiting += sum(await shard.pipeline(sizes))
    async for id, _ in shard.scan.hash(keys.chunk_bodies(shard.tag, crawl)):
        waiting += chunk_size(id)
    return waiting


async def _count_pools(shard: Shard, crawl: int) -> Counter[str]:
    """Count what waits in pools other than http: few lanes, if any."""
    tag, pools = shard.tag, Counter[str]()
    async for host in shard.scan.hosts():
        for lane in host.lanes:
            if lane.crawl != crawl or lane.pool == keys.HTTP:
                continue
            sizes = [("ZCARD", lane.returned(tag, host.name))]
            sizes += [("LLEN", lane.fresh(tag, host.name, band)) for band in lane.bands]
            pools[lane.pool] += sum(await shard.pipeline(sizes))
            if lane.has_spilled:
                async for id, _ in shard.scan.sorted(keys.chunks(tag, crawl, lane.pool, host.name)):
                    pools[lane.pool] += chunk_size(id)
    await shard.renew_freeze()
    async for record, _ in shard.scan.sorted(keys.delayed(tag, crawl)):
        if (pool := unpack_record(record).pool) != keys.HTTP:
            pools[pool] += 1
    return pools


# --- the values of the counters: no I/O ------------------------------------------------------------------


def count_lost(recorded: Mapping[str, int], found: Found, at_most: float) -> dict[str, int]:
    """Return the counters with what is in no place counted as dead, of class `unreadable`.

    There is no dead letter for it, as if that had been purged.
    """
    purged = max(recorded.get("purged", 0), 0)
    ended = sum(
        max(count, 0)
        for name, count in recorded.items()
        if name in ("gone", "done") or name.startswith("filtered.")
    )
    placed = found.waiting + found.delayed + found.leased + found.parsing + found.letters.total()
    accepted = recorded.get("accepted", 0) if found.seen is None else found.seen
    lost = int(min(max(accepted - placed - purged - ended, 0), at_most))
    unreadable = f"dead.{FailureClass.UNREADABLE.value}"
    return {
        **recorded,
        "purged": purged + lost,
        "dead": found.letters.total() + purged + lost,
        unreadable: recorded.get(unreadable, 0) + lost,
    }


def correct_counters(recorded: Mapping[str, int], found: Found, *, lost: float = 0) -> dict[str, int]:
    """Return the correct values of the counters that are wrong.

    A request that ended without a dead letter leaves only a number. It is derived from the rest: a request
    that was accepted and is in no other place has ended, and counts as done unless `gone` or `filtered`
    account for it; up to `lost` of them were unreadable instead.
    """
    before = recorded
    recorded = count_lost(recorded, found, lost) if lost else recorded
    purged = _purged(recorded, found)
    dead = found.letters.total() + purged
    open_or_dead = found.waiting + found.delayed + found.leased + found.parsing + dead
    ended = {name: max(count, 0) for name, count in recorded.items() if name.startswith("filtered.")}
    ended |= {name: max(recorded.get(name, 0), 0) for name in ("gone", "done")}
    if found.seen is not None:
        ended = _adjust_to(ended, found.seen - open_or_dead)
    right = {
        "waiting": found.waiting,
        "delayed": found.delayed,
        "leased": found.leased,
        "parsing": found.parsing,
        "dead": dead,
        "purged": purged,
        "filtered": sum(count for name, count in ended.items() if name.startswith("filtered.")),
        "accepted": open_or_dead + sum(ended.values()),
        **ended,
        **_dead_by_class(recorded, found.letters, purged),
        **{name: 0 for name in recorded if name.startswith("pool.")},
        **{f"pool.{pool}": count for pool, count in found.pools.items()},
    }
    return {name: count for name, count in right.items() if count != before.get(name, 0)}


def _purged(recorded: Mapping[str, int], found: Found) -> int:
    """Return how many dead letters were purged: at most those that died and do not exist any more."""
    letters, purged = found.letters.total(), max(recorded.get("purged", 0), 0)
    purged = min(purged, max(recorded.get("dead", 0) - letters, 0))
    if found.seen is None:
        return purged
    elsewhere = found.waiting + found.delayed + found.leased + found.parsing + letters
    return min(purged, max(found.seen - elsewhere, 0))


def _adjust_to(ended: Mapping[str, int], total: int) -> dict[str, int]:
    """Make the ended requests add up to `total`: change `done` as far as possible, then the others."""
    adjusted = dict(ended)
    excess = sum(ended.values()) - total
    for name in ("done", "gone", *ended):
        taken = min(excess, adjusted[name])
        adjusted[name] -= taken
        excess -= taken
    return adjusted


def _dead_by_class(recorded: Mapping[str, int], letters: Mapping[str, int], purged: int) -> dict[str, int]:
    """Divide the dead among their classes: letters by their own class, purged ones as recorded."""
    classes = sorted({name.partition(".")[2] for name in recorded if name.startswith("dead.")} | set(letters))
    right, left = {}, purged
    for kind in classes:
        purged_here = min(max(recorded.get(f"dead.{kind}", 0) - letters.get(kind, 0), 0), left)
        right[f"dead.{kind}"] = letters.get(kind, 0) + purged_here
        left -= purged_here
    if left:  # of classes that are not recorded any more
        likely = max(right, key=lambda name: right[name], default="dead.internal")
        right[likely] = right.get(likely, 0) + left
    return right

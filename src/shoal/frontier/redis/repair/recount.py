"""The counters of a crawl: recompute them from the data, and write those that differ."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import UNREADABLE, chunk_size, unpack_letter, unpack_record
from shoal.frontier.redis.repair.fixes import count_seen
from shoal.frontier.redis.repair.scan import PlaceScan
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import BATCH
from shoal.model.failure import FailureClass


@dataclass(slots=True)
class Found:
    """The requests of a crawl in a shard, counted in the data."""

    seen: int | None = None  # members of the seen-set; None: a Bloom filter, which cannot be counted
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    parsing: int = 0
    letters: Counter[str] = field(default_factory=Counter)  # dead letters that exist, by class
    pools: Counter[str] = field(default_factory=Counter)  # waiting or delayed, in pools other than http
    seen_size: int = 0  # as the seen-set records it, with what an earlier repair found to be forgotten
    lost: int = 0  # found by an earlier repair
    twice: int = 0  # requests that were counted in two states


async def repair_counters(shard: Shard, name: str, crawl: int, *, unreadable: float = 0) -> int:
    """Write the counters of a crawl that differ from the data.

    Up to `unreadable` requests that are in no state were in entries that could not be read; they count as
    given up. Return how many requests have ended and are missing in the seen-set.
    """
    flat = await shard.do("HGETALL", keys.counters(shard.tag, crawl))
    recorded = {counter.decode(): int(count) for counter, count in zip(flat[::2], flat[1::2], strict=True)}
    found = await _count(shard, crawl)
    correct = correct_counters(recorded, found, unreadable=unreadable)
    if correct.fewer_ended:
        # Was an end counted twice, or was a call aborted since the shard was read?
        unseen, found.twice = await PlaceScan(shard, crawl).add_unseen()
        assert found.seen is not None
        found.seen += unseen
        correct = correct_counters(recorded, found, unreadable=unreadable)
    size: int | str = "" if found.seen is None else found.seen
    pairs = [part for pair in correct.changes.items() for part in pair]
    arguments = (crawl, size, correct.lost, correct.forgotten, *pairs)
    await shard.run_frozen(shard.scripts.repair_counts, *arguments)
    for counter, count in correct.changes.items():
        shard.report.add_counter(name, counter, by=count - recorded.get(counter, 0))
    shard.report.add(
        f"{name}: requests that were accepted and are in no state: recorded as lost, not restored",
        number=correct.lost - found.lost,
    )
    return correct.forgotten


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
        found.letters[_class_of(packed)] += 1
    await shard.renew_freeze()
    found.seen = await count_seen(shard, crawl)
    stored = await shard.do("HMGET", keys.seen_size(tag, crawl), "size", "forgotten", "lost")
    size, forgotten, found.lost = (int(number or 0) for number in stored)
    found.seen_size = size + forgotten
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
        with suppress(*UNREADABLE):
            if (pool := unpack_record(record).pool) != keys.HTTP:
                pools[pool] += 1
    return pools


def _class_of(letter: bytes) -> str:
    try:
        return unpack_letter("", letter)[1].kind.value
    except UNREADABLE:
        return FailureClass.INTERNAL.value


# --- the values of the counters: no I/O ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CorrectCounters:
    changes: Mapping[str, int]  # the counters that are wrong, with their correct values
    lost: int = 0
    forgotten: int = 0
    fewer_ended: int = 0  # ends that were counted although their requests have not ended


def give_up_unreadable(recorded: Mapping[str, int], number: int) -> dict[str, int]:
    """Return the counters with `number` more requests given up as `unreadable`.

    They have no dead letter, as if it had been purged.
    """
    counter = f"dead.{FailureClass.UNREADABLE.value}"
    more = dict.fromkeys(("purged", "dead", counter), number)
    return {**recorded, **{name: max(recorded.get(name, 0), 0) + count for name, count in more.items()}}


def correct_counters(recorded: Mapping[str, int], found: Found, *, unreadable: float = 0) -> CorrectCounters:
    """Return the correct values of the counters that are wrong.

    A request that ended without a dead letter leaves only a number. Scripts count an end before they remove
    the request, so a script that was aborted has counted too many ends, and never too few. If there are fewer
    ends than requests that were accepted and are in no other state, those requests are lost; up to
    `unreadable` of them are known to be, and count as given up instead.
    """
    correct = _correct_counters(recorded, found)
    if not (given_up := int(min(correct.lost, unreadable))):
        return correct
    more = give_up_unreadable({**recorded, **correct.changes}, given_up)
    correct = _correct_counters(more, found)
    changes = {
        name: count for name, count in {**more, **correct.changes}.items() if count != recorded.get(name, 0)
    }
    return replace(correct, changes=changes)


def _correct_counters(recorded: Mapping[str, int], found: Found) -> CorrectCounters:
    # Members of the seen-set that are deleted leave its size and the counter as they were.
    once = max(found.seen or 0, min(recorded.get("accepted", 0), found.seen_size))
    purged = _purged(recorded, found, once)
    dead = found.letters.total() + purged
    open_or_dead = found.waiting + found.delayed + found.leased + found.parsing + dead - found.twice
    ended = {name: max(count, 0) for name, count in recorded.items() if name.startswith("filtered.")}
    ended |= {name: max(recorded.get(name, 0), 0) for name in ("gone", "done")}
    if found.seen is None:
        accepted = max(open_or_dead + sum(ended.values()), recorded.get("accepted", 0))
    else:
        accepted = max(once, open_or_dead)
        counted = sum(ended.values())
        ended = _reduce_to(ended, accepted - open_or_dead)
    lost = accepted - open_or_dead - sum(ended.values())
    right = {
        "waiting": found.waiting,
        "delayed": found.delayed,
        "leased": found.leased,
        "parsing": found.parsing,
        "dead": dead,
        "purged": purged,
        "filtered": sum(count for name, count in ended.items() if name.startswith("filtered.")),
        "accepted": accepted,
        **ended,
        **_dead_by_class(recorded, found.letters, purged),
        **{name: 0 for name in recorded if name.startswith("pool.")},
        **{f"pool.{pool}": count for pool, count in found.pools.items()},
    }
    changes = {name: count for name, count in right.items() if count != recorded.get(name, 0)}
    if found.seen is None:
        return CorrectCounters(changes, lost)
    return CorrectCounters(changes, lost, accepted - found.seen, counted - sum(ended.values()))


def _purged(recorded: Mapping[str, int], found: Found, accepted: int) -> int:
    """Return how many dead letters were purged: at most those that died and do not exist any more."""
    letters, purged = found.letters.total(), max(recorded.get("purged", 0), 0)
    purged = min(purged, max(recorded.get("dead", 0) - letters, 0))
    if found.seen is None:
        return purged
    elsewhere = found.waiting + found.delayed + found.leased + found.parsing + letters
    return min(purged, max(accepted - elsewhere, 0))


def _reduce_to(ended: Mapping[str, int], total: int) -> dict[str, int]:
    """Make the ended requests add up to at most `total`: reduce `done` first, then the others."""
    reduced = dict(ended)
    excess = max(sum(ended.values()) - total, 0)
    for name in ("done", "gone", *ended):
        taken = min(excess, reduced[name])
        reduced[name] -= taken
        excess -= taken
    return reduced


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

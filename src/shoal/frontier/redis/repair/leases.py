"""Batches of leases: each with its deadline. Who holds suspects and what is on the wire follow from them."""

from collections import Counter
from collections.abc import Mapping

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import unpack_leased
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.shards import chunks

BATCHES_AT_ONCE = 100  # a few milliseconds


async def mend_leases(shard: Shard, tokens: set[str]) -> Counter[str]:
    """Put batches right, these and those that have a deadline; count what is on the wire, by host."""
    dated = {token.decode() async for token, _ in shard.slices.sorted(keys.deadlines(shard.tag))}
    every = sorted(dated | tokens, key=int)
    for some in chunks(every, BATCHES_AT_ONCE):
        wrong = await shard.run_frozen(shard.scripts.repair_leases, *some)
        shard.findings.note(
            "a batch of leases without its deadline, or a deadline without its batch", number=len(wrong)
        )
    wire: Counter[str] = Counter()
    suspects: Counter[bytes] = Counter()
    for token in every:
        await shard.hold()
        held = [pair async for pair in shard.slices.hash(keys.batch(shard.tag, token))]
        holder = dict(held).get(keys.HEAD, b"0")[1:]
        for leased in (unpack_leased(packed) for field, packed in held if field != keys.HEAD):
            wire[leased.record.host] += not leased.landed
            suspects[holder] += leased.record.entry.crashes > 0
    await _mend_suspects(shard, +suspects)
    return wire


async def _mend_suspects(shard: Shard, suspects: Mapping[bytes, int]) -> None:
    key = keys.suspects_out(shard.tag)
    flat = await shard.do("HGETALL", key)
    told = {holder: int(count) for holder, count in zip(flat[::2], flat[1::2], strict=True)}
    for holder in told.keys() | suspects.keys():
        if told.get(holder, 0) == suspects.get(holder, 0):
            continue
        shard.findings.note("a wrong number of suspects", holder.decode())
        if holder in suspects:
            await shard.do("HSET", key, holder, suspects[holder])
        else:
            await shard.do("HDEL", key, holder)

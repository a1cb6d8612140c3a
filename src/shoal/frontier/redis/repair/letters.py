"""Dead letters, and the dates by which they are found: each has one, and there are no others."""

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import pack_dated, unpack_letter
from shoal.frontier.redis.repair.shard import Shard


async def mend_dates(shard: Shard, crawl: int) -> None:
    """Date the letters that have no date; take dates away that have no letter."""
    dates = keys.dates(shard.tag, crawl)
    dated = {member[8:]: member async for member, _ in shard.slices.sorted(dates)}
    async for fp, packed in shard.slices.hash(keys.letters(shard.tag, crawl)):
        if dated.pop(fp, None) is None:
            ordinal, letter = unpack_letter("", packed)
            await shard.do("ZADD", dates, letter.died_at, pack_dated(ordinal, letter.fingerprint))
            shard.findings.note("a dead letter without a date")
    for member in dated.values():
        await shard.do("ZREM", dates, member)
        shard.findings.note("a date without a dead letter")

"""What a crawl has seen, counted; and what a split of a bucket has copied and not moved, moved."""

from collections import defaultdict

from shoal.frontier.redis import keys
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import SLICE
from shoal.frontier.redis.seen import bucket_of, seen_hash


async def count_seen(shard: Shard, crawl: int) -> int | None:
    """Count what a crawl has seen; None: approximately, so that nobody knows."""
    size, buckets, bits = await shard.do("HMGET", keys.seen_size(shard.tag, crawl), "size", "buckets", "bits")
    if bits is not None:
        return None
    number = int(buckets or 1)
    seen = await _in_buckets(shard, crawl, number)
    if seen != int(size or 0):
        await _tidy_buckets(shard, crawl, number)
        seen = await _in_buckets(shard, crawl, number)
    return seen


async def _in_buckets(shard: Shard, crawl: int, number: int) -> int:
    seen = 0
    for first in range(0, number, SLICE):
        some = range(first, min(first + SLICE, number))
        seen += sum(await shard.pipeline([("SCARD", keys.seen(shard.tag, crawl, one)) for one in some]))
        await shard.hold()
    return seen


async def _tidy_buckets(shard: Shard, crawl: int, number: int) -> None:
    """Take what a split has copied out of the bucket that it was copied from."""
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
            shard.findings.note("a part of the seen-set that was copied and not moved")
        await shard.hold()

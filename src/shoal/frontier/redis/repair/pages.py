"""Pages that are still to be parsed: announced, each of them, and nothing else."""

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import announced_as
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import SLICE
from shoal.frontier.redis.shards import chunks

PAGES_AT_ONCE = 100  # a few milliseconds


async def mend_announcements(shard: Shard, name: str, crawl: int) -> None:
    """Announce pages again that nobody would be told of; take announcements back that have no page."""
    if shard.relayed:
        return  # and then they are no longer here
    pages = shard.slices.hash(keys.parsing(shard.tag, crawl))
    held = {fp: announced_as(packed) async for fp, packed in pages}
    announced = await _take_back_others(shard, name, held)
    untold = [fp for fp, id in held.items() if id not in announced]
    for some in chunks(untold, PAGES_AT_ONCE):
        await shard.run_frozen(shard.scripts.repair_pages, crawl, *some)
        shard.findings.note("a page to be parsed that nobody would be told of", number=len(some))


async def _take_back_others(shard: Shard, name: str, held: dict[bytes, bytes]) -> set[bytes]:
    """Take a crawl's announcements back that are of no page held; return all that there were."""
    stream, after = keys.pages(shard.tag), b"-"
    announced: set[bytes] = set()
    while entries := await shard.do("XRANGE", stream, after, "+", "COUNT", SLICE):
        for id, fields in entries:
            values = dict(zip(fields[::2], fields[1::2], strict=True))
            announced.add(id)
            if values[b"crawl"].decode() == name and held.get(values[b"fp"]) != id:
                await shard.pipeline([("XACK", stream, keys.PARSERS, id), ("XDEL", stream, id)])
                shard.findings.note("an announcement of a page that is not there")
        after = b"(" + entries[-1][0]
        await shard.hold()
    return announced

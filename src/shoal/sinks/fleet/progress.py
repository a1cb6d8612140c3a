"""How an output of a fleet stands, seen from outside: what it holds, and what is still on its way there.

Nothing is locked and nobody is held up. What an output holds is read before what is on its way: while a
writer is at work, the two together can seem too few and never too many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from shoal.model.errors import Rejected, ShoalError
from shoal.redis_client import RedisClient, key_names
from shoal.sinks.fleet.checkpointed import peek
from shoal.sinks.fleet.writer import item_streams
from shoal.sinks.names import is_database, shown
from shoal.sinks.recount import recount

_SLICE = 100  # entries of each shard that are looked at at once
_unpack = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class OutputProgress:
    waiting: int  # items on their way
    held: int | None = None  # items counted in it; None: that cannot be done here
    why: str = ""  # it cannot be counted
    problem: str = ""


async def ever_written(store: RedisClient, crawl: int) -> list[str]:
    """Name every output that a crawl has had, those included that it was submitted without later."""
    tag = store.tag(crawl % store.shards)
    fields = await store.do(tag, "HKEYS", key_names.writer(tag, crawl))
    return sorted(name.decode().removeprefix("name ") for name in fields if name.startswith(b"name "))


async def unfinished(store: RedisClient, crawl: int, outputs: Sequence[str], *, node: str) -> bool:
    """Tell whether any output that a machine may write has a writer that has not finished it.

    A writer steps down when it has. One that was killed never does: somebody has to finish for it.
    """
    tag = store.tag(crawl % store.shards)
    for output in outputs:
        name = shown(output)
        asked = (f"holder {name}", f"node {name}")
        holder, home = await store.do(tag, "HMGET", key_names.writer(tag, crawl), *asked)
        if holder is not None and (is_database(output) or home == node.encode()):
            return True
    return False


async def output_progress(store: RedisClient, crawl: int, output: str, *, node: str) -> OutputProgress:
    """Count an output's items again, from a machine that need not be its own."""
    name = shown(output)
    home, owner = await _writer(store, crawl, name)
    if not owner:
        return OutputProgress(await _waiting(store, crawl, {}), held=0)
    marks = await _marks(store, crawl, name)
    if not is_database(output) and home != node:
        return OutputProgress(await _waiting(store, crawl, marks), why=f"a file of {home}")
    try:
        kept = peek(output)
        if kept is None and not marks:
            return OutputProgress(await _waiting(store, crawl, {}), held=0)
        if kept is None or kept[1].owner != owner:
            raise Rejected(f"output {name} is not what this crawl has left there")
        checkpoint, note = kept
        held = recount(output, checkpoint)
    except Rejected as error:
        return OutputProgress(await _waiting(store, crawl, marks), problem=str(error))
    except ShoalError as error:
        return OutputProgress(await _waiting(store, crawl, marks), why=str(error))
    waiting = await _waiting(store, crawl, note.positions)
    return OutputProgress(waiting, held, "" if held is not None else "it cannot be reached from here")


async def _writer(store: RedisClient, crawl: int, name: str) -> tuple[str, str]:
    """Tell the node that an output belongs to and its name in the store (`election`); empty: nobody, none."""
    tag = store.tag(crawl % store.shards)
    found = await store.do(tag, "HMGET", key_names.writer(tag, crawl), f"node {name}", f"name {name}")
    node, owner = (b"" if value is None else value for value in found)
    return node.decode(), owner.decode()


async def _marks(store: RedisClient, crawl: int, name: str) -> dict[int, str]:
    """Read how far the shards know that an output has come."""
    found = {}
    for shard, tag in enumerate(store.tags()):
        mark = await store.do(tag, "HGET", key_names.written(tag, crawl), name)
        if mark is not None:
            found[shard] = mark.decode()
    return found


async def _waiting(store: RedisClient, crawl: int, after: Mapping[int, str]) -> int:
    streams, count = item_streams(store, crawl), 0
    while entries := await streams.read(after, count=_SLICE):
        count += sum(len(_unpack(entry.fields[b"items"])) for entry in entries)
        after = {**after, **{entry.shard: entry.id for entry in entries}}
    return count

"""The progress of a fleet's outputs, read from outside: items they hold, and items still in the store.

Reading locks nothing and delays no writer. The items of an output are counted before those in the store:
while a writer is at work, the two together can be too few, but never too many.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from shoal.model.errors import Rejected, ShoalError
from shoal.redis_client import RedisClient, key_names
from shoal.sinks.drafts import place_of
from shoal.sinks.fleet.checkpointed import read_position
from shoal.sinks.fleet.writer import item_streams
from shoal.sinks.names import public_name
from shoal.sinks.recount import recount
from shoal.sinks.registry import resolve

_BATCH_ENTRIES = 100  # entries of each shard that are read at once
_unpack = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class OutputProgress:
    waiting: int  # items in the store that the output does not have yet
    held: int | None = None  # items counted in the output; None: it cannot be counted here
    why: str = ""  # the reason why it cannot be counted
    problem: str = ""


async def ever_written(store: RedisClient, crawl: int) -> list[str]:
    """Return every output that a crawl has had, including those that a later submit has left out."""
    tag = store.tag(crawl % store.shards)
    fields = await store.do(tag, "HKEYS", key_names.writer(tag, crawl))
    return sorted(name.decode().removeprefix("name ") for name in fields if name.startswith(b"name "))


async def unfinished(store: RedisClient, crawl: int, outputs: Sequence[str], *, node: str) -> bool:
    """Return whether a writer has not finished an output that this machine may write.

    A writer ends its term when it has finished. One that was killed does not: another one has to finish.
    """
    tag = store.tag(crawl % store.shards)
    for output in outputs:
        name = public_name(output)
        fields = (f"holder {name}", f"node {name}")
        holder, home = await store.do(tag, "HMGET", key_names.writer(tag, crawl), *fields)
        if holder is not None and home in (None, node.encode()):  # None: a shared output
            return True
    return False


async def output_progress(
    store: RedisClient, crawl: int, output: str, *, node: str, refusal: str = ""
) -> OutputProgress:
    """Count the items of an output again; this machine need not be the one that writes it.

    `refusal`: why the output must not be opened here; empty: it may.
    """
    name = public_name(output)
    home, owner = await _writer(store, crawl, name)
    if not owner:
        return OutputProgress(await _waiting(store, crawl, {}), held=0)
    marks = await _marks(store, crawl, name)
    if refusal:
        return OutputProgress(await _waiting(store, crawl, marks), why=refusal)
    if home and home != node:
        return OutputProgress(await _waiting(store, crawl, marks), why=f"a file of {home}")
    try:
        resolved = resolve(output)
        last = read_position(resolved)
        if last is None and not marks:
            return OutputProgress(await _waiting(store, crawl, {}), held=0)
        if last is None or last[1].owner != owner:
            raise Rejected(f"output {name} is not as this crawl has left it")
        checkpoint, position = last
        held = recount(place_of(output), checkpoint)
    except Rejected as error:
        return OutputProgress(await _waiting(store, crawl, marks), problem=str(error))
    except ShoalError as error:
        return OutputProgress(await _waiting(store, crawl, marks), why=str(error))
    waiting = await _waiting(store, crawl, position.positions)
    if held is None and not resolved.capabilities.countable:
        return OutputProgress(waiting, why="its sink cannot count items")
    return OutputProgress(waiting, held, "" if held is not None else "it cannot be reached from here")


async def _writer(store: RedisClient, crawl: int, name: str) -> tuple[str, str]:
    """Return the node that an output belongs to (empty: shared) and its id in the store (empty: none yet)."""
    tag = store.tag(crawl % store.shards)
    found = await store.do(tag, "HMGET", key_names.writer(tag, crawl), f"node {name}", f"name {name}")
    node, owner = (b"" if value is None else value for value in found)
    return node.decode(), owner.decode()


async def _marks(store: RedisClient, crawl: int, name: str) -> dict[int, str]:
    """Return, by shard, the position of an output that the store has."""
    found = {}
    for shard, tag in enumerate(store.tags()):
        mark = await store.do(tag, "HGET", key_names.written(tag, crawl), name)
        if mark is not None:
            found[shard] = mark.decode()
    return found


async def _waiting(store: RedisClient, crawl: int, after: Mapping[int, str]) -> int:
    streams, count = item_streams(store, crawl), 0
    while entries := await streams.read(after, count=_BATCH_ENTRIES):
        count += sum(len(_unpack(entry.fields[b"items"])) for entry in entries)
        after = {**after, **{entry.shard: entry.id for entry in entries}}
    return count

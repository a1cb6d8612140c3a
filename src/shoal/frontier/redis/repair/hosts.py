"""Hosts: what is on the wire, what their lanes hold, and where those stand in line."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from shoal.frontier.redis import keys
from shoal.frontier.redis.repair.loose import LooseLane
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.shards import chunks
from shoal.redis_client import ScriptArgument

HOSTS_AT_ONCE = 100  # a few milliseconds

WRONG = {
    "wire": "the number of requests on the wire",
    "unknown": "a lane that its host did not know of",
    "holds": "a lane that held something else than its host said",
    "line": "a lane in the wrong place in line, or in none",
    "chunk": "a lane that did not ask for its next chunk",
}


async def mend_hosts(shard: Shard, loose: Mapping[str, Collection[LooseLane]], wire: Counter[str]) -> None:
    """Put all hosts right, given the lanes that they do not know of and what is on the wire."""
    gathered: list[str] = []
    async for name, _ in shard.slices.hash(keys.hosts(shard.tag)):
        gathered.append(name.decode())
        if len(gathered) == HOSTS_AT_ONCE:
            await _mend(shard, loose, wire, gathered)
            gathered = []
    # Among the others are hosts that were forgotten, although something of theirs is there.
    await _mend(shard, loose, wire, list(dict.fromkeys([*gathered, *+wire, *loose])))


async def _mend(
    shard: Shard,
    loose: Mapping[str, Collection[LooseLane]],
    wire: Mapping[str, int],
    names: Sequence[str],
) -> None:
    for some in chunks(names, HOSTS_AT_ONCE):
        arguments: list[ScriptArgument] = []
        for name in some:
            lanes = b"".join(lane.packed() for lane in loose.get(name, ()))
            arguments += [name, wire.get(name, 0), lanes]
        wrong = await shard.run_frozen(shard.scripts.repair_hosts, *arguments)
        for host, pool, what in zip(wrong[::3], wrong[1::3], wrong[2::3], strict=True):
            shard.findings.note(WRONG[what.decode()], f"{host.decode()} {pool.decode()}".strip())

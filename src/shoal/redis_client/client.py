"""A Redis store: shards, and calls that come back with an answer or say why they cannot.

Keys. Everything of a shard begins with its tag, `{namespace:NN}`, so that one call touches one slot of a
cluster and the same scripts run on one server and on many. A host belongs to one shard for good, therefore
the number of shards is written down by whoever uses the store first (`{namespace}:meta`), and read by
everybody after.

Calls. What a failure leads to is looked up in `failures`; a call is repeated until it succeeds or its
patience has run out, so a script has to bear being run again although it had its effect the first time.
While a store cannot be asked, nobody gets an answer, and nothing is sent anywhere on a guess.

Promises. What was written is on the master when a call returns. With `promised`, enough replicas hold it
too, where there are any: a master that dies after that takes nothing along. WAIT counts what its own
connection has written, so the question goes where the write went; if that connection is lost before the
answer, the write may be lost too, and the call is made again. `run_lasting` asks for more: that the servers
have it on disk, too (`disk`). That takes about a second, so it is for few calls, on connections of their own.

Epochs. A server that was restarted or replaced may have lost the last writes, the turns that hosts had
taken among them. `EPOCH` among the arguments of a script becomes the identity of the server process that
runs it, filled in as the call is sent: a script that keeps it in its shard sees at once that its data may
have been rolled back.
"""

import asyncio
import hashlib
import logging
import random
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from shoal.model.errors import Misconfigured
from shoal.redis_client import durability as disk
from shoal.redis_client import health
from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address, Dsn, parse
from shoal.redis_client.errors import UNSYNCED, CallFailed, Remedy
from shoal.redis_client.fan_out import together
from shoal.redis_client.outage_log import OutageLog
from shoal.redis_client.servers import CALL_TIMEOUT, Server, Servers

log = logging.getLogger(__name__)

SHARDS = 16
CLUSTER_SHARDS = 64  # enough to spread over a dozen masters and to be moved one by one
WAIT_MS = 1_000
SCHEMA = 2  # of what lies in a store: lanes are lists, and stand in one line

T = TypeVar("T")


@dataclass(frozen=True)
class Script:
    """A Lua script; it is known to servers by the hash of its text."""

    name: str
    source: str

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


# Changes nothing, and is a write all the same.
_TOUCH = Script(
    "touch",
    "#!lua flags=allow-oom\n"
    "return redis.call('HSET', KEYS[1], 'schema', redis.call('HGET', KEYS[1], 'schema'))",
)

# A server that is full refuses commands that take memory, and lets scripts that say so have what they need.
_ALWAYS = Script("always", "#!lua flags=allow-oom\nreturn redis.call(unpack(ARGV))")


class _Epoch:
    """The type of `EPOCH`."""


EPOCH: Final = _Epoch()

ScriptArgument = Argument | _Epoch


class RedisClient:
    """Use `RedisClient.open`."""

    def __init__(self, dsn: Dsn, *, timeout: float = CALL_TIMEOUT) -> None:
        self.dsn = dsn
        self.namespace = dsn.namespace
        self.shards = 0  # until the store has been asked
        self.patience = dsn.patience  # may be changed at any time, and counts for calls that wait already
        self._servers = Servers(dsn, timeout=timeout)
        self._idle: dict[
            Address, list[RedisConnection]
        ] = {}  # links that wait at a server now and then, and do not now
        self._silence = OutageLog(str(dsn))

    def __repr__(self) -> str:
        return f"RedisClient({self.dsn})"

    @classmethod
    @asynccontextmanager
    async def open(
        cls, dsn: str | Dsn, *, timeout: float = CALL_TIMEOUT, advise: bool = True
    ) -> AsyncIterator["RedisClient"]:
        """Connect, see that the server is fit for a frontier, and find out how it is sharded.

        `advise`: warn about what a server could do better.
        """
        store = cls(dsn if isinstance(dsn, Dsn) else parse(dsn), timeout=timeout)
        try:
            for address, advice in await store._check_health(advise=advise):
                log.warning("store.health", extra={"where": str(address), "advice": advice})
            await store._settle_shards()
            yield store
        finally:
            store._close()

    def _close(self) -> None:
        self._servers.close()
        for links in self._idle.values():
            for link in links:
                link.close()

    @property
    def servers_met(self) -> int:
        """Count the server processes that were asked so far: one more may have forgotten what others knew."""
        return len(self._servers.met)

    # Names.

    def tag(self, shard: int) -> str:
        return f"{{{self.namespace}:{shard:02}}}"

    def tags(self) -> list[str]:
        return [self.tag(shard) for shard in range(self.shards)]

    def shard_of(self, name: str) -> int:
        """Say which shard a host, or a crawl, is at home in."""
        return zlib.crc32(name.encode()) % self.shards

    def tag_of(self, name: str) -> str:
        return self.tag(self.shard_of(name))

    @property
    def fleet_tag(self) -> str:
        """What the keys begin with that belong to no shard of the frontier: workers, crawl records."""
        return f"{{{self.namespace}:fleet}}"

    # Calls.

    async def run(
        self, script: Script, tag: str, args: Sequence[ScriptArgument], *, promised: bool = False
    ) -> Any:
        """Run a script on a shard; `promised`: return when replicas hold what it wrote, too."""

        return await self._persist(
            tag, lambda server: _evaluated(server, script, tag, args), promised=promised
        )

    async def run_lasting(
        self, script: Script, calls: Mapping[str, Sequence[ScriptArgument]], *, line: str
    ) -> dict[str, Any]:
        """Run a script on several shards; return when replicas hold what it wrote, and disks.

        What it returns is from the server processes that have said so. The script has to write something
        each time; by then all that its servers confirmed earlier lasts, too, whoever wrote it. `line` names
        the caller: waiting for a disk would hold up whoever shares a connection.
        """

        async def attempt(_: Server) -> dict[str, Any]:
            parts: dict[Address, tuple[Server, dict[str, Sequence[ScriptArgument]]]] = {}
            for tag, args in calls.items():
                server = await self._servers.master(tag, line=line)
                parts.setdefault(server.link.address, (server, {}))[1][tag] = args
            answers = await together(
                self._run_lasting(server, script, part) for server, part in parts.values()
            )
            return {tag: answer for part in answers for tag, answer in part.items()}

        return await self._persist(next(iter(calls)), attempt) if calls else {}

    async def sync(self) -> None:
        """Return when replicas hold all that the store has confirmed so far, and disks."""
        await self.run_lasting(_TOUCH, dict.fromkeys(self.tags(), ()), line="sync")

    async def _run_lasting(
        self, server: Server, script: Script, calls: Mapping[str, Sequence[ScriptArgument]]
    ) -> dict[str, Any]:
        answers = await together(_evaluated(server, script, tag, args) for tag, args in calls.items())
        tag, args = next(iter(calls.items()))
        await self._promise(server, tag)
        logs, copies = await self._servers.logs(server), self.dsn.replicas
        try:
            await disk.sync(server.link, logs, lambda: _evaluated(server, script, tag, args), replicas=copies)
        except CallFailed as failure:
            if failure.kind == UNSYNCED and logs.wanted(copies)[1]:
                await self._servers.confirm(server, tag)  # a replica may be gone: then nobody waits for it
            raise
        return dict(zip(calls, answers, strict=True))

    async def do(self, tag: str, *command: Argument, promised: bool = False) -> Any:
        """Run one command on a key that begins with `tag`; like a script, it may be run twice."""
        return await self._persist(tag, lambda server: server.link.call(*command), promised=promised)

    async def do_always(self, tag: str, *command: Argument, promised: bool = False) -> Any:
        """Run one command, like `do`, on a server that is full, too: for what helps to work it off."""
        return await self._persist(
            tag, lambda server: _evaluated(server, _ALWAYS, tag, command), promised=promised
        )

    async def pipeline(
        self, tag: str, commands: Sequence[Sequence[Argument]], *, promised: bool = False
    ) -> list[Any]:
        """Run commands on keys that begin with `tag` in one round trip; not in one atomic step."""

        async def attempt(server: Server) -> list[Any]:
            answers = await server.link.calls(commands)
            return [server.link.checked(answer) for answer in answers]

        return await self._persist(tag, attempt, promised=promised) if commands else []

    async def block(self, tag: str, seconds: float, *command: Argument) -> Any:
        """Run a command that waits up to `seconds` at the server, on a connection that nobody else uses."""

        async def attempt(server: Server) -> Any:
            idle = self._idle.setdefault(server.link.address, [])
            link = idle.pop() if idle else None
            if link is None or not link.alive:
                link = await self._servers.dial(server.link.address)
            try:
                [answer] = await link.calls([command], extra=seconds)
                checked = link.checked(answer)
            except BaseException:
                link.close()  # it may be waiting there still
                raise
            idle.append(link)
            return checked

        return await self._persist(tag, attempt)

    async def names(self, pattern: str) -> AsyncIterator[bytes]:
        """Give the names of keys, from every master, a slice at a time; a name may come twice.

        A master that is lost on the way ends it: where it had got to nobody else knows.
        """
        for address in await self._persist(self.fleet_tag, lambda _: self._servers.masters()):
            link = await self._servers.dial(address)
            try:
                cursor = b"0"
                while True:
                    cursor, found = await link.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                    for name in found:
                        yield name
                    if cursor == b"0":
                        break
            except CallFailed as failure:
                raise failure.error() from failure
            finally:
                link.close()

    async def epoch(self, tag: str) -> str:
        """Say which server process holds a tag right now; another one may have lost its last writes."""

        async def attempt(server: Server) -> str:
            await server.link.call("PING")
            return server.epoch

        return await self._persist(tag, attempt)

    async def _persist(
        self, tag: str, attempt: Callable[[Server], Awaitable[T]], *, promised: bool = False
    ) -> T:
        """Try until it works, until the table says that it never will, or until patience has run out."""
        began = time.monotonic()
        for number, pause in enumerate(_pauses()):
            try:
                server = await self._servers.master(tag)
                answer = await attempt(server)
                if promised:
                    await self._promise(server, tag)
            except CallFailed as failure:
                remedy = failure.row.remedy
                late = time.monotonic() - began > self.patience
                doubtful = remedy is Remedy.DOUBT and not self._servers.met
                if late or doubtful or remedy in (Remedy.TELL, Remedy.STOP):
                    raise failure.error(self.patience) from failure
                if remedy in (Remedy.REDISCOVER, Remedy.DOUBT):
                    self._servers.forget(failure)
                self._silence.goes_on(failure, since=began, attempts=number)
            else:
                self._silence.is_over(attempts=number)
                return answer
            await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    async def _promise(self, server: Server, tag: str) -> None:
        """Return when enough replicas hold what was written on this link; `CallFailed`: it may be lost."""
        wanted = min(self.dsn.replicas, await self._servers.replicas(server))
        if not wanted:
            return
        [held] = await server.link.calls([("WAIT", wanted, WAIT_MS)], extra=WAIT_MS / 1000)
        if server.link.checked(held) >= wanted:
            return
        # Either a replica is gone, or this master has been replaced and has not heard of it.
        await self._servers.confirm(server, tag)
        if server.replicas:
            raise CallFailed("NOREPLICAS", str(server.link.address))

    # The first words with a store.

    async def _check_health(self, *, advise: bool) -> list[tuple[Address, str]]:
        async def attempt(_: Server) -> list[tuple[Address, str]]:
            advice = []
            for address in await self._servers.masters():
                link = await self._servers.dial(address)
                try:
                    told = await health.check(link)
                    if advise:
                        told += await self._advice_on_disks(link)
                        advice += [(address, one) for one in told]
                finally:
                    link.close()
            return advice

        return await self._persist(self.fleet_tag, attempt)

    async def _advice_on_disks(self, link: RedisConnection) -> list[str]:
        """Say what keeps promises from being on the disks of a master and its replicas."""
        told = health.facts(await link.call("INFO", "server", "persistence", "replication"))
        if told.get("aof_enabled") != "1":
            return []  # which is worse, and told already
        if advice := await disk.advice(link, told):
            return advice
        replicas = health.replicas(told)
        logs = await self._servers.logs_of(replicas)
        return [
            one
            for replica, log in zip(replicas, logs, strict=True)
            for one in disk.advice_on_replica(str(replica), log)
        ]

    async def _settle_shards(self) -> None:
        meta, tag = f"{{{self.namespace}}}:meta", f"{{{self.namespace}}}"
        wanted = CLUSTER_SHARDS if self.dsn.cluster else SHARDS
        shards, schema = await self.do(tag, "HMGET", meta, "shards", "schema")
        if shards is None or schema is None:  # else nothing is written: the server may be full
            await self.pipeline(tag, [("HSETNX", meta, "shards", wanted), ("HSETNX", meta, "schema", SCHEMA)])
            shards, schema = await self.do(tag, "HMGET", meta, "shards", "schema")
        if int(schema) > SCHEMA:
            raise Misconfigured(f"store: {self.dsn} was written by a newer Shoal: upgrade Shoal")
        if int(schema) < SCHEMA:
            raise Misconfigured(
                f"store: {self.dsn} was written by an older Shoal: finish its crawls with that one, "
                "or begin in another place with ?namespace="
            )
        self.shards = int(shards)
        # The key that every script declares has to exist: a cluster that moves a slot answers ASK for a
        # missing one, and lets a present one abort the script.
        await together(self.do_always(tag, "HSETNX", f"{tag}:m", "schema", SCHEMA) for tag in self.tags())


async def _evaluated(server: Server, script: Script, tag: str, args: Sequence[ScriptArgument]) -> Any:
    filled = [server.epoch if isinstance(one, _Epoch) else one for one in args]
    command = ("EVALSHA", script.sha, 1, f"{tag}:m", *filled)
    loads = server.loads[script.sha]
    try:
        return await server.link.call(*command)
    except CallFailed as failure:
        if failure.row.remedy is not Remedy.LOAD:
            raise
    async with server.loading:  # all shards of a server are asked at once, and one that loads it is enough
        if server.loads[script.sha] == loads:
            await server.link.call("SCRIPT", "LOAD", script.source)
            server.loads[script.sha] += 1
    return await server.link.call(*command)


def _pauses() -> Iterator[float]:
    """Wait longer each time, up to a second, and never in step with the rest of a fleet."""
    ceiling = 0.05
    while True:
        yield random.uniform(ceiling / 2, ceiling)
        ceiling = min(1.0, ceiling * 2)

"""A Redis store: shards, and calls that come back with an answer or say why they cannot.

Keys. Everything of a shard begins with its tag, `{namespace:NN}`, so that one call touches one slot of a
cluster and the same scripts run on one server and on many. A host belongs to one shard for good, therefore
the number of shards is written down by whoever uses the store first (`{namespace}:meta`), and read by
everybody after.

Calls. What a failure leads to is looked up in `failures`; a call is repeated until it succeeds or its
patience has run out, so a script has to bear being run again although it had its effect the first time.
While a store cannot be asked, nobody gets an answer, and nothing is sent anywhere on a guess.

Promises. What was written is on the master when a call returns. Where there are replicas, `promise` returns
when enough of them hold it too; a master that dies after that takes no promise along. WAIT counts what its
own connection has written, so all calls of a tag take the same connection, and a promise whose connection
is lost is not given: the caller repeats what it wrote.

Epochs. A server that was restarted or replaced may have lost the last writes, the turns that hosts had
taken among them. `EPOCH` among the arguments of a script becomes the identity of the server process that
runs it, filled in as the call is sent: a script that keeps it in its shard sees at once that its data may
have been rolled back.
"""

import asyncio
import hashlib
import logging
import random
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from shoal.model.errors import Misconfigured, Unavailable
from shoal.stores.redis import health
from shoal.stores.redis.dsn import Address, Dsn, Login, parse
from shoal.stores.redis.failures import Failed, Remedy, refused
from shoal.stores.redis.link import Argument, Link, Refused
from shoal.stores.redis.topology import topology

log = logging.getLogger(__name__)

SHARDS = 16
CLUSTER_SHARDS = 64  # enough to spread over a dozen masters and to be moved one by one
CALL_TIMEOUT = 5.0  # no script takes a hundredth of it; beyond it the server hangs or the network is cut
WAIT_MS = 1_000
LINKS = 2  # per server: a tag that waits for its replicas holds up every second tag at most
SCHEMA = 1

T = TypeVar("T")


@dataclass(frozen=True)
class Script:
    """A Lua script; it is known to servers by the hash of its text."""

    name: str
    source: str

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


class _Epoch:
    """The type of `EPOCH`."""


EPOCH: Final = _Epoch()

ScriptArgument = Argument | _Epoch


class Unpromised(Unavailable):
    """A write may be lost with its master: repeat it."""


@dataclass(slots=True)
class Server:
    """A link to a master, and what is known about who is at its other end."""

    link: Link
    epoch: str  # of the server process
    replicas: int


class RedisStore:
    """Use `RedisStore.open`."""

    def __init__(self, dsn: Dsn, *, timeout: float = CALL_TIMEOUT) -> None:
        self.dsn = dsn
        self.namespace = dsn.namespace
        self.shards = 0  # until the store has been asked
        self.patience = dsn.patience
        self._timeout = timeout
        self._tls = _tls(dsn)
        self._topology = topology(
            dsn,
            dial=lambda address: self._dial(address, dsn.login, dsn.database),
            dial_sentinel=lambda address: self._dial(address, dsn.sentinel_login),
        )
        self._servers: dict[tuple[Address, int], Server] = {}
        self._opening: dict[tuple[Address, int], asyncio.Lock] = {}
        self._wrote: dict[str, Server] = {}  # tag -> where its last call went

    def __repr__(self) -> str:
        return f"RedisStore({self.dsn})"

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str | Dsn, *, timeout: float = CALL_TIMEOUT) -> AsyncIterator["RedisStore"]:
        """Connect, see that the server is fit for a frontier, and find out how it is sharded."""
        store = cls(dsn if isinstance(dsn, Dsn) else parse(dsn), timeout=timeout)
        try:
            await store._check_health()
            await store._settle_shards()
            yield store
        finally:
            store.close()

    def close(self) -> None:
        for server in self._servers.values():
            server.link.close()
        self._servers.clear()

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
        """Run a script on a shard. `promised`: return when replicas hold what it wrote, too."""

        async def attempt(server: Server) -> Any:
            filled = [server.epoch if isinstance(one, _Epoch) else one for one in args]
            command = ("EVALSHA", script.sha, 1, f"{tag}:m", *filled)
            try:
                return await self._call(server, tag, command, promised=promised)
            except Failed as failure:
                if failure.row.remedy is not Remedy.LOAD:
                    raise
            await server.link.call("SCRIPT", "LOAD", script.source)
            return await self._call(server, tag, command, promised=promised)

        return await self._persist(tag, attempt)

    async def do(self, tag: str, *command: Argument) -> Any:
        """Run one command on a key that begins with `tag`; like a script, it may be run twice."""
        return await self._persist(tag, lambda server: self._call(server, tag, command))

    async def pipeline(self, tag: str, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Run commands on keys that begin with `tag` in one round trip; not in one atomic step."""

        async def attempt(server: Server) -> list[Any]:
            answers = await server.link.calls(commands)
            self._wrote[tag] = server
            return [_checked(answer, server) for answer in answers]

        return await self._persist(tag, attempt) if commands else []

    async def block(self, tag: str, seconds: float, *command: Argument) -> Any:
        """Run a command that waits up to `seconds` at the server, on a connection of its own."""

        async def attempt(server: Server) -> Any:
            link = await self._dial(server.link.address, self.dsn.login, self.dsn.database)
            try:
                [answer] = await link.calls([command], extra=seconds)
            finally:
                link.close()
            return _checked(answer, server)

        return await self._persist(tag, attempt)

    async def promise(self, tag: str) -> None:
        """Return when replicas hold what was written to the tag; `Unpromised`: it has to be written again."""
        if (server := self._wrote.get(tag)) is None:
            return
        until = time.monotonic() + self.patience
        try:
            while (wanted := min(self.dsn.replicas, server.replicas)) > 0:
                [held] = await server.link.calls([("WAIT", wanted, WAIT_MS)], extra=WAIT_MS / 1000)
                if _checked(held, server) >= wanted:
                    return
                await self._count_replicas(server)
                if time.monotonic() > until:
                    raise Unpromised(f"store: {server.link.address}: its replicas do not follow")
        except Failed as failure:
            raise Unpromised(
                f"store: {failure.explain()} before its replicas had the last write"
            ) from failure

    async def epoch(self, tag: str) -> str:
        """Say which server process holds a tag right now; another one may have lost its last writes."""

        async def attempt(server: Server) -> str:
            await server.link.call("PING")
            return server.epoch

        return await self._persist(tag, attempt)

    async def _call(
        self, server: Server, tag: str, command: Sequence[Argument], *, promised: bool = False
    ) -> Any:
        [answer] = await server.link.calls([command])
        self._wrote[tag] = server
        answer = _checked(answer, server)
        if promised:
            await self.promise(tag)
        return answer

    async def _persist(self, tag: str, attempt: Callable[[Server], Awaitable[T]]) -> T:
        """Try until it works, until the table says that it never will, or until patience has run out."""
        began = time.monotonic()
        for number, pause in enumerate(_pauses()):
            try:
                answer = await attempt(await self._server(tag))
            except Unpromised:
                if time.monotonic() - began > self.patience:
                    raise
            except Failed as failure:
                remedy = failure.row.remedy
                late = time.monotonic() - began > self.patience
                if late or remedy in (Remedy.TELL, Remedy.STOP):
                    raise failure.error(self.patience) from failure
                if remedy is Remedy.REDISCOVER:
                    self._forget(failure)
                if number == 0:
                    log.info("store.repeats", extra={"why": failure.kind, "where": failure.where})
            else:
                return answer
            await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    # Servers.

    async def _server(self, tag: str) -> Server:
        address = await self._topology.master(tag)
        place = (address, zlib.crc32(tag.encode()) % LINKS)
        async with self._opening.setdefault(place, asyncio.Lock()):
            server = self._servers.get(place)
            if server is None or not server.link.alive:
                server = self._servers[place] = await self._connect(address)
        return server

    async def _connect(self, address: Address) -> Server:
        link = await self._dial(address, self.dsn.login, self.dsn.database)
        try:
            facts = health.facts(await link.call("INFO", "server", "replication"))
            if facts.get("role") != "master":
                raise Failed("READONLY", str(address))
        except BaseException:
            link.close()
            raise
        return Server(link, facts["run_id"], int(facts["connected_slaves"]))

    async def _count_replicas(self, server: Server) -> None:
        facts = health.facts(await server.link.call("INFO", "replication"))
        if (number := int(facts["connected_slaves"])) < min(server.replicas, self.dsn.replicas):
            log.warning("store.replica_lost", extra={"where": str(server.link.address), "left": number})
        server.replicas = number

    async def _dial(self, address: Address, login: Login, database: int = 0) -> Link:
        return await Link.open(address, login, database=database, tls=self._tls, timeout=self._timeout)

    def _forget(self, failure: Failed) -> None:
        """Ask again who the master is; a server that said it is none has to say who it is, too."""
        self._topology.forget()
        if failure.kind in ("READONLY", "MASTERDOWN"):
            for server in self._servers.values():
                if str(server.link.address) == failure.where:
                    server.link.close()

    # The first words with a store.

    async def _check_health(self) -> None:
        async def attempt(_: Server) -> None:
            for address in await self._topology.masters():
                link = await self._dial(address, self.dsn.login, self.dsn.database)
                try:
                    for warning in await health.check(link):
                        log.warning("store.health", extra={"where": str(address), "advice": warning})
                finally:
                    link.close()

        await self._persist(self.fleet_tag, attempt)

    async def _settle_shards(self) -> None:
        meta, tag = f"{{{self.namespace}}}:meta", f"{{{self.namespace}}}"
        wanted = CLUSTER_SHARDS if self.dsn.cluster else SHARDS
        _, _, shards, schema = await self.pipeline(
            tag,
            [
                ("HSETNX", meta, "shards", wanted),
                ("HSETNX", meta, "schema", SCHEMA),
                ("HGET", meta, "shards"),
                ("HGET", meta, "schema"),
            ],
        )
        if int(schema) > SCHEMA:
            raise Misconfigured(f"store: {self.dsn} was written by a newer Shoal: upgrade Shoal")
        self.shards = int(shards)
        # The key that every script declares has to exist: a cluster that moves a slot answers ASK for a
        # missing one, and lets a present one abort the script.
        for tag in self.tags():
            await self.do(tag, "HSETNX", f"{tag}:m", "schema", SCHEMA)


def _checked(answer: Any, server: Server) -> Any:
    if isinstance(answer, Refused):
        raise refused(str(answer), str(server.link.address))
    return answer


def _pauses() -> Iterator[float]:
    """Wait longer each time, up to a second, and never in step with the rest of a fleet."""
    ceiling = 0.05
    while True:
        yield random.uniform(ceiling / 2, ceiling)
        ceiling = min(1.0, ceiling * 2)


def _tls(dsn: Dsn) -> ssl.SSLContext | None:
    if not dsn.tls:
        return None
    try:
        context = ssl.create_default_context()
        if dsn.ca_file:
            context.load_verify_locations(dsn.ca_file)
    except OSError as error:
        raise Misconfigured(f"store: ca_file {dsn.ca_file} cannot be read: {error.strerror}") from error
    return context

"""The master of a key: one fixed server, the one that Sentinel names, or the owner of a cluster slot.

Results are cached until `clear`, which is called when the error table asks to rediscover the master.
"""

import asyncio
import binascii
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address, ip_network
from typing import Protocol

from shoal.model.errors import Misconfigured
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address, Dsn
from shoal.redis_client.errors import LOST, CallFailed

SLOTS = 16_384

Dial = Callable[[Address], Awaitable[RedisConnection]]


class Topology(Protocol):
    async def master(self, tag: str) -> Address: ...
    async def masters(self) -> Sequence[Address]: ...
    def clear(self) -> None: ...


def open_topology(dsn: Dsn, *, dial: Dial, dial_sentinel: Dial) -> Topology:
    match dsn.scheme:
        case "redis+sentinel":
            return Sentinels(dsn.addresses, dsn.service, dial_sentinel, dsn.servers)
        case "redis+cluster":
            return Cluster(dsn.addresses, dial)
        case _:
            return OneServer(dsn.addresses[0])


def slot_of(tag: str) -> int:
    """Return the cluster slot of a hash tag, which includes its braces."""
    return binascii.crc_hqx(tag.strip("{}").encode(), 0) % SLOTS  # CRC-16/XMODEM


class OneServer:
    def __init__(self, address: Address) -> None:
        self._address = address

    async def master(self, tag: str) -> Address:
        return self._address

    async def masters(self) -> Sequence[Address]:
        return [self._address]

    def clear(self) -> None:
        """Keep the address: it is fixed, even if another process listens there."""


class Sentinels:
    """The master that most of the sentinels name.

    The password of the store is sent to the server that they name, and most sentinels need no password: so
    one of them alone does not decide, as long as others answer. `servers` (from the DSN) names the servers
    that it may be.
    """

    def __init__(
        self, addresses: Sequence[Address], service: str, dial: Dial, servers: Sequence[str] = ()
    ) -> None:
        self._addresses = tuple(addresses)
        self._service = service
        self._dial = dial
        self._servers = tuple(servers)
        self._master: Address | None = None

    async def master(self, tag: str) -> Address:
        if self._master is None:
            self._master = await self._query()
        return self._master

    async def masters(self) -> Sequence[Address]:
        return [await self.master("")]

    def clear(self) -> None:
        self._master = None

    async def _query(self) -> Address:
        named, failures = await self._ask_all()
        if not named:
            raise next((one for one in failures if one.kind == "ERR"), failures[-1])
        [(master, votes)] = named.most_common(1)
        if 2 * votes <= named.total():  # during a failover, or some answers are false
            raise CallFailed(LOST, f"the sentinels, which disagree about the master of {self._service}")
        if self._servers and not is_listed(master.host, self._servers):
            raise Misconfigured(
                f"store: the sentinels name {master} as the master, which is not among ?servers=:"
                " add it there, or find out who answers for the sentinels"
            )
        return master

    async def _ask_all(self) -> tuple[Counter[Address], list[CallFailed]]:
        """Return how many sentinels name which master; do not wait for the rest once most of all agree."""
        named, failures = Counter[Address](), list[CallFailed]()
        asked = [asyncio.create_task(self._ask(address)) for address in self._addresses]
        try:
            for answer in asyncio.as_completed(asked):
                match await answer:
                    case Address() as master:
                        named[master] += 1
                    case CallFailed() as failure:
                        failures.append(failure)
                if named and 2 * max(named.values()) > len(asked):
                    break
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return named, failures

    async def _ask(self, sentinel: Address) -> Address | CallFailed:
        try:
            connection = await self._dial(sentinel)
            try:
                answer = await connection.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            finally:
                connection.close()
        except CallFailed as error:
            return _sentinel_failure(error)
        if answer is None:
            return CallFailed("ERR", str(sentinel), "ERR No such master with that name")
        try:
            return Address(answer[0].decode(), int(answer[1]))
        except (ValueError, TypeError, IndexError, AttributeError):
            return CallFailed(LOST, str(sentinel), "its answer is not an address")


def is_listed(host: str, servers: Sequence[str]) -> bool:
    """Return whether a host is one of the names, addresses or address ranges."""
    if host in servers:
        return True
    try:
        address = ip_address(host)
        networks = [ip_network(server) for server in servers if "/" in server]
    except ValueError:
        return False
    return any(address in network for network in networks if network.version == address.version)


def _sentinel_failure(failure: CallFailed) -> CallFailed:
    """Raise `Misconfigured` if a sentinel rejects our login; otherwise the next sentinel may answer."""
    if failure.kind in ("NOAUTH", "WRONGPASS", "NOPERM"):
        raise Misconfigured(
            f"store: the sentinel {failure.where} rejects our login: ?sentinel_user= and"
            " ?sentinel_password= are for sentinels"
        ) from failure
    return failure


class Cluster:
    def __init__(self, addresses: Sequence[Address], dial: Dial) -> None:
        self._seeds = list(addresses)
        self._dial = dial
        self._known: list[Address] = []
        self._slots: list[Address | None] = []

    async def master(self, tag: str) -> Address:
        if not self._slots:
            await self._query()
        if (address := self._slots[slot_of(tag)]) is None:
            self.clear()
            raise CallFailed("CLUSTERDOWN", "the cluster")
        return address

    async def masters(self) -> Sequence[Address]:
        if not self._slots:
            await self._query()
        return sorted({address for address in self._slots if address is not None}, key=str)

    def clear(self) -> None:
        self._slots = []

    async def _query(self) -> None:
        failure = CallFailed(LOST, "every server of the cluster")
        for address in [*self._known, *self._seeds]:
            try:
                connection = await self._dial(address)
            except CallFailed as error:
                failure = error
                continue
            try:
                self._fill(await connection.call("CLUSTER", "SLOTS"), asked=address)
            except CallFailed as error:
                failure = error
            else:
                return
            finally:
                connection.close()
        raise failure

    def _fill(self, ranges: Sequence[Sequence[object]], *, asked: Address) -> None:
        """Fill the table from rows of first slot, last slot, and [host, port, ...] of master and replicas."""
        slots: list[Address | None] = [None] * SLOTS
        known: dict[Address, None] = {}
        for first, last, *servers in ranges:
            assert isinstance(first, int)
            assert isinstance(last, int)
            addresses = [_server(server, asked) for server in servers]
            known |= dict.fromkeys(addresses)
            slots[first : last + 1] = [addresses[0]] * (last + 1 - first)
        self._slots, self._known = slots, list(known)


def _server(row: object, asked: Address) -> Address:
    assert isinstance(row, list)
    host = row[0].decode() if row[0] else ""
    return Address(host or asked.host, int(row[1]))  # no host: that of the server that was asked

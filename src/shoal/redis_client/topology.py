"""The master of a key: one fixed server, the one that Sentinel names, or the owner of a cluster slot.

Results are cached until `clear`, which is called when the error table asks to rediscover the master.
"""

import binascii
from collections.abc import Awaitable, Callable, Sequence
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
            return Sentinels(dsn.addresses, dsn.service, dial_sentinel)
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
    def __init__(self, addresses: Sequence[Address], service: str, dial: Dial) -> None:
        self._addresses = list(addresses)
        self._service = service
        self._dial = dial
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
        failure = CallFailed(LOST, "every sentinel")
        for address in list(self._addresses):
            try:
                connection = await self._dial(address)
            except CallFailed as error:
                failure = _sentinel_failure(error)
                continue
            try:
                answer = await connection.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            except CallFailed as error:
                failure = _sentinel_failure(error)
                continue
            finally:
                connection.close()
            if answer is None:
                raise CallFailed("ERR", str(address), "ERR No such master with that name")
            # Ask the sentinel that answered first the next time: the others may be down.
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            return Address(answer[0].decode(), int(answer[1]))
        raise failure


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

"""Open connections through an exit.

The guard protects the network in which an address is dialled, so it depends on where the exit stands.

- Outside of our network, it resolves the name. Nothing is looked up here: that would tell our name server
  every host, and check an address that is not dialled. Names and addresses that mean our side of the exit are
  refused.
- Inside, the name is resolved and checked here, and the exit is given the checked address: with a name, it
  would connect to whatever that resolves to, our own services included.

An exit stands inside if its address is private, or if its line says so. Its own address comes from the
operator: it may be private, and never link-local or one where clouds serve credentials.
"""

import asyncio
import ssl
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Protocol, cast

import msgspec

from shoal.fetch.http import proxy_protocols as protocols
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard, check_name_for_exit
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits

_EXIT_GUARD = Guard(PRIVATE)


class AddressResolver(Protocol):
    async def resolve(self, host: str) -> Answer: ...


async def resolve_allowed(resolver: AddressResolver, guard: Guard, host: str) -> Answer:
    """Return the addresses of a host; a failure if it has none, or one that the guard forbids."""
    addresses = await resolver.resolve(host)
    if isinstance(addresses, Failure):
        return addresses
    return guard.check(addresses) or addresses


class TlsContext(Protocol):
    def __call__(self) -> ssl.SSLContext: ...


class Tunnel(msgspec.Struct, frozen=True):
    """A connection to an exit that leads to a target, or for `absolute` takes requests for it."""

    transport: asyncio.Transport
    address: str  # of the target, if it was resolved here
    absolute: bool = False


class ExitDialer:
    def __init__(self, resolver: AddressResolver, guard: Guard, tls: TlsContext) -> None:
        self._resolver = resolver
        self._guard = guard
        self._tls = tls

    async def open(
        self, via: ChosenExit, host: str, port: int, limits: FetchLimits, *, may_be_absolute: bool = False
    ) -> Tunnel | Failure:
        """Connect to an exit and let it connect to a target.

        `may_be_absolute`: for plain http, an exit outside that speaks HTTP is not asked for a tunnel.
        """
        exit = via.exit
        addresses = await self._resolver.resolve(exit.host)
        if isinstance(addresses, Failure):
            return protocols.proxy_error(f"its name cannot be resolved ({addresses.reason})")
        if not _may_be_exit(addresses):
            return protocols.proxy_error("its address is link-local or serves credentials: not allowed")
        inside = exit.inside if exit.inside is not None else _is_private(addresses)
        target = await self._target(host, inside=inside)
        if isinstance(target, Failure):
            return target
        absolute = may_be_absolute and exit.scheme != "socks5" and not inside and not exit.tunnel
        try:
            async with asyncio.timeout(limits.connect):
                reader = await _connect(addresses, exit.port)
        except OSError as error:
            timed_out = isinstance(error, TimeoutError) and error.errno is None
            why = f"none within {limits.connect:g} s" if timed_out else error.strerror or error
            return protocols.proxy_error(f"no connection to it: {why}")
        failure: Failure | None
        try:
            async with asyncio.timeout(limits.connect):
                failure = await self._handshake(reader, via, target, port, absolute=absolute)
        except TimeoutError:
            failure = protocols.proxy_error(f"no answer within {limits.connect:g} s")
        except ssl.SSLError as error:
            failure = protocols.proxy_error(
                f"TLS to it: {(error.reason or 'failed').lower().replace('_', ' ')}"
            )
        except OSError as error:
            failure = protocols.proxy_error(f"it closed the connection: {error.strerror or error}")
        except BaseException:
            reader.transport.abort()
            raise
        if failure is None and reader.buffer:
            failure = protocols.proxy_error("it sent data before the request")
        if failure is not None:
            reader.transport.abort()
            return failure
        reader.transport.pause_reading()
        return Tunnel(reader.transport, target if inside else "", absolute)

    async def _target(self, host: str, *, inside: bool) -> str | Failure:
        """Return what the exit has to connect to."""
        if not inside:
            return check_name_for_exit(host) or host
        addresses = await resolve_allowed(self._resolver, self._guard, host)
        return addresses if isinstance(addresses, Failure) else addresses[0]

    async def _handshake(
        self, reader: "_Reader", via: ChosenExit, target: str, port: int, *, absolute: bool
    ) -> Failure | None:
        exit = via.exit
        if exit.scheme == "https":
            transport = await asyncio.get_running_loop().start_tls(
                reader.transport, reader, self._tls(), server_hostname=exit.host
            )
            reader.transport = cast(asyncio.Transport, transport)
        if absolute:
            return None
        if exit.scheme == "socks5":
            return await _socks(reader, via, target, port)
        authority = f"[{target}]:{port}" if ":" in target else f"{target}:{port}"
        credentials = protocols.authorization(via.user, exit.password)
        reader.transport.write(protocols.connect_request(authority, credentials))
        return protocols.judge_connect(await reader.read_head())


async def _connect(addresses: Sequence[str], port: int) -> "_Reader":
    """Connect to the first address of an exit that accepts."""
    loop = asyncio.get_running_loop()
    error = OSError("no address")
    for address in addresses:
        try:
            _, reader = await loop.create_connection(_Reader, address, port)
        except OSError as refused:
            error = refused
        else:
            return reader
    raise error


async def _socks(reader: "_Reader", via: ChosenExit, target: str, port: int) -> Failure | None:
    with_login = bool(via.user or via.exit.password)
    reader.transport.write(protocols.socks_greeting(with_login=with_login))
    wanted = protocols.judge_greeting(await reader.read(2), with_login=with_login)
    if isinstance(wanted, Failure):
        return wanted
    if wanted:
        reader.transport.write(protocols.socks_login(via.user, via.exit.password))
        if failure := protocols.judge_login(await reader.read(2)):
            return failure
    reader.transport.write(protocols.socks_request(target, port))
    rest = protocols.judge_reply(await reader.read(5))
    if isinstance(rest, Failure):
        return rest
    await reader.read(rest)
    return None


class _Reader(asyncio.Protocol):
    """Reads the answers of a handshake, exactly, before another protocol takes the transport over."""

    def __init__(self) -> None:
        self.buffer = b""
        self._arrived = asyncio.Event()
        self._lost: Exception | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = error or ConnectionResetError("closed before the answer")
        self._arrived.set()

    async def read(self, size: int) -> bytes:
        while len(self.buffer) < size:
            await self._more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    async def read_head(self) -> bytes:
        """Return a response up to its empty line; what follows stays in the buffer."""
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > protocols.MAX_ANSWER_BYTES:
                raise ConnectionResetError("its answer is too long")
            await self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        if protocols.judge_connect(head) is not None:
            self.buffer = b""  # the page that explains a refusal
        return head

    async def _more(self) -> None:
        if self._lost is not None:
            raise self._lost if isinstance(self._lost, OSError) else ConnectionResetError(str(self._lost))
        self._arrived.clear()
        await self._arrived.wait()


# Cached: every connection asks for the addresses of the same few exits.
@lru_cache(maxsize=1024)
def _may_be_exit(addresses: tuple[str, ...]) -> bool:
    return _EXIT_GUARD.check(addresses) is None


@lru_cache(maxsize=1024)
def _is_private(addresses: tuple[str, ...]) -> bool:
    return any(ip_address(address) in net for address in addresses for net in PRIVATE)


def is_exit_fault(failure: Failure) -> bool:
    return failure.failure_class is FailureClass.PROXY_ERROR

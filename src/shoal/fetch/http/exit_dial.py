"""Open connections through an exit.

The guard protects the network in which an address is dialled, so it depends on where the exit stands.

- Outside of our network, it resolves the name. Nothing is looked up here: that would tell our name server
  every host, and check an address that is not dialled. Names and addresses that mean our side of the exit are
  refused.
- Inside, the name is resolved and checked here, and the exit is given the checked address: with a name, it
  would connect to whatever that resolves to, our own services included.

An exit stands inside if its address is private, or if its line says so. Its own address comes from the
operator: it may be private, and never link-local or one where clouds serve credentials.

Most proxies wait for a silent target longer than we wait for the proxy. So an exit that does not answer after
it has received the target is asked something about itself. If it answers that, the target is at fault.
"""

import asyncio
import ssl
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from time import monotonic
from typing import Protocol, cast

import msgspec

from shoal.fetch.http import own_limits
from shoal.fetch.http import proxy_protocols as protocols
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard, check_name_for_exit
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.exits.exit import ChosenExit, Exit
from shoal.model.exits.faults import Fault
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits

ALIVE_S = 30.0  # for which an exit that has answered about itself is not asked again

NOT_ALLOWED = "its address is link-local or serves credentials: not allowed"

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
        self._alive_until: dict[str, float] = {}  # by the name of an exit

    async def open(
        self, via: ChosenExit, host: str, port: int, limits: FetchLimits, *, may_be_absolute: bool = False
    ) -> Tunnel | Failure:
        """Connect to an exit and let it connect to a target.

        `may_be_absolute`: for plain http, an exit outside that speaks HTTP is not asked for a tunnel.
        """
        exit = via.exit
        addresses = await self._resolver.resolve(exit.host)
        if isinstance(addresses, Failure):
            return protocols.proxy_error(Fault.NAME, f"its name cannot be resolved ({addresses.reason})")
        if not _may_be_exit(addresses):
            return protocols.proxy_error(Fault.ADDRESS, NOT_ALLOWED)
        inside = exit.inside if exit.inside is not None else _is_private(addresses)
        targets = await self._targets(host, inside=inside)
        if isinstance(targets, Failure):
            return targets
        absolute = may_be_absolute and exit.scheme != "socks5" and not inside and not exit.tunnel
        opened: Tunnel | Failure | None = None
        for target in targets:
            opened = await self._open(via, addresses, target, port, limits, absolute=absolute)
            if isinstance(opened, Tunnel):
                return msgspec.structs.replace(opened, address=target if inside else "")
            if opened.failure_class is not FailureClass.CONNECT and opened.status != protocols.TARGET_REFUSED:
                return opened  # another address of the target would not help
        assert opened is not None
        return opened

    async def check(self, via: ChosenExit, limits: FetchLimits) -> Failure | None:
        """Connect to an exit and no further; return why it cannot be used, None: it may work.

        An exit that speaks HTTP is asked about itself. That many are silent about it is no fault, nor that
        this machine has no socket left.
        """
        exit = via.exit
        try:
            addresses = await self._resolver.resolve(exit.host)
            if isinstance(addresses, Failure):
                return protocols.proxy_error(Fault.NAME, f"its name cannot be resolved ({addresses.reason})")
            if not _may_be_exit(addresses):
                return protocols.proxy_error(Fault.ADDRESS, NOT_ALLOWED)
            reader = await _dial(addresses, exit.port, limits)
        except own_limits.OutOfSockets:
            return None
        if isinstance(reader, Failure):
            return reader
        try:
            async with asyncio.timeout(limits.connect):
                await self._secure(reader, exit)
                if exit.is_gateway:
                    return None  # its user name depends on the request
                if exit.scheme == "socks5":
                    return await _greet(reader, via)
                credentials = protocols.authorization(via.user, exit.password)
                reader.transport.write(protocols.options_request(credentials))
                return protocols.judge_options(await reader.read_head())
        except ssl.SSLError as error:
            return _no_tls(error)
        except OSError as error:  # TimeoutError is one
            why = f"it does not answer: {error.strerror or error or 'timed out'}"
            return protocols.proxy_error(Fault.SILENT, why) if exit.scheme == "socks5" else None
        finally:
            reader.transport.abort()

    async def _open(
        self,
        via: ChosenExit,
        addresses: Sequence[str],
        target: str,
        port: int,
        limits: FetchLimits,
        *,
        absolute: bool,
    ) -> Tunnel | Failure:
        """Connect to an exit, and let it connect to one address or name."""
        exit = via.exit
        reader = await _dial(addresses, exit.port, limits)
        if isinstance(reader, Failure):
            return reader
        failure: Failure | None
        try:
            async with asyncio.timeout(limits.connect):
                failure = await self._handshake(reader, via, target, port, absolute=absolute)
        except TimeoutError:
            why = f"no answer within {limits.connect:g} s"
            failure = await self._blame(reader, via, addresses, why, limits)
        except ssl.SSLError as error:
            failure = _no_tls(error)
        except OSError as error:
            why = f"it closed the connection: {error.strerror or error}"
            failure = await self._blame(reader, via, addresses, why, limits)
        except BaseException:
            reader.transport.abort()
            raise
        if failure is None and reader.buffer:
            failure = protocols.proxy_error(Fault.NO_PROXY, "it sent data before the request")
        if failure is not None:
            reader.transport.abort()
            return failure
        reader.transport.pause_reading()
        return Tunnel(reader.transport, "", absolute)

    async def _targets(self, host: str, *, inside: bool) -> Sequence[str] | Failure:
        """Return what the exit has to connect to: a name, or the first address of each family."""
        if not inside:
            return check_name_for_exit(host) or (host,)
        addresses = await resolve_allowed(self._resolver, self._guard, host)
        if isinstance(addresses, Failure):
            return addresses
        # The exit may have IPv4 alone, although we have both.
        other = [address for address in addresses if (":" in address) != (":" in addresses[0])]
        return (addresses[0], *other[:1])

    async def _handshake(
        self, reader: "_Reader", via: ChosenExit, target: str, port: int, *, absolute: bool
    ) -> Failure | None:
        exit = via.exit
        await self._secure(reader, exit)
        if absolute:
            return None
        if exit.scheme == "socks5":
            return await _socks(reader, via, target, port)
        authority = f"[{target}]:{port}" if ":" in target else f"{target}:{port}"
        credentials = protocols.authorization(via.user, exit.password)
        reader.transport.write(protocols.connect_request(authority, credentials))
        reader.has_target = True
        return protocols.judge_connect(await reader.read_head())

    async def _secure(self, reader: "_Reader", exit: Exit) -> None:
        if exit.scheme == "https":
            transport = await asyncio.get_running_loop().start_tls(
                reader.transport, reader, self._tls(), server_hostname=exit.host
            )
            reader.transport = cast(asyncio.Transport, transport)

    async def _blame(
        self, reader: "_Reader", via: ChosenExit, addresses: Sequence[str], why: str, limits: FetchLimits
    ) -> Failure:
        """Return whose fault it is that an exit has not answered: its own, or that of the target."""
        reader.transport.abort()
        if not reader.has_target or reader.buffer:
            return protocols.proxy_error(Fault.SILENT, why)
        # An exit that speaks SOCKS has answered before it receives the target.
        if via.exit.scheme != "socks5" and not await self._is_alive(via, addresses, limits):
            return protocols.proxy_error(Fault.SILENT, why)
        return protocols.unreached(f"exit: {why}")

    async def _is_alive(self, via: ChosenExit, addresses: Sequence[str], limits: FetchLimits) -> bool:
        """Return whether an exit that speaks HTTP answers a request about itself."""
        exit = via.exit
        if self._alive_until.get(exit.name, 0.0) > monotonic():
            return True
        reader: _Reader | None = None
        try:
            async with asyncio.timeout(limits.connect):
                reader = await _connect(addresses, exit.port)
                await self._secure(reader, exit)
                credentials = protocols.authorization(via.user, exit.password)
                reader.transport.write(protocols.options_request(credentials))
                await reader.read(1)
        except OSError:  # TimeoutError and SSLError are some
            return False
        finally:
            if reader is not None:
                reader.transport.abort()
        self._alive_until[exit.name] = monotonic() + ALIVE_S
        return True


async def _dial(addresses: Sequence[str], port: int, limits: FetchLimits) -> "_Reader | Failure":
    """Connect to an exit in time."""
    try:
        async with asyncio.timeout(limits.connect):
            return await _connect(addresses, port)
    except OSError as error:
        timed_out = isinstance(error, TimeoutError) and error.errno is None
        why = f"none within {limits.connect:g} s" if timed_out else error.strerror or error
        return protocols.proxy_error(Fault.CONNECTION, f"no connection to it: {why}")


async def _connect(addresses: Sequence[str], port: int) -> "_Reader":
    """Connect to the first address of an exit that accepts."""
    error = OSError("no address")
    for address in addresses:
        try:
            _, reader = await own_limits.connect(_Reader, address, port)
        except OSError as refused:
            error = refused
        else:
            return reader
    raise error


async def _greet(reader: "_Reader", via: ChosenExit) -> Failure | None:
    """Do what comes before the target in SOCKS; return why the exit refuses."""
    with_login = bool(via.user or via.exit.password)
    reader.transport.write(protocols.socks_greeting(with_login=with_login))
    wanted = protocols.judge_greeting(await reader.read(2), with_login=with_login)
    if isinstance(wanted, Failure):
        return wanted
    if wanted:
        reader.transport.write(protocols.socks_login(via.user, via.exit.password))
        return protocols.judge_login(await reader.read(2))
    return None


async def _socks(reader: "_Reader", via: ChosenExit, target: str, port: int) -> Failure | None:
    if failure := await _greet(reader, via):
        return failure
    reader.transport.write(protocols.socks_request(target, port))
    reader.has_target = True
    rest = protocols.judge_reply(await reader.read(5))
    if isinstance(rest, Failure):
        return rest
    await reader.read(rest)
    return None


class _Reader(asyncio.Protocol):
    """Reads the answers of a handshake, exactly, before another protocol takes the transport over."""

    def __init__(self) -> None:
        self.buffer = b""
        self.has_target = False  # the exit has received what to connect to
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


def _no_tls(error: ssl.SSLError) -> Failure:
    reason = (error.reason or "failed").lower().replace("_", " ")
    return protocols.proxy_error(Fault.TLS, f"TLS to it: {reason}")

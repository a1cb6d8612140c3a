"""Open connections: resolve the name, check every address with the guard, connect to one of them, do TLS."""

import asyncio
import ssl
from collections.abc import Sequence
from time import monotonic

from shoal.fetch.http import own_limits
from shoal.fetch.http.budget import BodyBudget
from shoal.fetch.http.connection import Connection
from shoal.fetch.http.exit_dial import AddressResolver, ExitDialer, resolve_allowed
from shoal.fetch.http.guard import Guard, Origin
from shoal.fetch.http.own_limits import OutOfSockets
from shoal.fetch.http.race import DeadAddresses, order_addresses, race
from shoal.model.exits.exit import ChosenExit
from shoal.model.exits.faults import Fault
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import Timing


class Dialer:
    """Opens connections that the guard allows. Certificate checks cannot be turned off."""

    def __init__(
        self, resolver: AddressResolver, guard: Guard, budget: BodyBudget, *, ca_file: str | None = None
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._budget = budget
        self._ca_file = ca_file
        self._dead = DeadAddresses()
        self._tls: ssl.SSLContext | None = None
        self.exits = ExitDialer(resolver, guard, self._context)

    async def open(
        self, origin: Origin, limits: FetchLimits, timing: Timing, via: ChosenExit | None = None
    ) -> Connection | Failure:
        """Connect to the address of `origin` that accepts the connection first, or through an exit.

        Note in `timing` how long each phase took. Raises `OutOfSockets`.
        """
        if via is not None:
            return await self._open_through(via, origin, limits, timing)
        began = monotonic()
        addresses = await resolve_allowed(self._resolver, self._guard, origin.host)
        resolved = monotonic()
        timing.dns = resolved - began
        if isinstance(addresses, Failure):
            return addresses
        connection = await self._connect(origin, addresses, limits.connect)
        connected = monotonic()
        timing.connect = connected - resolved
        if isinstance(connection, Failure) or not origin.secure:
            return connection
        secured = await self._secure(connection, limits)
        timing.tls = monotonic() - connected
        return secured

    async def _open_through(
        self, via: ChosenExit, origin: Origin, limits: FetchLimits, timing: Timing
    ) -> Connection | Failure:
        began = monotonic()
        tunnel = await self.exits.open(
            via, origin.host, origin.port, limits, may_be_absolute=not origin.secure
        )
        connected = monotonic()
        timing.connect = connected - began
        if isinstance(tunnel, Failure):
            return tunnel
        loop = asyncio.get_running_loop()
        connection = Connection(origin, tunnel.address, budget=self._budget, loop=loop, via=via)
        connection.adopt(tunnel.transport, absolute=tunnel.absolute)
        if not origin.secure:
            return connection
        secured = await self._secure(connection, limits)
        timing.tls = monotonic() - connected
        return secured

    async def _connect(self, origin: Origin, addresses: Sequence[str], within: float) -> Connection | Failure:
        loop = asyncio.get_running_loop()
        exhausted: list[OutOfSockets] = []

        async def connect(address: str) -> Connection:
            connection = Connection(origin, address, budget=self._budget, loop=loop)
            # An address, not the name: nothing is resolved here.
            try:
                await own_limits.connect(lambda: connection, address, origin.port)
            except OutOfSockets as error:
                exhausted.append(error)
                raise
            return connection

        if len(addresses) == 1:
            try:
                async with asyncio.timeout(within):
                    return await connect(addresses[0])
            except OSError as error:  # TimeoutError is one
                return _no_connection(error, within)
        ordered = order_addresses(addresses, origin.port, self._dead)
        made, lost = await race(ordered, connect, timeout=within)
        if exhausted and not isinstance(made, Connection):
            raise exhausted[0]
        for address in lost:
            self._dead.add((address, origin.port))
        if isinstance(made, Connection):
            self._dead.remove((made.address, origin.port))
            return made
        if not isinstance(made, OSError):
            raise made
        return _no_connection(made, within)

    async def _secure(self, connection: Connection, limits: FetchLimits) -> Connection | Failure:
        """Do the TLS handshake for the name in the URL."""
        try:
            async with asyncio.timeout(limits.tls):
                await connection.start_tls(self._context())
        except TimeoutError:
            failure = Failure(
                FailureClass.TIMEOUT, f"TLS: no handshake within {limits.tls:g} s", fault=Fault.TUNNEL
            )
        except ssl.SSLError as error:
            shown = isinstance(error, ssl.SSLCertVerificationError)
            fault = Fault.CERTIFICATE if shown else Fault.TUNNEL
            failure = Failure(FailureClass.TLS, f"TLS: {_reason(error)}", fault=fault)
        except OSError as error:
            why = f"TLS: closed by the server: {error.strerror or error}"
            failure = Failure(FailureClass.CONNECT, why, fault=Fault.TUNNEL)
        except BaseException:
            connection.abort()
            raise
        else:
            return connection
        connection.abort()
        return failure

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
            if self._ca_file is not None:
                self._tls.load_verify_locations(self._ca_file)
        return self._tls


def _no_connection(error: OSError, within: float) -> Failure:
    if isinstance(error, TimeoutError) and error.errno is None:
        return Failure(FailureClass.TIMEOUT, f"connect: no connection within {within:g} s")
    return Failure(FailureClass.CONNECT, f"no connection: {error.strerror or error}")


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or "handshake failed").lower().replace("_", " ")

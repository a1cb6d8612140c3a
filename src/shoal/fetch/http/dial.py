"""Open connections: resolve the name, check every address with the guard, connect to one of them, do TLS."""

import asyncio
import ssl
from time import monotonic
from typing import Protocol

from shoal.fetch.http.budget import BodyBudget
from shoal.fetch.http.connection import Connection
from shoal.fetch.http.dns import Answer
from shoal.fetch.http.guard import Guard, Origin
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits


class AddressResolver(Protocol):
    async def resolve(self, host: str) -> Answer: ...


class Dialer:
    """Opens connections that the guard allows. Certificate checks cannot be turned off."""

    def __init__(
        self, resolver: AddressResolver, guard: Guard, budget: BodyBudget, *, ca_file: str | None = None
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._budget = budget
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None

    async def open(self, origin: Origin, limits: FetchLimits) -> Connection | Failure:
        """Connect to the first address of `origin` that accepts the connection."""
        addresses = await self._resolver.resolve(origin.host)
        if isinstance(addresses, Failure):
            return addresses
        if failure := self._guard.check(addresses):
            return failure
        deadline = monotonic() + limits.connect
        last = Failure(FailureClass.CONNECT, "the name has no address")
        for position, address in enumerate(addresses):
            # A dead address must not use up the time of the following ones.
            within = (deadline - monotonic()) / (len(addresses) - position)
            connection = await self._connect(origin, address, within)
            if isinstance(connection, Connection):
                return await self._secure(connection, limits) if origin.secure else connection
            last = connection
        return last

    async def _connect(self, origin: Origin, address: str, within: float) -> Connection | Failure:
        loop = asyncio.get_running_loop()
        connection = Connection(origin, address, budget=self._budget, loop=loop)
        try:
            # An address, not the name: nothing is resolved here.
            async with asyncio.timeout(within):
                await loop.create_connection(lambda: connection, address, origin.port)
        except TimeoutError:
            return Failure(FailureClass.TIMEOUT, f"connect: no connection within {within:g} s")
        except OSError as error:
            return Failure(FailureClass.CONNECT, f"no connection: {error.strerror or error}")
        return connection

    async def _secure(self, connection: Connection, limits: FetchLimits) -> Connection | Failure:
        """Do the TLS handshake for the name in the URL."""
        try:
            async with asyncio.timeout(limits.tls):
                await connection.start_tls(self._context())
        except TimeoutError:
            failure = Failure(FailureClass.TIMEOUT, f"TLS: no handshake within {limits.tls:g} s")
        except ssl.SSLError as error:
            failure = Failure(FailureClass.TLS, f"TLS: {_reason(error)}")
        except OSError as error:
            failure = Failure(FailureClass.CONNECT, f"TLS: closed by the server: {error.strerror or error}")
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


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or "handshake failed").lower().replace("_", " ")

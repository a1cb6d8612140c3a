"""Opening connections: resolve, let the guard check every address, connect to one of those, do TLS."""

import asyncio
import socket
import ssl
from time import monotonic
from typing import Protocol

from shoal.fetch.budget import Budget
from shoal.fetch.connection import Connection
from shoal.fetch.dns import Answer
from shoal.fetch.guard import Guard, Origin
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits


class Resolver(Protocol):
    async def resolve(self, host: str) -> Answer: ...


class Dialer:
    """Opens connections that the guard allows. There is no switch that turns certificate checks off."""

    def __init__(
        self, resolver: Resolver, guard: Guard, budget: Budget, *, ca_file: str | None = None
    ) -> None:
        self._resolver = resolver
        self._guard = guard
        self._budget = budget
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None

    async def open(self, origin: Origin, limits: FetchLimits) -> Connection | Failure:
        """Connect to the first address of `origin` that answers."""
        addresses = await self._resolver.resolve(origin.host)
        if isinstance(addresses, Failure):
            return addresses
        if failure := self._guard.check(addresses):
            return failure
        deadline = monotonic() + limits.connect
        last = Failure(FailureClass.CONNECT, "the name has no address")
        for position, address in enumerate(addresses):
            # A dead address must not use up the time of those behind it.
            within = (deadline - monotonic()) / (len(addresses) - position)
            sock = await _connect(address, origin.port, within)
            if isinstance(sock, socket.socket):
                return await self._wrap(sock, origin, address, limits)
            last = sock
        return last

    async def _wrap(
        self, sock: socket.socket, origin: Origin, address: str, limits: FetchLimits
    ) -> Connection | Failure:
        """Make a connection of a connected socket, with TLS where the scheme wants it."""
        loop = asyncio.get_running_loop()
        connection = Connection(origin, address, budget=self._budget, loop=loop)
        try:
            if not origin.secure:
                await loop.create_connection(lambda: connection, sock=sock)
                return connection
            async with asyncio.timeout(limits.tls):
                await loop.create_connection(
                    lambda: connection, sock=sock, ssl=self._context(), server_hostname=origin.host
                )
            return connection
        except TimeoutError:
            return Failure(FailureClass.TIMEOUT, f"TLS: no handshake within {limits.tls:g} s")
        except ssl.SSLError as error:
            return Failure(FailureClass.TLS, f"TLS: {_why(error)}")
        except OSError as error:
            return Failure(FailureClass.CONNECT, f"closed while connecting: {_errno(error)}")
        except BaseException:
            sock.close()
            raise

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
            if self._ca_file is not None:
                self._tls.load_verify_locations(self._ca_file)
        return self._tls


async def _connect(address: str, port: int, within: float) -> socket.socket | Failure:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError as error:
        return Failure(FailureClass.CONNECT, f"no socket: {_errno(error)}")
    try:
        async with asyncio.timeout(within):
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except TimeoutError:
        sock.close()
        return Failure(FailureClass.TIMEOUT, f"connect: no connection within {within:g} s")
    except OSError as error:
        sock.close()
        return Failure(FailureClass.CONNECT, f"no connection: {_errno(error)}")
    except BaseException:
        sock.close()
        raise
    return sock


def _errno(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or "handshake failed").lower().replace("_", " ")

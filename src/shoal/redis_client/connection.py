"""One connection to one server, shared by any number of callers.

Commands are written at once and answered in order, so a hundred callers need one connection and do not wait
for one another. The reply to a cancelled caller is read and dropped, so replies stay matched to their
commands.

The protocol is pinned to RESP2, which every server speaks from the first byte. A client library does not fit
here: it repeats calls by its own rules, follows ASK, and hands out connections from a pool, while WAIT covers
only what its own connection has written.
"""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

from shoal.model.errors import Misconfigured
from shoal.redis_client.dsn import Address, Login
from shoal.redis_client.errors import LOST, NO_REDIS, TIMEOUT, CallFailed, parse_error_reply
from shoal.redis_client.tls import handshake_failure, untrusted_certificate

try:
    import hiredis
except ImportError as missing:
    raise Misconfigured("store: for Redis, run  pip install 'shoal[redis]'  first") from missing

Argument = bytes | str | int | float

_NOTHING = object()


class ErrorReply(Exception):
    """An error reply, as text; never leaves this package."""


class RedisConnection(asyncio.Protocol):
    """Use `RedisConnection.open`. Once it is no longer `alive`, every call fails."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self.alive = False
        self._got_reply = False  # anything that was valid RESP
        self._secure = False  # over TLS, or a socket of this machine
        self._close_reason = CallFailed(LOST, str(address))  # replaced where a better one is known
        self._timeout = timeout
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self._replies: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        login: Login,
        *,
        database: int = 0,
        tls: ssl.SSLContext | None = None,
        timeout: float,
    ) -> "RedisConnection":
        """Connect and log in; raise `CallFailed` if either is impossible."""
        connection = cls(address, timeout)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                if address.port:
                    await loop.create_connection(lambda: connection, address.host, address.port, ssl=tls)
                else:
                    await loop.create_unix_connection(lambda: connection, address.host)
        except ssl.SSLCertVerificationError as error:
            raise untrusted_certificate(address, error) from error
        except ssl.SSLError as error:
            raise handshake_failure(address, error) from error
        except TimeoutError as error:
            detail = "over TLS: is this a TLS port?" if tls else ""
            raise CallFailed(TIMEOUT, str(address), detail=detail) from error
        except OSError as error:
            raise CallFailed(LOST, str(address), detail=_reason(error)) from error
        try:
            await connection._log_in(login, database)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _log_in(self, login: Login, database: int) -> None:
        if password := login.secret():
            name = (login.user,) if login.user else ()
            await self.call("AUTH", *name, password)
        if database:
            await self.call("SELECT", database)

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its reply; raise error replies."""
        [answer] = await self.call_many([command])
        return self.check(answer, command)

    def check(self, answer: Any, command: Sequence[Argument] = ()) -> Any:
        """Return a reply of `call_many`, or raise it if it is an error; `command` is named in the error."""
        if isinstance(answer, ErrorReply):
            raise parse_error_reply(str(answer), str(self.address), _describe(command))
        return answer

    async def call_many(self, commands: Sequence[Sequence[Argument]], *, extra: float = 0.0) -> list[Any]:
        """Send commands in one write and return their replies, error replies included.

        `extra`: seconds that the server may block on purpose, in addition to the timeout.
        """
        transport = self._transport
        if transport is None or not self.alive:
            raise self._close_reason.copy()
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in commands]
        self._replies.extend(answers)
        transport.write(b"".join(map(_pack, commands)))
        try:
            async with asyncio.timeout(self._timeout + extra):
                return [await answer for answer in answers]
        except TimeoutError as error:
            # Replies come in order: after a missing one, none can be matched to its command any more.
            reason = CallFailed(TIMEOUT, str(self.address))
            self._abort(reason)
            raise reason from error

    def close(self) -> None:
        self._abort(self._close_reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has other classes
        self.alive = True
        raw = transport.get_extra_info("socket")
        self._secure = transport.get_extra_info("ssl_object") is not None or not self.address.port
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _NOTHING:
                self._got_reply = True
                self._deliver(answer)
        except hiredis.ProtocolError:
            self._abort(CallFailed(LOST if self._got_reply else NO_REDIS, str(self.address)))

    def _deliver(self, answer: Any) -> None:
        if self._replies:
            waiting = self._replies.popleft()
            if not waiting.done():
                waiting.set_result(answer)
            return
        # An unsolicited error: the reason why the server closes the connection.
        if isinstance(answer, ErrorReply) and isinstance(
            reason := parse_error_reply(str(answer), str(self.address)), CallFailed
        ):
            self._close_reason = reason
        self._abort(self._close_reason)

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            # With TLS 1.3 a server rejects a certificate after the handshake seemed complete.
            self._abort(handshake_failure(self.address, error))
        elif self.alive and not self._got_reply and not self._secure:
            detail = "without a reply: a port for TLS takes rediss://"
            self._abort(CallFailed(LOST, str(self.address), detail=detail))
        else:
            self._abort(self._close_reason)

    def _abort(self, reason: CallFailed) -> None:
        self.alive = False
        self._close_reason = reason
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        while self._replies:
            waiting = self._replies.popleft()
            if not waiting.done():
                waiting.set_exception(reason.copy())
                waiting.exception()  # mark it as retrieved: its caller may have been cancelled


def _describe(command: Sequence[Argument]) -> str:
    """Return the name of a command and the key that it is about; no other argument: it might be a secret."""
    name, *arguments = command or ("",)
    keys = [one for one in arguments if isinstance(one, str) and one.startswith("{")]
    return " ".join(map(str, (name, *keys[:1])))


def _reason(error: OSError) -> str:
    """Return why no connection could be made, without the address, which the message has already."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or ""
    return os.strerror(error.errno)


def _pack(command: Sequence[Argument]) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub wants one element
    return packed

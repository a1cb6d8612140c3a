"""One connection to one server, shared by any number of callers.

Calls are written at once and answered in order, so that a hundred callers cost one connection and no waiting
for one another. A caller that is cancelled leaves its place in the row: its answer is read and dropped, and
nobody gets the answer to somebody else's question.

The protocol is pinned to RESP2, the one every server speaks from the first byte. A client library stands
in the way here: it repeats calls by rules of its own, follows ASK, and lends connections, while WAIT
speaks only of what its own connection has written.
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
from shoal.redis_client.errors import LOST, NO_REDIS, TIMEOUT, CallFailed, refused
from shoal.redis_client.tls import failed, untrusted

try:
    import hiredis
except ImportError as missing:
    raise Misconfigured("store: for Redis, run  pip install 'shoal[redis]'  first") from missing

Argument = bytes | str | int | float

_NOTHING = object()


class ErrorReply(Exception):
    """An error that a server answered with, as text; it stays inside this package."""


class RedisConnection(asyncio.Protocol):
    """Made by `RedisConnection.open`, and of no use once it is not `alive` any more."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self.alive = False
        self._heard = False  # a word that was Redis
        self._secure = False  # over TLS, or a socket of this machine
        self._why = CallFailed(LOST, str(address))  # a link is lost in general, and sometimes for a reason
        self._timeout = timeout
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self._answers: deque[asyncio.Future[Any]] = deque()
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
        link = cls(address, timeout)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                if address.port:
                    await loop.create_connection(lambda: link, address.host, address.port, ssl=tls)
                else:
                    await loop.create_unix_connection(lambda: link, address.host)
        except ssl.SSLCertVerificationError as error:
            raise untrusted(address, error) from error
        except ssl.SSLError as error:
            raise failed(address, error) from error
        except TimeoutError as error:
            detail = "over TLS: is the port one for it?" if tls else ""
            raise CallFailed(TIMEOUT, str(address), detail=detail) from error
        except OSError as error:
            raise CallFailed(LOST, str(address), detail=_reason(error)) from error
        try:
            await link._greet(login, database)
        except BaseException:
            link.close()
            raise
        return link

    async def _greet(self, login: Login, database: int) -> None:
        if password := login.secret():
            name = (login.user,) if login.user else ()
            await self.call("AUTH", *name, password)
        if database:
            await self.call("SELECT", database)

    async def call(self, *command: Argument) -> Any:
        """Send one command and return its answer; errors of the server are raised."""
        [answer] = await self.calls([command])
        return self.checked(answer)

    def checked(self, answer: Any) -> Any:
        """Return an answer of `calls`, or raise the error that it is."""
        if isinstance(answer, ErrorReply):
            raise refused(str(answer), str(self.address))
        return answer

    async def calls(self, commands: Sequence[Sequence[Argument]], *, extra: float = 0.0) -> list[Any]:
        """Send commands in one piece and return their answers; errors of the server are among them.

        `extra`: seconds that the server may take on purpose.
        """
        transport = self._transport
        if transport is None or not self.alive:
            raise self._why.again()
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in commands]
        self._answers.extend(answers)
        transport.write(b"".join(map(_packed, commands)))
        try:
            async with asyncio.timeout(self._timeout + extra):
                return [await answer for answer in answers]
        except TimeoutError as error:
            # Answers come in order: behind one that is missing, nothing can be told apart any more.
            why = CallFailed(TIMEOUT, str(self.address))
            self._end(why)
            raise why from error

    def close(self) -> None:
        self._end(self._why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has its own classes
        self.alive = True
        raw = transport.get_extra_info("socket")
        self._secure = transport.get_extra_info("ssl_object") is not None or not self.address.port
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _NOTHING:
                self._heard = True
                self._hand_over(answer)
        except hiredis.ProtocolError:
            self._end(CallFailed(LOST if self._heard else NO_REDIS, str(self.address)))

    def _hand_over(self, answer: Any) -> None:
        if self._answers:
            waiting = self._answers.popleft()
            if not waiting.done():
                waiting.set_result(answer)
            return
        # Said before anything was asked: why we are shown the door.
        if isinstance(answer, ErrorReply) and isinstance(
            why := refused(str(answer), str(self.address)), CallFailed
        ):
            self._why = why
        self._end(self._why)

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError):
            # Where TLS is new enough, a server refuses a certificate after it has seemed to be content.
            self._end(failed(self.address, error))
        elif self.alive and not self._heard and not self._secure:
            detail = "without a word: a port for TLS takes rediss://"
            self._end(CallFailed(LOST, str(self.address), detail=detail))
        else:
            self._end(self._why)

    def _end(self, why: CallFailed) -> None:
        self.alive = False
        self._why = why
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        while self._answers:
            waiting = self._answers.popleft()
            if not waiting.done():
                waiting.set_exception(why.again())
                waiting.exception()  # its caller may have been cancelled: nobody else would look


def _reason(error: OSError) -> str:
    """Say why no connection could be made, without the address, which a message names already."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or ""
    return os.strerror(error.errno)


def _packed(command: Sequence[Argument]) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub says: one element
    return packed

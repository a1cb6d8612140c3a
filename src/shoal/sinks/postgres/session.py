"""A connection to PostgreSQL that reconnects when it is lost, and translates errors.

asyncpg needs an event loop, and sinks are called from one: so the connection has a thread with a second event
loop, and callers block on that thread.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.sinks.postgres.password_guard import guarded_login

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # a class without parameters at run time
T = TypeVar("T")

# Classes of SQLSTATE that can pass: connection errors, a transaction that may not write (a server that is
# read-only, as during a failover), rolled back by the server (deadlock, serialization), out of a resource,
# locked, shutting down.
_TEMPORARY = {"08", "25", "40", "53", "55", "57"}
# Classes that one item causes: data that a type or a constraint does not accept, and limits that a row
# exceeds.
_ITEM = {"22", "23", "54"}
_CONNECT_TIMEOUT_S = 10.0
_COMMAND_TIMEOUT_S = 120.0
# A writer that is suspended in the middle of a transaction must not block its successor without limit.
_SETTINGS = {
    "application_name": "shoal",
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": "10s",
}
_FIRST_WAIT_S, _MAX_WAIT_S = 0.05, 2.0


class Unstorable(ShoalError):
    """The server accepts the statement but not the data in it."""


class Session:
    """One connection at a time. A call that fails is repeated on a new one for up to `retry_s` seconds."""

    def __init__(
        self, dsn: str, *, name: str, retry_s: float, first_statement: str, what: str = "output"
    ) -> None:
        """`first_statement` runs once on every new connection; `what` begins the text of errors."""
        self._dsn = without_options(dsn, "table")
        self._first_statement = first_statement
        self._name = f"{what} {name}"
        self._retry_s = retry_s
        self._connection: Connection | None = None
        self._thread: tuple[ThreadPoolExecutor, asyncio.Runner] | None = None

    def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` and wait for it; `work` must detect whether an earlier attempt was committed."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="shoal.postgres"), asyncio.Runner()
        thread, runner = self._thread
        return thread.submit(lambda: runner.run(self._retry(work))).result()

    def close(self) -> None:
        """Close connection and thread; the server rolls back what was not committed."""
        if self._thread is None:
            return
        (thread, runner), self._thread = self._thread, None
        if self._connection:
            thread.submit(self._connection.terminate).result()
            self._connection = None
        thread.submit(runner.close).result()
        thread.shutdown()

    async def _retry(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        give_up, wait = time.monotonic() + self._retry_s, _FIRST_WAIT_S
        while True:
            try:
                return await self._once(work)
            except Unavailable:
                if time.monotonic() + wait > give_up:
                    raise
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, _MAX_WAIT_S)

    async def _once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            return await work(self._connection)
        except asyncpg.PostgresError as error:
            raise self._translate(error) from error
        except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            if self._connection:  # in an unknown state
                self._connection.terminate()
            if isinstance(error, asyncpg.ClientConfigurationError):
                raise Misconfigured(f"{self._name}: {error}") from None
            raise Unavailable(f"{self._name}: {_describe(error)}") from error

    async def _connect(self) -> Connection:
        with guarded_login(self._dsn) as login:
            try:
                connection = await asyncpg.connect(
                    self._dsn,
                    timeout=_CONNECT_TIMEOUT_S,
                    command_timeout=_COMMAND_TIMEOUT_S,
                    server_settings=_SETTINGS,
                )
            except BaseException:
                if login.refusal:
                    raise Misconfigured(f"{self._name}: {login.refusal}") from None
                raise
        try:
            await connection.execute(self._first_statement)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _translate(self, error: asyncpg.PostgresError) -> ShoalError:
        sqlstate_class, text = (error.sqlstate or "")[:2], f"{self._name}: {error.args[0]}"
        if sqlstate_class in _ITEM:
            return Unstorable(text)
        return Unavailable(text) if sqlstate_class in _TEMPORARY else Misconfigured(text)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:  # the text of asyncio's errors names the address
        return f"the server cannot be reached: {os.strerror(error.errno)}"
    if isinstance(error, TimeoutError):  # asyncio's has no text
        return "the server does not answer in time"
    return str(error) or type(error).__name__


def without_options(dsn: str, *options: str) -> str:
    """Return an address without some options; the driver would send options of the sink to the server."""
    address = urlsplit(dsn)
    kept = [(key, value) for key, value in parse_qsl(address.query) if key not in options]
    return address._replace(query=urlencode(kept)).geturl()

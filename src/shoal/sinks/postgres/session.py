"""A connection to PostgreSQL that is made again when it is lost, and its errors by what can be done.

asyncpg needs an event loop and sinks are called from one: the connection has a thread with a loop of its own,
and whoever calls waits for that thread.
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

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # a class without parameters at run time
T = TypeVar("T")

# By class of SQLSTATE. Connections, rolled back by the server (deadlock, serialization), out of something,
# locked, shutting down: these pass.
_PASSING = {"08", "40", "53", "55", "57"}
# Data that a type or a constraint does not take, and limits that one row exceeds: that item's fault.
_ITEM = {"22", "23", "54"}
_CONNECT = 10.0  # seconds
_ANSWER = 120.0
# A writer that is stopped in the middle of a transaction must not keep its successor out for ever.
_SETTINGS = {
    "application_name": "shoal",
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": "10s",
}
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0


class Unstorable(ShoalError):
    """The server takes the statement but not the data in it."""


class Session:
    """One connection at a time. Every call may be repeated on a new one, within `patience` seconds."""

    def __init__(self, dsn: str, *, name: str, patience: float, first: str) -> None:
        """`first`: the statement that every connection begins with."""
        self._dsn = without_options(dsn, "table")
        self._first = first
        self._name = name
        self._patience = patience
        self._connection: Connection | None = None
        self._thread: tuple[ThreadPoolExecutor, asyncio.Runner] | None = None

    def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do `work` and wait for it; it has to find out by itself whether an earlier attempt was heard."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="shoal.postgres"), asyncio.Runner()
        thread, runner = self._thread
        return thread.submit(lambda: runner.run(self._again(work))).result()

    def close(self) -> None:
        """Let go of connection and thread; the server takes back what was not committed."""
        if self._thread is None:
            return
        (thread, runner), self._thread = self._thread, None
        if self._connection:
            thread.submit(self._connection.terminate).result()
            self._connection = None
        thread.submit(runner.close).result()
        thread.shutdown()

    async def _again(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        give_up, wait = time.monotonic() + self._patience, _FIRST_WAIT
        while True:
            try:
                return await self._once(work)
            except Unavailable:
                if time.monotonic() + wait > give_up:
                    raise
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            return await work(self._connection)
        except asyncpg.PostgresError as error:
            raise self._translated(error) from error
        except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            if self._connection:  # in an unknown state
                self._connection.terminate()
            if isinstance(error, asyncpg.ClientConfigurationError):
                raise Misconfigured(f"output {self._name}: {error}") from None
            raise Unavailable(f"output {self._name}: {_said(error)}") from error

    async def _connect(self) -> Connection:
        connection = await asyncpg.connect(
            self._dsn, timeout=_CONNECT, command_timeout=_ANSWER, server_settings=_SETTINGS
        )
        try:
            await connection.execute(self._first)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _translated(self, error: asyncpg.PostgresError) -> ShoalError:
        kind, said = (error.sqlstate or "")[:2], f"output {self._name}: {error.args[0]}"
        if kind in _ITEM:
            return Unstorable(said)
        return Unavailable(said) if kind in _PASSING else Misconfigured(said)


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:  # asyncio says it in its own words
        return f"the server cannot be reached: {os.strerror(error.errno)}"
    return str(error) or type(error).__name__


def without_options(dsn: str, *options: str) -> str:
    """Leave out what is ours: the driver would hand it to the server."""
    address = urlsplit(dsn)
    kept = [(key, value) for key, value in parse_qsl(address.query) if key not in options]
    return address._replace(query=urlencode(kept)).geturl()

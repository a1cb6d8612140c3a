"""Where a worker can be asked how it is, over HTTP.

/metrics   its figures and the fleet's, for Prometheus (`metrics.py`)
/readyz    200 while the worker takes work, 503 while it drains or cannot ask the store
/healthz   200 while the worker is alive: a store that is gone is no reason to restart it
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from shoal.engine.worker_stats import WorkerStats
from shoal.model.errors import Misconfigured, Unavailable
from shoal.services.inspect.status import StoreStatus
from shoal.worker.metrics import exposition

log = logging.getLogger(__name__)

FRESH = 5.0  # seconds for which the figures of the fleet are good enough
PATIENCE = 5.0  # seconds that a client may take to ask, and the store to answer
LONGEST = 8192  # bytes of a question


class Endpoint:
    """Answers whoever asks how the worker is."""

    def __init__(
        self, figures: Callable[[], WorkerStats], fleet: Callable[[], Awaitable[StoreStatus]]
    ) -> None:
        self._figures = figures
        self._fleet = fleet
        self._known: StoreStatus | None = None
        self._asked_at = -FRESH
        self._asking = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def listening(
        cls,
        address: str,
        figures: Callable[[], WorkerStats],
        fleet: Callable[[], Awaitable[StoreStatus]],
    ) -> AsyncIterator[None]:
        """Answer at `address` (HOST:PORT) while the block runs."""
        host, port = address_of(address)
        endpoint = cls(figures, fleet)
        try:
            server = await asyncio.start_server(endpoint.serve, host, port, limit=LONGEST)
        except OSError as error:
            raise Misconfigured(f"--metrics {address}: {error.strerror}") from None
        async with server:
            log.info("metrics.listens", extra={"address": address})
            yield

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question, then close."""
        with suppress(
            OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.decode("latin-1").split(" ", 2)
            status, body = await self._answer(method, target.partition("?")[0])
            kind = "text/plain; version=0.0.4; charset=utf-8"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                f"Connection: close\r\n\r\n".encode()
                + (body if method == "GET" else b"")
            )
            await writer.drain()
        writer.close()

    async def _answer(self, method: str, path: str) -> tuple[str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", b"ask with GET\n"
        match path:
            case "/metrics":
                return "200 OK", exposition(self._figures(), await self._look())
            case "/healthz":
                return "200 OK", b"alive\n"
            case "/readyz":
                if self._figures().draining:
                    return "503 Service Unavailable", b"draining\n"
                if await self._look() is None:
                    return "503 Service Unavailable", b"the store does not answer\n"
                return "200 OK", b"ready\n"
        return "404 Not Found", b"there are /metrics, /readyz and /healthz\n"

    async def _look(self) -> StoreStatus | None:
        """Give the fleet's figures, not older than `FRESH`; None: the store does not answer."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= FRESH:
                self._known = None
                with suppress(Unavailable, TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        self._known = await self._fleet()
                self._asked_at = time.monotonic()
        return self._known


def address_of(address: str) -> tuple[str, int]:
    """Take HOST:PORT apart."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Misconfigured(f"--metrics {address!r}: give an address and a port, such as 127.0.0.1:9464")
    return host.strip("[]"), int(port)

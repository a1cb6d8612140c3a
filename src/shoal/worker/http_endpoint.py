"""Health and metrics of a worker over HTTP.

/metrics   figures of the worker and of the fleet, for Prometheus (`metrics.py`)
/readyz    200 while the worker takes work, 503 while it drains or the store is unavailable
/healthz   200 while the worker is alive: restarting it would not bring an unavailable store back

Metrics name crawls and count their pages. If the environment variable `SHOAL_METRICS_TOKEN` is set, /metrics
asks for it (`Authorization: Bearer TOKEN`). Otherwise it must be asked by an address or a local name: a page
of another site could point its own name at this address and read the answer (DNS rebinding). The other two
say nothing about crawls and stay open for probes.
"""

import asyncio
import hmac
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from shoal.engine.snapshot import WorkerStats
from shoal.model.configuration.listen_address import (
    address_of,
    host_of,
    is_local_name,
    is_loopback,
)
from shoal.model.errors import Misconfigured, Unavailable
from shoal.worker.metrics import StoreView, exposition

log = logging.getLogger(__name__)

FLEET_TTL_S = 5.0  # for which figures of the fleet are reused
TIMEOUT_S = 5.0  # for a client to send its request, and for the store to answer
MAX_REQUEST_BYTES = 8192
MAX_CONNECTIONS = 32  # at once; one more closes that which has sent no request for longest
TOKEN = "SHOAL_METRICS_TOKEN"  # noqa: S105 - the name of a variable


class Endpoint:
    def __init__(self, figures: Callable[[], WorkerStats], fleet: Callable[[], Awaitable[StoreView]]) -> None:
        self._figures = figures
        self._fleet = fleet
        self._known: StoreView | None = None
        self._asked_at = -FLEET_TTL_S
        self._asking = asyncio.Lock()
        self._token = os.environ.get(TOKEN, "")
        self._connections = 0
        self._idle: dict[asyncio.StreamWriter, None] = {}  # connections without a whole request, oldest first

    @classmethod
    @asynccontextmanager
    async def listening(
        cls,
        address: str,
        figures: Callable[[], WorkerStats],
        fleet: Callable[[], Awaitable[StoreView]],
    ) -> AsyncIterator[None]:
        """Answer at `address` (HOST:PORT) while the block runs."""
        host, port = address_of(address)
        endpoint = cls(figures, fleet)
        try:
            server = await asyncio.start_server(endpoint.serve, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            raise Misconfigured(f"--metrics {address}: {error.strerror}") from None
        async with server:
            log.info("metrics.listening", extra={"address": address})
            if not endpoint._token and not is_loopback(host):
                log.warning("metrics.open_to_all", extra={"address": address, "protect_with": TOKEN})
            yield

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, then close the connection."""
        self._connections += 1
        self._idle[writer] = None
        try:
            if self._connections > MAX_CONNECTIONS:  # a probe must find a place, however many others wait
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                oldest.transport.abort()
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away, was slow, or sent too much
        finally:
            self._connections -= 1
            self._idle.pop(writer, None)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self._idle.pop(writer, None)
        method, _, rest = head.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        try:
            status, body = await self._answer(method, path, head)
        except Exception:  # a bug of ours must not be a traceback on the loop, nor end the worker
            log.exception("metrics.failed", extra={"path": path[:100]})
            status, body = "500 Internal Server Error", b"see the log of the worker\n"
        kind = "text/plain; version=0.0.4; charset=utf-8"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n".encode()
            + (body if method == "GET" else b"")
        )
        async with asyncio.timeout(TIMEOUT_S):
            await writer.drain()

    def _is_allowed(self, head: str) -> bool:
        """Return whether a request carries the token, if there is one."""
        sent = _values(head, "authorization")
        wanted = f"Bearer {self._token}".encode()
        return not self._token or any(hmac.compare_digest(one.encode(), wanted) for one in sent)

    def _is_known(self, head: str) -> bool:
        """Return whether a request may name this endpoint as it does."""
        names = [host_of(value) for value in _values(head, "host")]
        return bool(self._token) or all(is_local_name(name) for name in names)

    async def _answer(self, method: str, path: str, head: str) -> tuple[str, bytes]:
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed", b"use GET\n"
        match path:
            case "/metrics" if not self._is_allowed(head):
                return "401 Unauthorized", b"send the token of the worker: Authorization: Bearer TOKEN\n"
            case "/metrics" if not self._is_known(head):
                return "403 Forbidden", f"ask by an address or a local name, or set {TOKEN}\n".encode()
            case "/metrics":
                return "200 OK", exposition(self._figures(), await self._look())
            case "/healthz":
                return "200 OK", b"alive\n"
            case "/readyz":
                if self._figures().draining:
                    return "503 Service Unavailable", b"draining\n"
                if await self._look() is None:
                    return "503 Service Unavailable", b"the store is unavailable\n"
                return "200 OK", b"ready\n"
        return "404 Not Found", b"known paths: /metrics, /readyz, /healthz\n"

    async def _look(self) -> StoreView | None:
        """Return the fleet's figures, at most `FLEET_TTL_S` seconds old; None: the store is unavailable."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= FLEET_TTL_S:
                self._known = None
                with suppress(Unavailable, TimeoutError):
                    async with asyncio.timeout(TIMEOUT_S):
                        self._known = await self._fleet()
                self._asked_at = time.monotonic()
        return self._known


def _values(head: str, name: str) -> list[str]:
    """Return the values of a header."""
    lines = (line.partition(":") for line in head.split("\r\n"))
    return [value.strip() for given, _, value in lines if given.strip().lower() == name]

"""A private Redis for the crawlers that want one, beside the web server on its core.

It keeps its log, as a server that a fleet relies on does. Every run finds it empty.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.redis import redis_program

from bench.fleet.server import Metered
from bench.measure import started_on


class RedisBeside:
    """A running server, for those who cannot await."""

    def __init__(self, server: Metered) -> None:
        self._server = server
        self.dsn = server.dsn

    def clear(self) -> None:
        asyncio.run(self._server.ask("FLUSHALL"))

    def cpu_s(self) -> float:
        """Return the CPU time that it has used so far."""
        return asyncio.run(self._server.cpu())


@contextmanager
def redis_beside(*, core: int) -> Iterator[RedisBeside]:
    """Run a server on one core."""
    folder = Path(tempfile.mkdtemp(prefix="bench-redis-"))
    server = Metered(redis_program(), folder, "--appendonly", "yes")
    try:
        with started_on([core]):
            asyncio.run(server.begin())
        yield RedisBeside(server)
    finally:
        server.kill()
        shutil.rmtree(folder)

"""A real Prometheus that scrapes one address of this machine every second."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.corpora.packages import unpacked
from tests.servers.process import ServerProcess, free_port, until

_CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: shoal, static_configs: [{{targets: ["{}"]}}]}}]
"""


def program(name: str) -> Path:
    """Find a program of Debian's package, which is unpacked and not installed."""
    return unpacked("prometheus", "usr/bin") / name


class Prometheus(ServerProcess):
    def __init__(self, folder: Path, target: str) -> None:
        self._address = f"127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(target))
        super().__init__(
            [
                str(program("prometheus")),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._address}",
            ],
            folder,
        )

    async def ask(self, query: str) -> Sequence[Mapping[str, Any]]:
        """Evaluate a query: the series that it finds."""
        url = f"http://{self._address}/api/v1/query?{urlencode({'query': query})}"
        answer = await asyncio.to_thread(lambda: json.load(urlopen(url, timeout=10)))
        found: Sequence[Mapping[str, Any]] = answer["data"]["result"]
        return found


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[Prometheus]:
    """Run a server that has scraped `target` at least twice, so that it knows rates."""
    server = Prometheus(folder, target)
    server.start()
    try:
        await until(_knows_rates, server)
        yield server
    finally:
        server.signal(signal.SIGTERM)
        server.kill()


async def _knows_rates(server: Prometheus) -> bool:
    try:
        return bool(await server.ask("rate(up[1m])"))
    except URLError:
        return False

"""An output or an archive that does not respond: an embedded crawl continues as far as it may, and stays exact."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec
from tests.adversary.size import sized
from tests.e2e.command import shoal, start_logged
from tests.e2e.command_server import StartedCommand
from tests.graph_crawl import FIELDS, LONGEST_RUN, SPIDER, assert_same, serving_graph
from tests.servers.postgres import ask
from tests.servers.s3 import BUCKET
from tests.servers.shared import shared_database, shared_s3
from tests.site.graph import Graph, Shape
from tests.site.server import ServedSite

from shoal.engine.commit import COMMIT_BATCH

SHAPE = Shape(seed=11, pages=sized(360, full=3000), hosts=4)
CONCURRENCY = 8
BOUND = CONCURRENCY + COMMIT_BATCH  # requests that may wait for their commit
HELD_S = sized(2.5, full=8.0)  # how long the output does not respond


class HangingProxy:
    """A TCP proxy that forwards nothing to its server while `hangs` is set."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.flows = asyncio.Event()
        self.flows.set()
        self.stopped = 0  # chunks that had to wait
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["HangingProxy"]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(
            self._pump(reader, to_writer), self._pump(to_reader, writer), return_exceptions=True
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            self.stopped += not self.flows.is_set()
            await self.flows.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


class Crawl:
    """A crawl by the command line, in the background."""

    def __init__(self, start: str, folder: Path, *options: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._command = [
            *("crawl", str(SPIDER), start, "--any-host", "--allow-private", "--rate", "0"),
            *("--per-host", "4", "--concurrency", str(CONCURRENCY), *options),
        ]
        self._env = env or {}
        self.process = self._start()

    def _start(self) -> StartedCommand:
        return start_logged(*self._command, cwd=self.folder, log=self.folder / "log", env=self._env)

    def resume(self) -> None:
        self.process = self._start()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, LONGEST_RUN)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    async def until_served(self, site: ServedSite, pages: int) -> None:
        async with asyncio.timeout(LONGEST_RUN):
            while await site.served() < pages:
                assert self.process.poll() is None, self.log
                await asyncio.sleep(0.02)

    async def until_printed(self, text: str, *, within: float) -> None:
        async with asyncio.timeout(within):
            while text not in self.log:  # noqa: ASYNC110 (another process prints it)
                await asyncio.sleep(0.05)


async def _fetched_meanwhile(crawl: Crawl, site: ServedSite) -> int:
    """Return how many pages are fetched while the output does not respond; assert that fetching then rests."""
    before = await site.served()
    await asyncio.sleep(HELD_S)
    fetched = await site.served() - before
    assert crawl.process.poll() is None, crawl.log
    assert fetched <= BOUND + CONCURRENCY, "bounded by what may wait for its commit"
    return fetched


def _expected(graph: Graph) -> list[tuple[object, ...]]:
    return [tuple(item[field] for field in FIELDS) for item in graph.expected().items]


async def test_a_locked_table_stops_neither_fetching_nor_signals(tmp_path: Path) -> None:
    with shared_database() as dsn:
        async with serving_graph(SHAPE) as (site, graph):
            crawl = Crawl(graph.start, tmp_path, "--out", f"{dsn}?table=found")
            await crawl.until_served(site, 60)
            holder = await asyncpg.connect(dsn)
            async with holder.transaction():
                await holder.execute("LOCK TABLE found IN ACCESS EXCLUSIVE MODE")
                await _fetched_meanwhile(crawl, site)
                crawl.process.send_signal(signal.SIGTERM)
                await crawl.until_printed("SIGTERM: finishing requests", within=5.0)
            await holder.close()
            assert await crawl.ended() == 3, crawl.log
            crawl.resume()
            assert await crawl.ended() == 0, crawl.log
            rows = ask(dsn, "SELECT item FROM found")
            found = [tuple(_json(row["item"])[field] for field in FIELDS) for row in rows]
            assert_same("found", found, _expected(graph))
            verified = shoal("verify", cwd=tmp_path)
            assert verified.code == 0, verified.out


def _json(text: str) -> dict[str, object]:
    return msgspec.json.decode(text, type=dict[str, object])


async def test_an_object_store_that_hangs_stops_no_crawl_and_the_second_signal_ends_it(
    tmp_path: Path,
) -> None:
    with shared_s3() as server:
        async with (
            serving_graph(SHAPE) as (site, graph),
            HangingProxy(int(server.endpoint.rpartition(":")[2])).serving() as proxy,
        ):
            env = {
                **server.environment,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
                "SHOAL_ARCHIVE_LOCATION": f"s3://{BUCKET}/{tmp_path.name}",
            }
            crawl = Crawl(graph.start, tmp_path, "--out", "items.jsonl", env=env)
            await crawl.until_served(site, 60)
            proxy.flows.clear()
            await _fetched_meanwhile(crawl, site)
            assert proxy.stopped
            proxy.flows.set()
            await crawl.until_served(site, 200)
            proxy.flows.clear()
            for _ in range(2):
                crawl.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.5)
            async with asyncio.timeout(30.0):
                assert await crawl.ended() == 3, crawl.log
            proxy.flows.set()
            crawl.resume()
            assert await crawl.ended() == 0, crawl.log
            lines = (tmp_path / "items.jsonl").read_text().splitlines()
            found = [tuple(_json(line)[field] for field in FIELDS) for line in lines]
            assert_same("items.jsonl", found, _expected(graph))
            verified = await asyncio.to_thread(shoal, "verify", "--deep", cwd=tmp_path, env=env)
            assert verified.code == 0, verified.out

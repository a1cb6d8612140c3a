"""The stations of a crawl in a fleet, opened by one worker from what was submitted.

The frontier is shared, the outputs are written by whoever was elected, and each worker has an archive of its
own segments. So nothing here has to be taken back after a crash: what was archived and not settled stays, as
bytes that nothing points to.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from shoal.archive.names import file_name
from shoal.archive.reader import ArchiveReader
from shoal.archive.registry import open_segments
from shoal.archive.writer import ArchiveWriter
from shoal.engine.fetchers import open_crawl_fetcher
from shoal.engine.outputs import StreamedOutputs
from shoal.engine.ownership import Shared
from shoal.engine.pages import Pages
from shoal.engine.scope_state import ScopeState
from shoal.engine.session import procs_of, write_rules
from shoal.engine.stations import Stations
from shoal.fetch.cookies import CookieJar
from shoal.fetch.http.decode import decode_archived
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.chunks import open_chunks
from shoal.frontier.redis.scripts import SCRIPTS
from shoal.frontier.redis.spill import Spilling
from shoal.model import crawl_totals as sums
from shoal.model.scope import Scope
from shoal.model.settings import CrawlSettings
from shoal.parse.pool import ParsePool
from shoal.redis_client import RedisClient
from shoal.services.submit import open_in
from shoal.sinks import MultiSink
from shoal.sinks.names import shown
from shoal.stores.contract.crawl_record import CrawlRecord, settings_of, spider_on_disk
from shoal.stores.redis.page_quota import SharedPageQuota


@asynccontextmanager
async def join_crawl(
    record: CrawlRecord,
    store: RedisClient,
    *,
    worker: str,
    folder: Path,
    concurrency: int,
    parser: ParsePool | None = None,
) -> AsyncIterator[Stations]:
    """Open every station for a worker's share of a crawl; `folder` is where its files go.

    `parser`: one that may have the crawl's spider loaded; then no other one is opened. A file is loaded as
    other workers have it, without what lies beside it.
    """
    async with AsyncExitStack() as stack:
        settings = settings_of(record)
        settings = replace(
            settings, crawl=replace(settings.crawl, concurrency=min(settings.crawl.concurrency, concurrency))
        )
        source = stack.enter_context(spider_on_disk(record))
        procs, limits = procs_of(settings.crawl), settings.parse
        if parser is None or not parser.serves(source, procs=procs, limits=limits):
            parser = await stack.enter_async_context(ParsePool.open(source, procs=procs, limits=limits))
        spider = parser.description
        spilling = Spilling(store, SCRIPTS, open_chunks(settings.archive.location))
        await spilling.collect()
        frontier = RedisFrontier(store, spilling=spilling)
        # One that was forgotten since this worker heard of it must not come back.
        opened = await open_in(frontier, record.name, settings, may_be_new=False)
        rejects_file = folder / "items" / f"{file_name(record.name)}.rejected.{worker}.jsonl"
        rejects = MultiSink([str(rejects_file)] if spider.models else [])
        stack.callback(rejects.close)
        rejects.restore(None)
        segments = open_segments(settings.archive.location or str(folder / "archive"), record.name)
        archive = ArchiveWriter.open(segments, None, write_rules(record.name, settings, writer=worker))
        stack.callback(archive.close)
        jar = CookieJar.load(record.cookies)
        scope = Scope.of(settings.crawl, (), hosts=spider.hosts, limits=settings.links)
        hosts = None if record.hosts is None else frozenset(record.hosts)
        border = ScopeState(msgspec.structs.replace(scope, hosts=hosts), parser)
        totals = sums.CrawlTotals()
        yield Stations(
            crawl=record.name,
            settings=settings,
            holder=worker,
            resumed=opened.resumed,
            ownership=Shared(worker, border, totals),
            frontier=frontier,
            fetcher=await open_crawl_fetcher(
                stack, settings, frontier.hosts, jar, border, gate=SharedGate(frontier.turn)
            ),
            outlet=StreamedOutputs(archive, rejects, totals, patience=lambda: store.patience),
            pages=Pages(archive, ArchiveReader(segments, decode_archived, limits=settings.fetch)),
            parser=parser,
            totals=totals,
            border=border,
            outputs=tuple(map(shown, record.outputs)),
            store=str(store.dsn),
            archive=segments.path,
            rejects=rejects_file,
            allowance=await _allowance(store, frontier, record.name, settings.crawl, worker),
        )


async def _allowance(
    store: RedisClient, frontier: RedisFrontier, crawl: str, settings: CrawlSettings, worker: str
) -> SharedPageQuota | None:
    async def count() -> int:
        counts = await frontier.reader.counts(crawl)
        return counts.done + counts.parsing

    if not settings.max_pages:
        return None
    return SharedPageQuota(
        store,
        await frontier.reader.number(crawl),
        worker=worker,
        limit=settings.max_pages,
        lease=settings.lease,
        count=count,
    )

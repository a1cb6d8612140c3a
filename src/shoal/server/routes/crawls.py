"""Crawls and workers: reading."""

from shoal.model.api.crawls import (
    CrawlInfo,
    CrawlPage,
    ListCrawls,
    Nothing,
    OneCrawl,
    StoreSnapshot,
    WorkerList,
)
from shoal.server.http.cursors import decode_cursor, encode_cursor
from shoal.server.state.context import ApiServer
from shoal.services.inspect import snapshots


async def list_crawls(server: ApiServer, params: ListCrawls) -> CrawlPage:
    """List the crawls of the store, by name."""
    after = decode_cursor(params.cursor, str) or ""
    found = await snapshots.list_crawls(server.dsn, after=after, limit=params.limit)
    last = found.next_cursor
    return CrawlPage(crawls=found.crawls, next_cursor=None if last is None else encode_cursor(last))


async def show_crawl(server: ApiServer, params: OneCrawl) -> CrawlInfo:
    """Show one crawl: its requests by state, and what was counted beside them."""
    return await snapshots.show_crawl(server.dsn, params.crawl)


async def list_workers(server: ApiServer, params: Nothing) -> WorkerList:
    """List the workers of a fleet, or the process that owns a folder."""
    return await snapshots.list_workers(server.dsn)


async def status(server: ApiServer, params: Nothing) -> StoreSnapshot:
    """Show the store at one moment: crawls, workers, slow hosts, bottlenecks. Long lists are cut."""
    return await snapshots.read_snapshot(server.dsn, server.live.slow_hosts)

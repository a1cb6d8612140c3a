"""Reading: URLs, traces, exits, items, downloads, reports."""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from shoal.model.api.crawls import Nothing
from shoal.model.api.listing import (
    CrawlDiff,
    CrawlForecast,
    DiffQuery,
    DownloadQuery,
    ExitInfo,
    ExitList,
    PlanQuery,
    ReportQuery,
    StoredItemPage,
    StoredItemQuery,
    UrlHistories,
    UrlHistoryQuery,
    UrlInfo,
    UrlPage,
    UrlQuery,
    VerifyQuery,
    VerifyResult,
)
from shoal.model.api.problem import ApiError
from shoal.model.url import host_name
from shoal.server.http.answers import Answer, StreamedAnswer
from shoal.server.http.cursors import decode_cursor, encode_cursor
from shoal.server.state.context import ApiServer
from shoal.services.analysis.report import content_policy
from shoal.services.inspect.trace import trace, trace_json
from shoal.services.inspect.urls import STATES, UrlFilter, listed_json, page_of_urls
from shoal.services.proxies import exit_json, list_exits
from shoal.services.remote.downloads import (
    CONTENT_TYPES,
    open_download,
    open_report,
    read_diff,
    read_plan,
    read_verification,
)
from shoal.services.remote.items import Position, find_output, read_items


async def list_urls(server: ApiServer, params: UrlQuery) -> UrlPage:
    """List the URLs of a crawl by state."""
    choice = UrlFilter(
        crawl=params.crawl,
        states=STATES if params.state is None else (params.state,),
        host=host_name(params.host) if params.host else "",
        match=re.compile(re.escape(params.match)) if params.match else None,
    )
    skipped = decode_cursor(params.cursor, int) or 0
    found, more = await page_of_urls(server.dsn, choice, skip=skipped, limit=params.limit)
    return UrlPage(
        urls=[msgspec.convert(listed_json(params.crawl, one), UrlInfo) for one in found],
        next_cursor=encode_cursor(skipped + len(found)) if more else None,
    )


async def show_trace(server: ApiServer, params: UrlHistoryQuery) -> UrlHistories:
    """Show the history of one URL, in each crawl that has it."""
    found = await trace(server.dsn, params.crawl, params.url)
    if not found:
        raise ApiError(404, "no_such_url", "no crawl has accepted this URL")
    return UrlHistories(traces=[trace_json(one) for one in found])


async def list_all_exits(server: ApiServer, params: Nothing) -> ExitList:
    """List the exits of the store and of this server's settings, with their health."""
    now = time.time()
    found = [exit_json(one, now) for one in await list_exits(server.settings)]
    return ExitList(exits=msgspec.convert(found, list[ExitInfo]))


async def list_items(server: ApiServer, params: StoredItemQuery) -> StoredItemPage:
    """List the items of a crawl, the oldest or the newest first, also while it runs."""
    position = decode_cursor(params.cursor, Position)
    output = await find_output(server.dsn, params.crawl, allowed=server.settings.worker.allow_outputs)
    found = await read_items(
        output,
        position,
        newest=params.newest,
        contains=params.contains,
        limit=params.limit,
    )
    after = None if found.after is None else encode_cursor(found.after)
    return StoredItemPage(output=found.output, items=list(found.items), next_cursor=after)


async def download_items(server: ApiServer, params: DownloadQuery) -> StreamedAnswer:
    """Download the items of a crawl in a format, or its pages as WARC."""
    allowed = server.settings.worker.allow_outputs
    download = await open_download(server.dsn, params.crawl, params.format, server.exports, allowed=allowed)

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
        with download as parts:
            yield parts

    name = f'attachment; filename="items.{params.format}"'.encode()
    kind = CONTENT_TYPES[params.format]
    return StreamedAnswer(200, content_type=kind, headers=((b"content-disposition", name),), open=opened)


async def compare_generations(server: ApiServer, params: DiffQuery) -> CrawlDiff:
    """Show what appeared, changed and vanished between two generations of a crawl."""
    diff = await read_diff(server.dsn, params.crawl, params.before, params.after, server.exports)
    return CrawlDiff(diff=diff)


async def verify_store(server: ApiServer, params: VerifyQuery) -> VerifyResult:
    """Prove that nothing was lost and nothing was duplicated, from the data; changes nothing."""
    verified, report = await read_verification(server.dsn, params.crawl, server.exports, deep=params.deep)
    return VerifyResult(verified=verified, report=report)


async def show_plan(server: ApiServer, params: PlanQuery) -> CrawlForecast:
    """Forecast how long a crawl takes, what limits it and what it needs; sends no request."""
    options = {name.replace("_", "-"): value for name, value in msgspec.structs.asdict(params).items()}
    return CrawlForecast(plan=await read_plan(server.dsn, options, server.exports))


async def show_report(server: ApiServer, params: ReportQuery) -> Answer:
    """Return one HTML page with charts from the fetch log. It loads nothing and runs no script."""
    page = await open_report(server.dsn, params.crawl, server.exports)
    policy = f"{content_policy()}; frame-ancestors 'none'; sandbox".encode()
    return Answer(200, page, b"text/html; charset=utf-8", policy=policy)

"""What happens in the store right now: read from what the sampler keeps, so that no request scans a store."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from shoal.model.api.crawls import Nothing
from shoal.model.api.live import (
    AlertLines,
    ArchivedView,
    AttemptList,
    AttemptQuery,
    ExitLines,
    GraphQuery,
    HistoryFigures,
    HistoryQuery,
    HostDetails,
    HostGraph,
    HostLines,
    HostQuery,
    ItemFileQuery,
    ItemPage,
    ItemQuery,
    LiveSummary,
    OneHostLine,
    PageQuery,
    ScheduleLines,
    TraceList,
    TraceQuery,
    WorkerLines,
    WorkerQuery,
)
from shoal.server.http.answers import Answer, StreamedAnswer
from shoal.server.state.context import ApiServer
from shoal.services.live import archived, items, lists

CHUNK_BYTES = 256 * 1024


async def summary(server: ApiServer, params: Nothing) -> LiveSummary:
    """Show the pipeline with depth, rate and lag of each stage, and which one stalls and why."""
    return server.live.sample.summary


async def follow_summaries(server: ApiServer, params: Nothing) -> StreamedAnswer:
    """Follow the store: an event `summary` about every 2 seconds, with the body of GET /api/v1/live."""
    server.live.check_room()

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
        async with server.live.following() as summaries:
            yield _formatted(summaries)

    return StreamedAnswer(200, content_type=b"text/event-stream", open=opened)


async def _formatted(summaries: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    async for encoded in summaries:
        yield b"event: summary\ndata: %b\n\n" % encoded


async def history(server: ApiServer, params: HistoryQuery) -> HistoryFigures:
    """Show figures over time: the last ten minutes, the last day, or the whole fetch log."""
    if params.span == "log":
        return server.past.history(params.crawl)
    return server.live.history(params.span, params.crawl)


async def attempts(server: ApiServer, params: AttemptQuery) -> AttemptList:
    """List the latest attempts, or the latest failed ones; at most 200 of the store are kept."""
    found = server.live.attempts(
        crawl=params.crawl, failed=params.failed, host=params.host, limit=params.limit
    )
    return AttemptList(attempts=found)


async def host_lines(server: ApiServer, params: HostQuery) -> HostLines:
    """List hosts with requests: pace, state and why, failures of the last minutes."""
    found, total = server.live.hosts(
        sort=params.sort,
        state=params.state,
        search=params.search,
        limit=params.limit,
        offset=params.offset,
    )
    return HostLines(hosts=found, total=total)


async def host_details(server: ApiServer, params: OneHostLine) -> HostDetails:
    """Show one host: its queue, its pace and what limits it, its latest attempts."""
    return await lists.host_details(server.live, params.host)


async def worker_lines(server: ApiServer, params: WorkerQuery) -> WorkerLines:
    """List workers by name, and how many there are for each role."""
    return lists.worker_lines(server.live.sample.status, search=params.search, limit=params.limit)


async def exit_lines(server: ApiServer, params: Nothing) -> ExitLines:
    """List exits with their health and traffic, and what each crawl has spent."""
    return await lists.exit_lines(server.settings, server.live.sample.status)


async def list_alerts(server: ApiServer, params: Nothing) -> AlertLines:
    """List the alerts of the store: cause, what was done, what to do; and those that were cleared lately."""
    return server.live.sample.alerts


async def schedule_lines(server: ApiServer, params: Nothing) -> ScheduleLines:
    """List schedules with their next tick and the latest ones."""
    return await lists.schedule_lines(server.dsn)


async def host_graph(server: ApiServer, params: GraphQuery) -> HostGraph:
    """Show which hosts of a crawl link to which, among those with most pages."""
    return await asyncio.to_thread(server.live.graph, params.crawl, params.limit)


async def trace_url(server: ApiServer, params: TraceQuery) -> TraceList:
    """Show the whole history of one URL, in one crawl or in each that has it."""
    return await server.searches.find(params.asked, params.crawl)


async def newest_items(server: ApiServer, params: ItemQuery) -> ItemPage:
    """List the items of a crawl, the newest first; a search looks through a bounded part per call."""
    cursor = int(params.cursor) if params.cursor else None
    return await items.read_items(
        server.dsn, params.crawl, search=params.search, cursor=cursor, limit=params.limit
    )


async def item_file(server: ApiServer, params: ItemFileQuery) -> StreamedAnswer:
    """Return all items of a crawl as a file of JSON lines."""
    path = await items.item_file(server.dsn, params.crawl)

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
        with path.open("rb") as file:
            yield _parts(file.fileno())

    return StreamedAnswer(
        200, content_type=b"application/jsonl", headers=(_attachment(path.name),), open=opened
    )


async def _parts(descriptor: int) -> AsyncIterator[bytes]:
    offset = 0
    while part := await asyncio.to_thread(os.pread, descriptor, CHUNK_BYTES, offset):
        yield part
        offset += len(part)


async def archived_page(server: ApiServer, params: PageQuery) -> ArchivedView:
    """Show an archived page: its source, and its text without anything that could act."""
    ref = archived.page_ref(params.segment, params.offset, params.length)
    return await archived.read_archived(server.dsn, params.crawl, ref)


async def archived_body(server: ApiServer, params: PageQuery) -> Answer:
    """Return the body of an archived page as a file. Browsers store it and never open it."""
    ref = archived.page_ref(params.segment, params.offset, params.length)
    body, url = await archived.archived_body(server.dsn, params.crawl, ref)
    name = url.rstrip("/").rpartition("/")[2].partition("?")[0] or "page"
    return Answer(200, body, b"application/octet-stream", (_attachment(f"{name[:80]}.txt"),))


def _attachment(name: str) -> tuple[bytes, bytes]:
    return b"content-disposition", b"attachment; filename*=UTF-8''" + quote(name, safe="").encode()

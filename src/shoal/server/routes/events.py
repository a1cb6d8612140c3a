"""ApiServer-sent events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.model.api.crawls import Nothing
from shoal.server.http.answers import StreamedAnswer
from shoal.server.state.context import ApiServer


async def follow_events(server: ApiServer, params: Nothing) -> StreamedAnswer:
    """Follow the store: an event `snapshot` every 1.5 seconds, with the body of GET /api/v1/status."""
    server.events.check_room()

    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
        async with server.events.listen() as snapshots:
            yield _formatted(snapshots)

    return StreamedAnswer(200, content_type=b"text/event-stream", open=opened)


async def _formatted(snapshots: AsyncIterator[tuple[int, bytes]]) -> AsyncIterator[bytes]:
    yield b"retry: 3000\n\n"
    async for number, encoded in snapshots:
        yield b"id: %d\nevent: snapshot\ndata: %b\n\n" % (number, encoded)

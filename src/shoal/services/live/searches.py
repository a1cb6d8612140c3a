"""Searches that may take longer than a request should: they continue, and the client asks again.

Finding one request in a store is a scan: seconds with millions of URLs. A search runs in a thread with an
event loop for it alone; a request waits for it a moment, and is answered `pending` if it is not over by then.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field

from shoal.model.api.live import TraceList
from shoal.model.errors import ShoalError, Unavailable
from shoal.services.inspect.trace import trace, trace_json

log = logging.getLogger(__name__)

WAIT_S = 0.1  # that a request waits
KEPT_S = 30.0  # that a result can be fetched
MAX_KEPT = 50
MAX_AT_ONCE = 2


@dataclass(slots=True)
class _Entry:
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0
    result: TraceList | ShoalError | None = None


class TraceSearches:
    """Looks for the history of URLs, a few at once."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._wanted: asyncio.Queue[tuple[str, str]] = asyncio.Queue(MAX_KEPT)

    async def find(self, asked: str, crawl: str) -> TraceList:
        """Return the history of a URL; `pending` if the search is not over yet."""
        self._forget_old()
        key = (asked, crawl)
        if (entry := self._entries.get(key)) is None:
            if self._wanted.full():
                return TraceList(stories=[], state="pending")
            entry = self._entries[key] = _Entry()
            self._wanted.put_nowait(key)
        try:
            async with asyncio.timeout(WAIT_S):
                await entry.ended.wait()
        except TimeoutError:
            return TraceList(stories=[], state="pending")
        if isinstance(entry.result, ShoalError):
            raise entry.result
        return entry.result or TraceList(stories=[])

    def _forget_old(self) -> None:
        now = time.monotonic()
        for key in [
            key for key, one in self._entries.items() if one.ended_at and now - one.ended_at > KEPT_S
        ]:
            del self._entries[key]

    async def run(self) -> None:
        """Search for what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_AT_ONCE):
                group.create_task(self._keep_searching(), name="live.search")

    async def _keep_searching(self) -> None:
        while True:
            key = await self._wanted.get()
            entry = self._entries[key]
            try:
                entry.result = await asyncio.to_thread(_search, self._dsn, *key)
            except ShoalError as error:
                entry.result = error
            except Exception as error:  # damaged data, or a bug: it must not end the server
                log.exception("search.failed", extra={"crawl": key[1]})
                why = f"the search failed ({type(error).__name__}): see the log of the server"
                entry.result = Unavailable(why)
            entry.ended_at = time.monotonic()
            entry.ended.set()


def _search(dsn: str, asked: str, crawl: str) -> TraceList:
    found = asyncio.run(trace(dsn, crawl or None, asked))
    return TraceList(stories=[trace_json(one) for one in found])

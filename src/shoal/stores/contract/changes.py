"""What may be changed in a store from outside its running crawls."""

from collections.abc import Collection
from typing import Protocol

from shoal.frontier.results import HostView
from shoal.model.failure import FailureClass
from shoal.model.spider_versions import KEY, Reparse, SpiderVersions


class DeadLetterAction(Protocol):
    """Something that is done to dead letters; returns to how many."""

    async def __call__(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int: ...


class StoreChanges(Protocol):
    async def pause(self, crawl: str) -> None: ...
    async def resume(self, crawl: str) -> None: ...

    async def set_host(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Change what is given and keep the rest. The host need not be known yet."""

    async def clear_host(self, host: str) -> HostView:
        """Remove the pace that was set for a host."""

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        """Record that the pages of a crawl were parsed again."""

    @property
    def replay(self) -> DeadLetterAction:
        """Return the action that queues dead letters again. It needs a store that no running crawl owns."""

    @property
    def purge(self) -> DeadLetterAction:
        """Return the action that deletes dead letters. It needs a store that no running crawl owns."""


class ChangeableFrontier(Protocol):
    """The part of a frontier that `DirectChanges` needs."""

    async def pause(self, crawl: str) -> None: ...
    async def resume(self, crawl: str) -> None: ...
    async def crawl_get(self, crawl: str, key: str) -> bytes | None: ...
    async def crawl_set(self, crawl: str, key: str, value: bytes) -> None: ...
    async def host_get(self, host: str) -> HostView | None: ...
    async def host_set(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView: ...
    async def host_clear(self, host: str) -> HostView: ...
    @property
    def replay(self) -> DeadLetterAction: ...
    @property
    def purge(self) -> DeadLetterAction: ...


class DirectChanges:
    """Changes made by this process, on a frontier that it may write."""

    def __init__(self, frontier: ChangeableFrontier) -> None:
        self._frontier = frontier
        self.pause = frontier.pause
        self.resume = frontier.resume
        self.set_host = frontier.host_set
        self.clear_host = frontier.host_clear
        self.replay: DeadLetterAction = frontier.replay
        self.purge: DeadLetterAction = frontier.purge

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        versions = SpiderVersions.load(await self._frontier.crawl_get(crawl, KEY))
        versions.note(reparse)
        await self._frontier.crawl_set(crawl, KEY, versions.dump())

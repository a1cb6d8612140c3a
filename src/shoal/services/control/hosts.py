"""Steering from outside: pausing crawls, pacing and pausing hosts, whether or not somebody has the store.

If nobody has it, it is changed directly, and so is a fleet's, which nobody has; if a crawl has it, that crawl
is asked (`control`).
"""

from collections.abc import Sequence
from pathlib import Path

from shoal.frontier.results import HostView
from shoal.model.spider_versions import Reparse
from shoal.stores.access import chosen, open_reader, open_writer
from shoal.stores.address import is_redis
from shoal.stores.folder.control_socket import (
    ClearHost,
    Command,
    ControlReply,
    NoteReparse,
    PauseCrawl,
    SetHost,
    ShowHost,
    ask,
    obey,
)
from shoal.stores.folder.store import StoreBusy, StoreFolder

__all__ = [
    "ClearHost",
    "HostView",
    "SetHost",
    "note_reparse",
    "pause_crawls",
    "set_host",
    "show_host",
]


async def show_host(store: str, host: str) -> HostView | None:
    """Show a host: as its crawl sees it if one runs, else as the store knows it."""
    folder = StoreFolder(Path(store))
    if folder.exists and folder.owner() is not None:
        return (await ask(folder.path, ShowHost(host))).host
    async with open_reader(store) as reader:
        return await reader.host(host)


async def set_host(store: str, change: SetHost | ClearHost) -> HostView:
    """Change a host; it need not have been met yet."""
    async with open_reader(store):  # a store that is not there must not be made
        [answer] = await _steer(store, [change])
    assert answer.host is not None
    return await _with_queue(store, answer.host)


async def pause_crawls(store: str, crawl: str | None, *, paused: bool) -> list[str]:
    """Pause or resume one crawl of a store, or all; returns their names."""
    async with open_reader(store) as reader:
        names = await chosen(reader, crawl)
    await _steer(store, [PauseCrawl(name, paused) for name in names])
    return names


async def note_reparse(store: str, crawl: str, reparse: Reparse) -> None:
    """Remember with a crawl that its pages were parsed again into another output."""
    # A fleet's frontier writes only to crawls that are open; a folder's would load what it has queued.
    await _steer(store, [NoteReparse(crawl, reparse)], crawls=[crawl] if is_redis(store) else ())


async def _steer(store: str, commands: Sequence[Command], crawls: Sequence[str] = ()) -> list[ControlReply]:
    try:
        async with open_writer(store, crawls) as frontier:
            return [await obey(frontier, command) for command in commands]
    except StoreBusy:
        return [await ask(Path(store), command) for command in commands]


async def _with_queue(store: str, host: HostView) -> HostView:
    """Count what waits there in the data: an owner only counts the crawls that it has open."""
    async with open_reader(store) as reader:
        return await reader.host(host.host) or host

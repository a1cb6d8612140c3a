"""Hosts: their state, their pace, pausing them. Works while a crawl runs."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from shoal.frontier.results import HostView
from shoal.model.errors import Misconfigured
from shoal.stores.contract.changes import StoreChanges
from shoal.stores.open import open_store

__all__ = ["HostView", "clear_host", "host_json", "set_host", "show_host"]


async def show_host(dsn: str, host: str) -> HostView:
    """Return a host as its running crawl has it, else as it was stored; raise `Misconfigured` if unknown."""
    async with open_store(dsn) as store:
        found = await store.host(host)
        if found is None:
            expired = ", or for long" if store.capabilities.hosts_expire else ""
            raise Misconfigured(f"no crawl of {store.address} has met {host}{expired}")
        return found


async def set_host(
    dsn: str,
    host: str,
    *,
    interval: float | None = None,
    concurrency: int | None = None,
    rest_until: float | None = None,
    paused: bool | None = None,
) -> HostView:
    """Change what is given and keep the rest; the host need not be known yet."""
    return await _change(
        dsn,
        host,
        lambda changes: partial(
            changes.set_host,
            interval=interval,
            concurrency=concurrency,
            rest_until=rest_until,
            paused=paused,
        ),
    )


async def clear_host(dsn: str, host: str) -> HostView:
    """Remove the pace that was set for a host."""
    return await _change(dsn, host, lambda changes: changes.clear_host)


async def _change(
    dsn: str, host: str, choose: Callable[[StoreChanges], Callable[[str], Awaitable[HostView]]]
) -> HostView:
    async with open_store(dsn) as store:
        async with store.change() as changes:
            changed = await choose(changes)(host)
        # The stored queue: a process that owns the store counts only the crawls that it has open.
        return await store.frontier.host(host) or changed


def host_json(host: HostView) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(host)
    return found

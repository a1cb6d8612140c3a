"""Hosts: their state, their pace, pausing them. Works while a crawl runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from shoal.frontier.results import HostView
from shoal.model.errors import Misconfigured
from shoal.stores.open import open_store

__all__ = ["ClearHost", "HostView", "SetHost", "host_json", "refresh_robots", "set_host", "show_host"]


MAX_HOSTS = 10_000  # of a store, among which a mistyped one is looked for


@dataclass(frozen=True, slots=True)
class SetHost:
    """A change of a host: what is given changes, the rest is kept. The host need not be known yet."""

    host: str
    interval: float | None = None
    concurrency: int | None = None
    rest_until: float | None = None
    paused: bool | None = None


@dataclass(frozen=True, slots=True)
class ClearHost:
    """Removes the pace that was set for a host."""

    host: str


async def show_host(dsn: str, host: str) -> HostView | None:
    """Return a host as its running crawl has it, else as it was stored; None: no crawl knows it."""
    async with open_store(dsn) as store:
        return await store.host(host)


async def set_host(dsn: str, change: SetHost | ClearHost) -> HostView:
    """Change a host and return its new state.

    The host need not be known yet. If only the same name with another port is, `Misconfigured` names that.
    """
    async with open_store(dsn) as store:
        if await store.host(change.host) is None:
            known = [queue.host for queue in await store.frontier.queues(MAX_HOSTS) or ()]
            refuse_other_port(change.host, known)
        async with store.change() as changes:
            match change:
                case SetHost(host):
                    changed = await changes.set_host(
                        host,
                        interval=change.interval,
                        concurrency=change.concurrency,
                        rest_until=change.rest_until,
                        paused=change.paused,
                    )
                case ClearHost(host):
                    changed = await changes.clear_host(host)
        # The stored queue: a process that owns the store counts only the crawls that it has open.
        return await store.frontier.host(change.host) or changed


def refuse_other_port(host: str, known: Sequence[str]) -> None:
    """Raise `Misconfigured` if crawls know this name under another port only: a host is name and port."""
    name = host.partition(":")[0]
    others = sorted({other for other in known if other.partition(":")[0] == name and other != host})
    if others and host not in known:
        raise Misconfigured(
            f"no crawl of this store has requests for {host}; did you mean {' or '.join(others[:3])}?"
            " A host is its name and its port"
        )


async def refresh_robots(dsn: str, host: str) -> None:
    """Make every process of a store fetch the robots.txt of a host again, within crawl.robots_min_ttl."""
    async with open_store(dsn) as store, store.change() as changes:
        await changes.refresh_robots(host)


def host_json(host: HostView) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(host)
    del found["responses"]
    spike = host.spike
    return {
        **found,
        "trouble": host.trouble,
        "spike": None if spike is None else {"kind": spike.kind, "remedy": spike.remedy.value},
    }

"""Hosts in the embedded store: their pace, rests and pauses, and their robots.txt."""

from collections.abc import Iterable

from shoal.frontier.governor import host_view
from shoal.frontier.results import HostView, StoredRobots
from shoal.frontier.sqlite.lane import HostState
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.reader import SqliteReader

MAX_ROBOTS = 5000  # hosts whose robots.txt is stored; those that expire first are deleted first
ROBOTS_SWEEP_WRITES = 64  # rows written between two deletions


class SqliteHosts:
    def __init__(self, owner: Owner, reader: SqliteReader) -> None:
        self._owner = owner
        self._reader = reader
        self._robots_written = 0

    async def get(self, host: str) -> HostView | None:
        """Return one host, or None if the store has no record of it."""
        known = self._owner.state.find_host(host)
        return None if known is None else _view(known)

    async def all(self) -> list[HostView]:
        """Return every host of the crawls that are open and that this process runs."""
        hosts = self._owner.state.hosts.values()
        return [_view(host) for host in hosts if any(not lane.crawl.guest for lane in host.lanes)]

    async def of_crawls(self, crawls: Iterable[str]) -> list[HostView]:
        """Return every host of these crawls, which are open."""
        opened = map(self._owner.state.crawl, crawls)
        return [_view(host) for host in {lane.host for crawl in opened for lane in crawl.lanes.values()}]

    async def set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Override the pace of a host, rest it or pause it. What is None stays unchanged.

        A new interval and the end of a pause also end an adaptive slow-down.
        """
        changed = {
            "interval": interval,
            "burst": burst,
            "concurrency": concurrency,
            "crawl_delay": crawl_delay,
            "rest_until": rest_until,
            "paused": paused,
        }
        return self._update(host, {name: value for name, value in changed.items() if value is not None})

    async def clear(self, host: str) -> HostView:
        """Remove the interval, burst and concurrency set for a host: the crawls' pace applies again."""
        return self._update(host, {"interval": None, "burst": None, "concurrency": None})

    def _update(self, name: str, fields: dict[str, float | None]) -> HostView:
        owner = self._owner
        with owner.changing() as changes:
            host = owner.state.host(name, changes)
            for field, value in fields.items():
                setattr(host.record, field, value)
            if "interval" in fields or fields.get("paused") is False:
                host.clear_slowdown()
            host.update_pace()
            owner.state.scheduler.place_all(host, owner.now())
            changes.hosts.add(host)
        return _view(host)

    async def get_robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""
        return await self._reader.robots(host)

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        with self._owner.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?)", (host, expires, status, body)
            )
            self._robots_written += 1
            if self._robots_written % ROBOTS_SWEEP_WRITES == 0:
                database.execute(
                    "DELETE FROM robots WHERE host IN"
                    " (SELECT host FROM robots ORDER BY expires DESC LIMIT -1 OFFSET ?)",
                    (MAX_ROBOTS,),
                )


def _view(host: HostState) -> HostView:
    return host_view(host.name, host, waiting=sum(lane.size for lane in host.lanes))

"""The parts of the model that change crawls, hosts and dead letters."""

from collections.abc import Collection, Mapping

from tests.model.state import Crawl, Generations, Host, State

from shoal.frontier.generations import Generation, split_generations
from shoal.frontier.governor import host_view
from shoal.frontier.results import HostView, Opened, StoredRobots
from shoal.frontier.rules import parsed_again
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.model.pace import Pace
from shoal.model.request import FINGERPRINT_KEY


class ModelCrawls:
    def __init__(self, state: State) -> None:
        self._state = state

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> Opened:
        """Create or resume a crawl. Options that are None keep their value."""
        crawls = self._state.crawls
        resumed = name in crawls
        if not resumed:
            crawls[name] = Crawl(name, Pace(), 3, SlowdownRules(), values=dict(state or {}))
            if name in self._state.generations and (key := self._state.generations[name].key):
                crawls[name].values[FINGERPRINT_KEY] = key
        crawl = crawls[name]
        crawl.pace = crawl.pace if pace is None else pace
        crawl.max_crashes = crawl.max_crashes if max_crashes is None else max_crashes
        crawl.slowdown = crawl.slowdown if slowdown is None else slowdown
        crawl.host_budget = crawl.host_budget if host_budget is None else host_budget
        crawl.paces = crawl.paces if hosts is None else dict(hosts)
        if not crawl.opened:
            crawls[name] = crawls.pop(name)  # last in the order of opening
            self._state.take_up(crawl)
        for lane in crawl.lanes.values():
            lane.host.update_pace()
        return Opened(name, resumed)

    async def delete(
        self, name: str, *, checkpoints: Collection[str] = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        """Delete a crawl that is not open, and the named checkpoints; return False if there is no such crawl."""
        crawl = self._state.crawls.get(name)
        if crawl is None:
            return False
        if crawl.opened:
            raise Misconfigured(f"crawl {name!r} is open and cannot be deleted")
        known = self._state.generations.setdefault(name, Generations())
        finished = crawl.counts.open == 0 and crawl.counts.done > 0
        began = float(crawl.values.get(BEGAN, b"0"))
        known.earlier[Generation(known.current, began, finished)] = crawl.histories()
        known.key = crawl.values.get(FINGERPRINT_KEY, known.key)
        known.current += 1
        for dropped in split_generations(list(known.earlier), keep)[1]:
            del known.earlier[dropped]
        if entirely:
            del self._state.generations[name]
        del self._state.crawls[name]
        for checkpoint in checkpoints:
            self._state.checkpoints.pop(checkpoint, None)
        return True

    async def pause(self, crawl: str) -> None:
        """Stop leasing from a crawl until `resume`."""
        self._state.known(crawl).paused = True

    async def resume(self, crawl: str) -> None:
        self._state.known(crawl).paused = False

    async def set_value(self, crawl: str, key: str, value: bytes) -> None:
        """Store a value with a crawl, open or not."""
        self._state.known(crawl).values[key] = value


class ModelHosts:
    def __init__(self, state: State) -> None:
        self._state = state

    async def get(self, host: str) -> HostView | None:
        """Return one host, or None if there is no record of it."""
        known = self._state.hosts.get(host)
        return None if known is None else view_of(known)

    async def all(self) -> list[HostView]:
        """Return every host of the crawls that are open."""
        return [view_of(host) for host in self._state.hosts.values() if host.joined]

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
        """Override the pace of a host, rest it or pause it. What is None stays unchanged."""
        known = self._state.host(host)
        record = known.record
        record.interval = record.interval if interval is None else interval
        record.burst = record.burst if burst is None else burst
        record.concurrency = record.concurrency if concurrency is None else concurrency
        record.crawl_delay = record.crawl_delay if crawl_delay is None else crawl_delay
        record.rest_until = record.rest_until if rest_until is None else rest_until
        record.paused = record.paused if paused is None else paused
        if interval is not None or paused is False:
            known.clear_slowdown()
        known.update_pace()
        return view_of(known)

    async def clear(self, host: str) -> HostView:
        """Remove the interval, burst and concurrency set for a host: the crawls' pace applies again."""
        known = self._state.host(host)
        known.record.interval = known.record.burst = known.record.concurrency = None
        known.clear_slowdown()
        known.update_pace()
        return view_of(known)

    async def get_robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""
        known = self._state.robots.get(host)
        return known if known is not None and known.expires > self._state.read_clock() else None

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        self._state.robots[host] = StoredRobots(expires, status, body)


class ModelDeadLetters:
    def __init__(self, state: State) -> None:
        self._state = state

    async def replay(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, first accepted first; an archived page that was at fault is parsed again."""
        within = self._state.crawl(crawl)
        letters = self._state.dead(within, classes, host, fingerprints)[:limit]
        for entry in letters:
            assert entry.failure is not None
            parse = parsed_again(entry.failure.failure_class, archived=entry.page is not None)
            self._state.move(within, entry, "parsing" if parse else "waiting")
            entry.strikes, entry.taken = 0, False
            if not parse:
                entry.attempts = entry.crashes = entry.rests = 0
                entry.first_at = entry.page = None
                self._state.wait(within, entry)
        return len(letters)

    async def purge(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Delete dead letters, first accepted first. Their requests stay dead and seen."""
        letters = self._state.dead(self._state.crawl(crawl), classes, host, fingerprints)[:limit]
        for entry in letters:
            entry.purged, entry.page = True, None
        return len(letters)


def view_of(host: Host) -> HostView:
    lanes = [lane for crawl in host.joined for lane in crawl.lanes.values() if lane.host is host]
    return host_view(host.name, host, waiting=sum(len(lane.waiting) for lane in set(lanes)))

"""What a rendered page requests besides itself: paced, subject to robots.txt, counted and bounded.

The browser asks before it sends each request of the page, its frames and its web workers. The answer comes
when the host has a turn. Turns are those of all other requests to the host, of every worker; requests of
pages may take theirs early, `browser.burst` of them, because a page needs its parts at once. What they have
taken early is missing afterwards: in any time, a host gets no more than its pace and that burst.

robots.txt is asked for frames, and for what goes to another site than the page's own. What a page loads from
its own site is a part of the page, which robots.txt allows.

Some connections carry requests that the browser does not ask for: WebSocket, what it fetches ahead by itself.
The egress asks about every connection. One that follows from a request that was admitted passes; any other
one is a request.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

from shoal.fetch.http.guard import Guard, Origin
from shoal.fetch.http.send_turn import SendTurn
from shoal.model.failure import Failure
from shoal.model.url import host_key, site_of

MAX_HOSTS = 100  # that one page may ask
ASKING = 4  # requests of pages that wait for the next turn of one host at the same time
SHORTEST_WAIT_S = 0.1  # a host that is paused is asked about again
CONNECTIONS = 2  # to one host, for the first request to it: a browser opens a second one in advance

ROBOTS, TOO_MANY = "robots", "requests"  # why a request is refused
PACE = "pace"  # requests were still waiting when the page was captured


class PageGate(Protocol):
    """The part of a gate that is used here: `fetch.contract.Gate`."""

    def turn(self, host: str, *, interval: float, burst: int = 1, early: float = 0.0) -> SendTurn: ...

    def known_interval(self, host: str) -> float: ...


class Rules(Protocol):
    """The rules of one robots.txt: `fetch.robots_txt.RobotsRules`."""

    delay: float | None

    def allows(self, target: str) -> bool: ...


class Robots(Protocol):
    """The part of `fetch.robots.RobotsPolicy` that is used here."""

    async def wait_for_rules(self, origin: str, turn: Callable[[str], SendTurn]) -> Rules | None: ...


class RequestRules:
    """The pace and the robots.txt rules for what the pages of one crawl request."""

    def __init__(
        self, gate: PageGate, robots: Robots | None, intervals: Callable[[str], float], *, burst: int
    ) -> None:
        """`intervals` returns the configured interval of a host; `robots` is None if it is ignored."""
        self._gate = gate
        self._robots = robots
        self._intervals = intervals
        self._burst = burst
        self._asking: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def wait_for_turn(self, host: str, interval: float) -> None:
        """Wait for a turn of a host, and take it."""
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.Semaphore(ASKING)
        early = (self._burst - 1) * interval
        async with asking:
            turn = self._gate.turn(host, interval=interval, early=early)
            while (wait := await turn.take()) > 0:  # noqa: ASYNC110 - no event says that a turn has come
                await asyncio.sleep(max(wait, SHORTEST_WAIT_S))

    def interval(self, host: str) -> float:
        """Return the interval of a host that no request of a crawl is known to keep."""
        return self._gate.known_interval(host) or self._intervals(host)

    async def robots_of(self, url: str) -> Rules | None:
        """Return the rules of robots.txt for a URL, which is fetched if need be; None: it is unavailable."""
        assert self._robots is not None
        return await self._robots.wait_for_rules(url[: url.index("/", 8)], self._turn)

    @property
    def asks_robots(self) -> bool:
        return self._robots is not None

    def _turn(self, host: str) -> SendTurn:
        return self._gate.turn(host, interval=self.interval(host))


@dataclass(slots=True, eq=False)
class PageRequests:
    """The requests of one page. `rules`: None: they are counted and bounded, and not paced."""

    url: str
    guard: Guard
    most: int  # browser.requests
    rules: RequestRules | None = None
    own_interval: float | None = None  # of the host of the page, from its own turn
    has_connection: Callable[[str], bool] = lambda _: False  # whether one to an origin is open
    sent: Counter[str] = field(default_factory=Counter)  # by host
    waiting: int = 0
    partial: set[str] = field(default_factory=set)  # why the page may be incomplete
    error: Exception | None = None  # of the store, for the caller of the client: see `check`
    _hosts: set[str] = field(default_factory=set)
    _connections: Counter[str] = field(default_factory=Counter)  # by origin: that may still be opened
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        origin = self.guard.origin(self.url)
        if isinstance(origin, Origin):
            self._connections[origin.key] = CONNECTIONS

    def submit(
        self,
        url: str,
        start: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"],
        answer: Callable[[bool], None],
        *,
        is_document: bool = False,
    ) -> None:
        """Answer whether a request may be sent, when it may be; `start` runs what waits for that."""

        async def work() -> None:
            answer(await self.admit(url, is_document=is_document))

        task = start(work(), "request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def admit(self, url: str, *, is_document: bool = False) -> bool:
        """Wait for the turn of a request and return True; False: it must not be sent."""
        origin = self.guard.origin(url)
        if isinstance(origin, Failure):
            return True  # `data:` and the like are not sent, and the egress refuses the rest with the reason
        admitted = await self._admit(url, host_key(url), is_document=is_document)
        if admitted:
            # A request in absolute form has a separate connection. In a tunnel, many follow each other: one
            # more is not for this request for sure, it may be for a WebSocket, and takes a separate turn.
            left = self._connections[origin.key]
            if not origin.secure:
                self._connections[origin.key] = left + 1
            elif not self.has_connection(origin.key):
                self._connections[origin.key] = min(left + 1, CONNECTIONS)
        return admitted

    async def may_connect(self, origin: Origin) -> bool:
        """Return whether a connection may be opened; one that no request asked for waits for a turn."""
        if self._connections[origin.key] > 0:
            self._connections[origin.key] -= 1
            return True
        host = origin.authority.removesuffix(":80")  # a WebSocket without TLS is a tunnel, too
        return await self._admit(f"{origin.key}/", host, is_document=False)

    def check(self) -> None:
        """Raise what was raised while a turn was taken."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Send nothing more; what is waiting is refused."""
        if self.waiting:
            self.partial.add(PACE)
        for task in self._tasks:
            task.cancel()

    async def _admit(self, url: str, host: str, *, is_document: bool) -> bool:
        if self.error is not None:
            return False
        is_one_too_many = host not in self._hosts and len(self._hosts) >= MAX_HOSTS
        if is_one_too_many or self.sent.total() + self.waiting >= self.most:
            self.partial.add(TOO_MANY)
            return False
        self._hosts.add(host)
        self.waiting += 1
        try:
            if self.rules is not None and not await self._follow(
                self.rules, url, host, is_document=is_document
            ):
                return False
        except Exception as error:  # of the store
            self.error = error
            return False
        finally:
            self.waiting -= 1
        self.sent[host] += 1
        return True

    async def _follow(self, rules: RequestRules, url: str, host: str, *, is_document: bool) -> bool:
        own_host = host_key(self.url)
        interval = rules.interval(host)
        if host == own_host and self.own_interval is not None:
            interval = self.own_interval
        if rules.asks_robots and (is_document or site_of(host) != site_of(own_host)):
            robots = await rules.robots_of(url)
            if robots is None or not robots.allows(url[url.index("/", 8) :]):
                self.partial.add(ROBOTS)
                return False
            interval = max(interval, robots.delay or 0.0)
        await rules.wait_for_turn(host, interval)
        return True

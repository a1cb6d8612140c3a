"""Turns of rendered pages: one that is far away holds up no other page, and every connection has one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal.fetch.browser.client import Answer, BrowserClient, Uncertain
from shoal.fetch.browser.page_requests import MAX_HOSTS, PageRequests, RequestRules
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.browser.render import Download
from shoal.fetch.gate import SendGate
from shoal.fetch.http.dns import Answer as Addresses
from shoal.fetch.http.guard import Guard, Origin
from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response, Timing
from shoal.model.settings import BrowserSettings

ONE, TWO = "http://one.test/", "http://two.test/"
LOST = Uncertain(Failure(FailureClass.HOLDER_LOST, "its browser was lost"))
BROKEN = Failure(FailureClass.CONNECT, "no connection")
GUARD = Guard(PRIVATE)


class Names:
    async def resolve(self, host: str) -> Addresses:
        return ("127.0.0.1",)


class Plain:
    """A client that answers what the test says."""

    def __init__(self, *answers: Response | Failure | NotSent) -> None:
        self.answers = list(answers)

    async def fetch(self, url: str, **options: Any) -> Response | Failure | NotSent:
        return self.answers.pop(0)


class Scripted(BrowserClient):
    """Renders what the test says: answers by URL, one after the other."""

    answers: dict[str, list[Answer]]
    wait: Callable[[], Any] | None = None

    async def _attempt(self, request: Any, rendering: Any, **options: Any) -> Answer:
        if self.wait is not None:
            await self.wait()
        return self.answers[request.url].pop(0)


def scripted(pool: BrowserPool, plain: Plain | None = None, **answers: list[Answer]) -> Scripted:
    client = Scripted(pool, None, Names(), GUARD, plain=plain)  # type: ignore[arg-type]
    client.answers = {{"one": ONE, "two": TWO}[name]: found for name, found in answers.items()}
    return client


async def test_a_page_that_is_rendered_alone_gives_the_browsers_back_while_its_turn_is_far_away() -> None:
    async with BrowserPool.open(BrowserSettings()) as pool:
        client = scripted(pool, one=[LOST, NotSent(600.0), LOST], two=[LOST, BROKEN, BROKEN])
        both = asyncio.Barrier(2)
        client.wait = both.wait
        first = [asyncio.create_task(client.fetch(url, limits=FetchLimits())) for url in (ONE, TWO)]
        while both.n_waiting < 2 and len(client.answers[ONE]) == 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        client.wait = None
        assert [await one for one in first] == [NotSent(600.0), BROKEN]
        assert await client.fetch(TWO, limits=FetchLimits()) == BROKEN
        # Then it is rendered alone without a try beside others, and what befalls it is its own fault.
        assert await client.fetch(ONE, limits=FetchLimits()) == LOST.failure
        assert not client.answers[ONE]


async def test_a_download_whose_turn_is_far_away_is_fetched_later_without_a_browser() -> None:
    async with BrowserPool.open(BrowserSettings()) as pool:
        client = scripted(pool, Plain(NotSent(600.0), NotSent(5.0), BROKEN), one=[Download()])
        answers = [await client.fetch(ONE, limits=FetchLimits()) for _ in range(3)]
        assert answers == [NotSent(600.0), NotSent(5.0), BROKEN]


class FarTurn:
    """A turn that is due in as many seconds as the test says."""

    interval = 1.0
    host = "one.test"

    def __init__(self, *waits: float) -> None:
        self.waits = list(waits)
        self.timing = Timing()

    def known_wait(self) -> float:
        return self.waits.pop(0)

    async def take(self, address: str = "") -> float:
        return 0.0

    def sent(self) -> None: ...

    def answered(self) -> None: ...


async def test_a_page_is_held_back_before_it_is_returned_because_its_turn_is_too_far_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with BrowserPool.open(BrowserSettings()) as pool:
        client = scripted(pool, one=[BROKEN])
        monkeypatch.setattr("shoal.fetch.browser.client.asyncio.sleep", sleep)
        far = await client.fetch(ONE, limits=FetchLimits(), turn=FarTurn(20.0, 18.0))
        near = await client.fetch(ONE, limits=FetchLimits(), turn=FarTurn(1.5, 1.0))
        monkeypatch.undo()
    assert (far, near) == (NotSent(18.0), BROKEN)
    assert slept == [2.0, 0.5]


class Turns(RequestRules):
    def __init__(self) -> None:
        super().__init__(SendGate(), None, lambda host: 0.5, burst=1)
        self.taken = 0

    async def wait_for_turn(self, host: str, interval: float) -> None:
        self.taken += 1


async def test_requests_over_an_open_connection_give_no_turn_to_connections_that_no_request_needs() -> None:
    turns, tunnels = Turns(), list[str]()
    page = PageRequests("https://a.example/", GUARD, 500, turns, 0.5, tunnels.__contains__)
    origin = GUARD.origin("https://a.example/")
    assert isinstance(origin, Origin)
    assert await page.may_connect(origin)
    assert await page.may_connect(origin)  # a browser opens a second one in advance
    assert turns.taken == 0
    tunnels.append(origin.key)
    for number in range(6):
        assert await page.admit(f"https://a.example/{number}.js")
    for _ in range(4):
        assert await page.may_connect(origin)  # WebSockets
    assert turns.taken == 6 + 4
    tunnels.clear()
    assert await page.admit("https://a.example/7.js")  # needs a connection
    assert await page.may_connect(origin)
    assert turns.taken == 6 + 4 + 1


async def test_a_page_that_may_ask_no_more_hosts_may_ask_those_that_it_has_asked() -> None:
    page = PageRequests("http://a.example/", GUARD, 500)
    hosts = [f"http://h{number}.example/" for number in range(MAX_HOSTS + 1)]
    assert [await page.admit(url) for url in hosts] == [True] * MAX_HOSTS + [False]
    assert await page.admit(f"{hosts[0]}again")
    assert not await page.admit("http://another.example/")
    assert page.partial == {"requests"}

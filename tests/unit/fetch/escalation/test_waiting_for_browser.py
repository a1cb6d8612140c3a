"""Empty shells in a fleet whose browser worker starts late, dies and returns: every one is rendered, none parsed."""

import os
import random
from collections import deque

import msgspec
import pytest
from tests.unit.fetch.shell_pages import SHELLS
from tests.unit.fetch.test_fetcher import REDIRECTS, Reply, Web, lease

from shoal.fetch.escalation import escalation
from shoal.fetch.escalation.browser_budget import BrowserBudget
from shoal.fetch.escalation.escalation import Escalation
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.levels import ClientLevels
from shoal.model.failure import FailureClass
from shoal.model.outcome import Filtered, Lease, Released, Retry
from shoal.model.request import BROWSER, HTTP, Request

RUNS = int(os.environ.get("SHOAL_ESCALATIONS", "8"))
PAGES, CHANCES = 12, 400


class FleetOfTwo:
    """A worker without a browser, and one with a browser that is up from time to time."""

    def __init__(self, dice: random.Random, **options: object) -> None:
        self.dice = dice
        self.has_browser = False
        replies: dict[str, Reply] = {
            f"http://a.test/app/{n}": (200, SHELLS["Preact"].encode(), {}) for n in range(PAGES)
        }
        web = Web(replies)
        self.escalation = Escalation(
            LearnedLevels(),
            BrowserBudget("c", None),
            pools=lambda: (HTTP, BROWSER) if self.has_browser else (HTTP,),
            **options,  # type: ignore[arg-type]
        )
        self.fetcher = HttpFetcher(
            web,  # type: ignore[arg-type]
            SendGate(),
            REDIRECTS,
            CrawlHeaders("Shoal/1", {}),
            levels=ClientLevels(web),  # type: ignore[arg-type]
            escalation=self.escalation,
        )
        self.waiting = deque((Request(url=url), 0) for url in replies)  # with their rests
        self.rendered: list[str] = []
        self.parsed: list[str] = []

    async def turn(self) -> None:
        """Change nothing, start or end the browser, and have one of the workers take a request."""
        if self.dice.random() < 0.1:
            self.has_browser = not self.has_browser
        pool = self.dice.choice([HTTP, BROWSER] if self.has_browser else [HTTP])
        found = next((one for one in self.waiting if one[0].pool == pool), None)
        if found is None:
            return
        self.waiting.remove(found)
        request, rests = found
        if pool == BROWSER:
            if self.dice.random() < 0.2:  # it dies with the page: its lease is reclaimed
                self.has_browser = False
                self.waiting.append(found)
            else:
                choice = self.escalation.choose(self._lease(request, rests))
                assert not isinstance(choice, Filtered)
                self.escalation.fetched(self._lease(request, rests), choice)
                self.rendered.append(request.url)
            return
        outcome = (await self.fetcher.attempt(self._lease(request, rests))).outcome
        match outcome:
            case None:
                self.parsed.append(request.url)
            case Retry(instead=instead) | Released(instead=instead) if instead is not None:
                self.waiting.append((instead, rests + isinstance(outcome, Retry)))
            case _:
                raise AssertionError(outcome)

    def _lease(self, request: Request, rests: int) -> Lease:
        return msgspec.structs.replace(lease(request.url, rests=rests), request=request)


@pytest.mark.parametrize("run", range(RUNS))
async def test_no_page_that_needs_a_browser_is_parsed_as_it_is_because_a_browser_worker_was_late(
    run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(run)
    # How old the knowledge about the other worker may be: none of it, or what was so at the start.
    monkeypatch.setattr(escalation, "POOLS_S", dice.choice([0.0, 1e9]))
    monkeypatch.setattr(escalation, "SYNC_CHECK_S", 0.0)
    fleet = FleetOfTwo(dice, waits_for_browser=lambda: True)
    for _ in range(CHANCES):
        await fleet.turn()
        assert not fleet.parsed
    while fleet.waiting:
        fleet.has_browser = True
        await fleet.turn()
    assert sorted(fleet.rendered) == sorted(f"http://a.test/app/{n}" for n in range(PAGES))
    assert not fleet.parsed


async def test_a_crawl_that_forbids_the_browser_and_a_process_on_its_own_parse_a_shell_as_it_is() -> None:
    for options in ({"allowed": ("plain",), "waits_for_browser": lambda: True}, {}):
        fleet = FleetOfTwo(random.Random(1), **options)
        found = await fleet.fetcher.attempt(lease("http://a.test/app/1"))
        assert (found.outcome, found.parse) == (None, True)


async def test_a_shell_of_a_host_that_had_asked_to_wait_twenty_times_is_moved_all_the_same() -> None:
    fleet = FleetOfTwo(random.Random(1), waits_for_browser=lambda: True)
    found = await fleet.fetcher.attempt(lease("http://a.test/app/1", rests=20))
    assert isinstance(found.outcome, Retry)
    assert found.outcome.failure.failure_class is FailureClass.NEEDS_BROWSER
    assert found.outcome.instead is not None

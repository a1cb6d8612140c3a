"""The level of each request of a crawl, and what follows from how it went.

A level comes, in this order, from the request, from the operator (`shoal host set-level`), from the settings
of the host and of the crawl, and from what was learned. Only the last one changes by itself. Escalation
changes how a page is asked for, and never how often: every try takes a turn of its host and obeys robots.txt.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from shoal.fetch.escalation.browser_budget import BrowserBudget
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.model.failure import FailureClass
from shoal.model.levels.ladder import (
    AUTO,
    BROWSER,
    EXIT,
    IMPERSONATE,
    LADDER,
    PLAIN,
    Cause,
    next_level,
    rank,
    usable_level,
)
from shoal.model.levels.learned import LevelOutcome, pattern_of_level, probe_level
from shoal.model.outcome import Filtered, Lease
from shoal.model.rendering import Rendering, ScrollToEnd
from shoal.model.request import HTTP, Request

log = logging.getLogger(__name__)

POOLS_S = 5.0  # between two looks at the pools that are served
SYNC_CHECK_S = 0.25  # between two looks at what is due; looking for every request would take 4 µs of each
USUAL_RENDERING = Rendering(actions=(ScrollToEnd(),))
"""How an escalated page is rendered: lists that grow at their end are complete."""


class LevelChoice(msgspec.Struct, frozen=True):
    """The level of one attempt."""

    level: str
    pattern: str = ""  # that learns from it; empty: none does, the level was set
    probe: bool = False


class Escalation:
    """`pools`: returns the pools whose requests are taken, by this process or by others of the store.

    `waits_for_browser`: returns whether a page that is empty without a browser waits for one where none runs.
    In a fleet, a worker with a browser may start at any time; a page that was parsed as an empty shell before
    would bring items without values, and nothing would say so.
    """

    def __init__(
        self,
        learned: LearnedLevels,
        budget: BrowserBudget,
        *,
        allowed: Collection[str] = LADDER,
        level: str = AUTO,
        hosts: Mapping[str, str] | None = None,
        has_exits: bool = False,
        impersonates: bool = False,
        pools: Callable[[], Collection[str]],
        waits_for_browser: Callable[[], bool] = lambda: False,
    ) -> None:
        self._learned = learned
        self._budget = budget
        self._allowed = frozenset(allowed) | {PLAIN}
        self._level = level
        self._hosts = {host: own for host, own in (hosts or {}).items() if own}
        self._here = {PLAIN} | ({EXIT} if has_exits else set()) | ({IMPERSONATE} if impersonates else set())
        self._pools = pools
        self._waits_for_browser = waits_for_browser
        self._pools_at = -POOLS_S
        self._check_at = 0.0
        self._available = frozenset(self._here & self._allowed)
        self._told: set[str] = set()  # hosts with empty shells, where no browser is available

    @property
    def available(self) -> Collection[str]:
        """The levels that requests of this crawl may be raised to."""
        return self._available

    @property
    def may_be_due(self) -> bool:
        """Whether `sync` may have something to do."""
        return self._learned.urgent or time.monotonic() >= self._check_at

    async def sync(self) -> None:
        """Exchange what was learned with other processes, if that is due."""
        now = time.monotonic()
        self._check_at = now + SYNC_CHECK_S
        if now - self._pools_at >= POOLS_S:
            self._pools_at = now
            browser = {BROWSER} if BROWSER in self._pools() else set()
            self._available = frozenset((self._here | browser) & self._allowed)
        await self._learned.sync()
        await self._budget.sync()

    async def close(self) -> None:
        """Store what was learned and spent."""
        await self._learned.sync(force=True)
        await self._budget.sync(force=True)

    def choose(self, lease: Lease) -> LevelChoice | Filtered:
        """Return the level of an attempt; or why the request is given up: it needs more than is left."""
        request, host = lease.request, lease.host
        if request.pool.startswith(BROWSER):
            if not request.escalated:
                return LevelChoice(BROWSER)
            if setting := self._budget.spent(host):
                return _over_budget(setting)
            return LevelChoice(BROWSER, pattern_of_level(request.url))
        pin = request.level or self._learned.pin(host) or self._hosts.get(host) or self._level
        if pin != AUTO or request.pool != HTTP:
            return LevelChoice(PLAIN if pin == AUTO else pin)
        pattern = pattern_of_level(request.url)
        learned = self._learned.at(host, pattern)
        if not learned.is_raised and not request.escalated:
            return LevelChoice(PLAIN, pattern)
        if rank(request.escalated or PLAIN) > rank(learned.level):
            level = request.escalated
        else:
            level = learned.level
            if lease.attempt == 1 and not lease.rests:
                probed = probe_level(learned, self._learned.clock(), self._available)
                if probed is not None and probed != level:
                    self._learned.begin_probe(host, pattern)
                    return LevelChoice(probed, pattern, probe=True)
        level = usable_level(level, self._available_for(request, learned.cause))
        if level == BROWSER and (setting := self._budget.spent(host)):
            return _over_budget(setting)
        return LevelChoice(level, pattern)

    def move(self, request: Request, choice: LevelChoice | None = None) -> Request:
        """Return a request as the pool of browsers takes it; `choice`: the level may have been set."""
        if choice is not None and not choice.pattern:
            return msgspec.structs.replace(request, pool=BROWSER)
        render = request.render or USUAL_RENDERING
        return msgspec.structs.replace(request, pool=BROWSER, escalated=BROWSER, render=render)

    def fetched(self, lease: Lease, choice: LevelChoice) -> None:
        """Learn from a page that was fetched."""
        if choice.pattern:
            seen = LevelOutcome(choice.level, probe=choice.probe)
            self._learned.observe(lease.host, choice.pattern, seen, self._available)
            if choice.level == BROWSER:
                self._budget.count(lease.host)

    def failed(self, lease: Lease, choice: LevelChoice, cause: Cause, why: str) -> Request | Filtered | None:
        """Learn from a page that was blocked or is empty; return the request for the next level.

        `Filtered`: what would help is no longer allowed. None: no level helps; the failure counts as it is.
        """
        if not choice.pattern:
            return None
        if choice.level == BROWSER:
            self._budget.count(lease.host)
        request, host = lease.request, lease.host
        available = self._available_for(request, cause)
        seen = LevelOutcome(choice.level, cause, why, probe=choice.probe)
        learned = self._learned.observe(host, choice.pattern, seen, available)
        higher = next_level(choice.level, cause, available)
        if higher is None:
            self._note_unavailable(host, choice.level, cause)
            return None
        if learned.rest_until > self._learned.clock():
            return None
        if choice.probe and rank(learned.level) > rank(higher) and learned.level in available:
            higher = learned.level
        if higher != BROWSER:
            return msgspec.structs.replace(request, escalated=higher)
        if setting := self._budget.spent(host):
            return _over_budget(setting) if cause is Cause.EMPTY_SHELL else None
        return self.move(request)

    def _available_for(self, request: Request, cause: Cause | None) -> Collection[str]:
        # A browser navigates; it cannot send a form, or what a user-made pool is for.
        if request.method != "GET" or request.body:
            return self._available - {BROWSER}
        # Another level may help against a block. An empty shell is filled by a browser or not at all.
        if cause is Cause.EMPTY_SHELL and BROWSER in self._allowed and self._waits_for_browser():
            return self._available | {BROWSER}
        return self._available

    def _note_unavailable(self, host: str, level: str, cause: Cause) -> None:
        if (
            cause is Cause.EMPTY_SHELL
            and level != BROWSER
            and host not in self._told
            and len(self._told) < 1_000
        ):
            self._told.add(host)
            why = (
                "crawl.levels forbids it" if BROWSER not in self._allowed else "no browser serves this crawl"
            )
            log.warning("level.unavailable", extra={"host": host, "level": BROWSER, "why": why})


def _over_budget(setting: str) -> Filtered:
    return Filtered(FailureClass.BUDGET, f"it needs a browser, and {setting} is used up")

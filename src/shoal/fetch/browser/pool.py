"""The browsers of a process: started when there are pages for them, replaced before they grow too large.

One browser serves `PAGES_PER_BROWSER` pages at once. It is replaced after `browser.browser_pages` pages, when
its processes use more than `browser.memory_bytes`, and when it has ended. A browser without pages is closed
after `browser.idle_s`.

All crawls of a process share the pool: the token that a browser context shows says which egress, and so which
guard and which exit, its traffic belongs to.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shoal.fetch.browser.cdp import BrowserGone, CommandFailed
from shoal.fetch.browser.chromium import Chromium, open_chromium
from shoal.fetch.browser.pages import WATCH_S, BrowserPages, Context
from shoal.fetch.egress.egress import Egress, accept_on
from shoal.fetch.egress.passes import Passes, PassLimits
from shoal.model.errors import Misconfigured
from shoal.model.exits.exit import ChosenExit
from shoal.model.settings import BrowserSettings

log = logging.getLogger(__name__)

PAGES_PER_BROWSER = 4


@dataclass(slots=True, eq=False)
class PageSlot:
    """The slot of one page among those that are rendered at once."""

    shared: bool = False  # another page was open at some time: what befell this one may be the other's fault


class BrowserPool:
    """Made by `open`. `passes` are those of every egress whose crawl uses these browsers."""

    def __init__(self, settings: BrowserSettings, group: asyncio.TaskGroup) -> None:
        self.settings = settings
        self.passes = Passes()
        self._group = group
        self._slots = asyncio.Semaphore(settings.pages)
        self._clearing = asyncio.Lock()  # two pages that each wait to be alone would wait for each other
        self._open_slots: set[PageSlot] = set()
        self._starting = asyncio.Lock()
        self._browsers: list[BrowserPages] = []
        self._has_worked = False

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: BrowserSettings) -> AsyncIterator["BrowserPool"]:
        """Start no browser before the first page; end all of them with the block."""
        raised: BaseException | None = None
        async with asyncio.TaskGroup() as group:
            pool = cls(settings, group)
            try:
                yield pool
            except BaseException as error:  # raised below: the task group would wrap it
                raised = error
            finally:
                for browser in pool._browsers:
                    browser.replace = "closing"
                    browser.active = 0
                    browser.wake.set()
        if raised is not None:
            raise raised

    @property
    def browsers(self) -> tuple[BrowserPages, ...]:
        """The browsers that run."""
        return tuple(self._browsers)

    @asynccontextmanager
    async def slot(self, *, alone: bool = False) -> AsyncIterator[PageSlot]:
        """Wait until one more page may be rendered; with `alone`, until no other one is."""
        async with AsyncExitStack() as stack:
            if alone:
                await stack.enter_async_context(self._clearing)
            for _ in range(self.settings.pages if alone else 1):
                await stack.enter_async_context(self._slots)
            slot = PageSlot(shared=bool(self._open_slots))
            for other in self._open_slots:
                other.shared = True
            self._open_slots.add(slot)
            stack.callback(self._open_slots.discard, slot)
            yield slot

    @asynccontextmanager
    async def page(
        self, key: Hashable, egress: Egress, via: ChosenExit | None, limits: PassLimits
    ) -> AsyncIterator[tuple[BrowserPages, Context]]:
        """Open a page in one of the browsers, which is started if all others are full.

        Raise `Misconfigured` if no browser can be started, `BrowserGone` if it ends before the page does.
        """
        browser = await self._choose(key)
        try:
            async with browser.page(key, egress, via, limits) as context:
                yield browser, context
        finally:
            browser.active -= 1
            browser.idle_since = time.monotonic()
            browser.wake.set()

    def forget(self, egress: Egress) -> None:
        """Dispose of what a crawl leaves behind."""
        for browser in self._browsers:
            browser.forget(egress)

    async def _choose(self, key: Hashable) -> BrowserPages:
        """Return a browser with room for one more page, and count that page; start one if needed."""
        async with self._starting:
            found = [one for one in self._browsers if self._has_room(one)]
            browser = next((one for one in found if one.has_context(key)), found[0] if found else None)
            if browser is None:
                started: asyncio.Future[BrowserPages] = asyncio.get_running_loop().create_future()
                self._group.create_task(self._run(started), name="browser")
                browser = await started
            browser.active += 1
            return browser

    @staticmethod
    def _has_room(browser: BrowserPages) -> bool:
        return browser.active < PAGES_PER_BROWSER and not browser.replace and not browser.has_ended

    async def _run(self, started: "asyncio.Future[BrowserPages]") -> None:
        """Run one browser until it is replaced, has ended or is no longer needed."""
        async with AsyncExitStack() as stack:
            try:
                chromium = await self._open(stack)
                if chromium.listener is not None:
                    await stack.enter_async_context(accept_on(chromium.listener, self.passes))
                browser = BrowserPages(chromium, self.settings)
                await browser.start()
            except Misconfigured as error:
                # One that has worked before fails for want of memory or the like: pages are tried again.
                _fail(started, BrowserGone(str(error)) if self._has_worked else error)
                return
            except (OSError, BrowserGone, CommandFailed) as error:  # TimeoutError is an OSError
                _fail(started, BrowserGone(f"the browser does not start: {error or 'no answer'}"))
                return
            except asyncio.CancelledError:
                started.cancel()
                raise
            self._has_worked = True
            self._browsers.append(browser)
            about = {"pid": chromium.pid, "version": chromium.version}
            log.info("browser.started", extra=about)
            if started.cancelled():
                browser.replace = "not needed"
            else:
                started.set_result(browser)
            try:
                async with asyncio.TaskGroup() as group:
                    memory = group.create_task(_watch_memory(browser), name="browser.memory")
                    await self._watch(browser)
                    memory.cancel()
            finally:
                self._browsers.remove(browser)
                log.info("browser.ended", extra={**about, "why": browser.replace or "it ended by itself"})

    async def _open(self, stack: AsyncExitStack) -> Chromium:
        """Start a browser; the first one twice, if need be: a kill while it starts must not end a crawl."""
        try:
            return await stack.enter_async_context(open_chromium(self.settings))
        except Misconfigured:
            if self._has_worked:
                raise
        return await stack.enter_async_context(open_chromium(self.settings))

    async def _watch(self, browser: BrowserPages) -> None:
        looked_at = time.monotonic()
        while not browser.has_ended and (browser.active or not browser.replace):
            if not browser.active and time.monotonic() - browser.idle_since > self.settings.idle_s:
                browser.replace = "no pages"
                return
            browser.wake.clear()
            try:
                async with asyncio.timeout(WATCH_S):
                    await browser.wake.wait()
            except TimeoutError:
                pass
            if browser.active and time.monotonic() - looked_at >= WATCH_S:
                looked_at = time.monotonic()
                await browser.watch()


async def _watch_memory(browser: BrowserPages) -> None:
    """Look at the memory of renderers until this is cancelled."""
    while True:  # noqa: ASYNC110 - no event says how much memory is used
        await asyncio.sleep(browser.watch_renderers())


def _fail(started: "asyncio.Future[BrowserPages]", error: Exception) -> None:
    if not started.done():  # the page that waits for it may have been cancelled
        started.set_exception(error)

"""The pages of one browser: their contexts, and the limits that are watched from outside of a page.

A browser context has separate cache, storage and cookies, and the token of its pass at the egress. It
serves one page at a time. It is kept for the next page of the same crawl, host and exit, up to
`browser.context_pages` pages or `browser.context_s` seconds; after any failure it is disposed of.

Cookies are those of the crawl's jar: before each page the context forgets its own.

The closer a renderer is to its memory limit, the more often its memory is measured: a page can fill some
gigabytes within a second, and must not get far beyond the limit in the meantime.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from shoal.fetch.browser.cdp import BrowserGone, CdpSession, CommandFailed, PageEnded
from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.process_memory import children_of, parent_of, private_memory, process_memory
from shoal.fetch.egress.egress import PRIMING_HOST, Egress
from shoal.fetch.egress.passes import EgressPass, PassLimits
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import MIB
from shoal.model.settings import BrowserSettings

log = logging.getLogger(__name__)

PRIME_S = 10.0
WATCH_S = 1.0
SHORTEST_LOOK_S = 0.01
GROWTH_BYTES_S = 4 << 30  # how fast a page may fill memory: a core writes about half of that
RECENT_S = 5.0  # a renderer that crashes so soon after it was killed was killed for its memory
MAX_IDLE = 8  # contexts that a browser keeps


@dataclass(slots=True, eq=False)
class Context:
    """A browser context, and the pass that its token belongs to."""

    id: str
    key: Hashable
    egress: Egress
    issued: EgressPass
    born: float  # monotonic
    pages: int = 0
    popups: int = 0  # of the page that is open
    target: str = ""  # that page
    session: CdpSession | None = None  # its session


class BrowserPages:
    """Opens pages in a browser that runs."""

    def __init__(self, chromium: Chromium, settings: BrowserSettings) -> None:
        self.chromium = chromium
        self.active = 0  # pages that are open or being opened
        self.replace = ""  # why no more pages are opened; empty: they are
        self._settings = settings
        self._browser = chromium.connection.browser
        self._opened = 0
        self._idle: list[Context] = []
        self._busy: dict[str, Context] = {}  # by id
        self._killed_at = -RECENT_S
        self._killed: set[int] = set()  # renderers that were sent SIGKILL and have not ended yet
        self._forked_by: set[int] = set()  # the processes whose children are renderers
        self.idle_since = time.monotonic()
        self.wake = asyncio.Event()  # a page was closed, or the browser is to end
        self._browser.on("Target.targetCreated", self._created)

    async def start(self) -> None:
        await self._browser.call("Target.setDiscoverTargets", discover=True)

    @property
    def has_ended(self) -> bool:
        return self.chromium.connection.closed.is_set()

    def has_context(self, key: Hashable) -> bool:
        return any(context.key == key for context in self._idle)

    @asynccontextmanager
    async def page(
        self, key: Hashable, egress: Egress, via: ChosenExit | None, limits: PassLimits
    ) -> AsyncIterator[Context]:
        """Open a page; the context is kept afterwards unless the block raises or clears `key`."""
        self._opened += 1
        if self._opened >= self._settings.browser_pages:
            self.replace = self.replace or f"{self._opened} pages"
        context = self._take(key) or await self._new_context(key, egress, via)
        keep = False
        try:
            self._busy[context.id] = context
            context.issued.limits = limits
            context.issued.start_page()
            await self._open_target(context)
            if not self._forked_by:
                await self.watch()
            yield context
            keep = context.key is not None
        finally:
            self._busy.pop(context.id, None)
            self._close_target(context)
            context.pages += 1
            if keep and not self._is_used_up(context):
                self._idle.append(context)
                if len(self._idle) > MAX_IDLE:
                    self._dispose(self._idle.pop(0))
            else:
                self._dispose(context)

    def forget(self, egress: Egress) -> None:
        """Dispose of the contexts that a crawl leaves behind."""
        for context in [one for one in self._idle if one.egress is egress]:
            self._idle.remove(context)
            self._dispose(context)

    # --- contexts --------------------------------------------------------------------------------

    def _take(self, key: Hashable) -> Context | None:
        for context in list(self._idle):
            if self._is_used_up(context):
                self._idle.remove(context)
                self._dispose(context)
            elif context.key == key:
                self._idle.remove(context)
                return context
        return None

    def _is_used_up(self, context: Context) -> bool:
        settings = self._settings
        return (
            context.pages >= settings.context_pages
            or time.monotonic() - context.born >= settings.context_s
            or context.issued.closed
        )

    async def _new_context(self, key: Hashable, egress: Egress, via: ChosenExit | None) -> Context:
        port = self.chromium.proxy_port or egress.port
        answer = await self._browser.call(
            "Target.createBrowserContext",
            proxyServer=f"http://127.0.0.1:{port}",
            proxyBypassList="<-loopback>",
            disposeOnDetach=True,
        )
        context = Context(answer["browserContextId"], key, egress, egress.issue(via), time.monotonic())
        try:
            await self._browser.call(
                "Browser.setDownloadBehavior", behavior="deny", browserContextId=context.id
            )
            await self._open_target(context)
            assert context.session is not None
            await _prime(context.session, context.issued)
        except BaseException:
            self._dispose(context)
            raise
        self._close_target(context)
        return context

    def _dispose(self, context: Context) -> None:
        context.egress.close(context.issued)
        self._browser.post("Target.disposeBrowserContext", browserContextId=context.id)

    async def _open_target(self, context: Context) -> None:
        context.popups = 0
        created = await self._browser.call(
            "Target.createTarget", url="about:blank", browserContextId=context.id
        )
        context.target = created["targetId"]
        attached = await self._browser.call("Target.attachToTarget", targetId=context.target, flatten=True)
        context.session = self.chromium.connection.session(attached["sessionId"])

    def _close_target(self, context: Context) -> None:
        if context.target:
            self._browser.post("Target.closeTarget", targetId=context.target)
        context.target, context.session = "", None

    def _created(self, event: Mapping[str, Any]) -> None:
        """Close a window that a page has opened, and the page itself if it opens more than it may."""
        info = event.get("targetInfo", {})
        context = self._busy.get(info.get("browserContextId", ""))
        if context is None or info.get("type") != "page" or not info.get("openerId"):
            return
        context.popups += 1
        self._browser.post("Target.closeTarget", targetId=info["targetId"])
        most = self._settings.popups
        if context.popups > most and context.session is not None:
            reason = f"it opened more than {most} windows (browser.popups)"
            context.session.fail(PageEnded(Failure(FailureClass.POISON, reason)))
            context.key = None
            self._browser.post("Target.disposeBrowserContext", browserContextId=context.id)

    # --- limits ----------------------------------------------------------------------------------

    def crash_reason(self) -> str:
        """Return why a renderer may have crashed just now."""
        if time.monotonic() - self._killed_at < RECENT_S:
            limit = self._settings.memory_bytes // MIB
            return f"it used more than {limit:,} MiB of memory (browser.memory_bytes)"
        return "its renderer has crashed"

    async def watch(self) -> None:
        """Look at all processes once: end renderers above the limit, or have the browser replaced."""
        try:
            answer = await self._browser.call("SystemInfo.getProcessInfo", timeout_s=10 * WATCH_S)
        except (CommandFailed, TimeoutError):
            self.replace = self.replace or "it does not answer"
            return
        except BrowserGone:
            return
        found = [(int(one["id"]), one.get("type")) for one in answer.get("processInfo", ())]
        used = {pid: process_memory(pid) for pid, _ in found}
        renderers = [pid for pid, kind in found if kind == "renderer"]
        if parents := {parent for pid in renderers if (parent := parent_of(pid))}:
            self._forked_by = parents
        for pid in renderers:
            if used[pid] > self._settings.memory_bytes:
                self._kill(pid, used[pid])
                used[pid] = 0
        if len(found) > self._settings.processes:
            self.replace = self.replace or f"{len(found)} processes"
        if sum(used.values()) > self._settings.memory_bytes:
            self.replace = self.replace or f"{sum(used.values()) // MIB} MiB of memory"

    def watch_renderers(self) -> float:
        """End renderers above the limit; return in how many seconds to look again.

        Asks the kernel alone, and not for what is shared between processes: `watch` does that once a second.
        """
        limit, most = self._settings.memory_bytes, 0
        running = [pid for parent in self._forked_by for pid in children_of(parent)]
        self._killed.intersection_update(running)  # the system may give the number of an ended one to another
        for pid in running:
            used = private_memory(pid)
            if used > limit:
                self._kill(pid, used)
            else:
                most = max(most, used)
        return next_look_s(limit - most)

    def _kill(self, pid: int, used: int) -> None:
        if pid in self._killed:  # it takes the system a while to free so much memory
            return
        self._killed.add(pid)
        self._killed_at = time.monotonic()
        log.warning("renderer.killed", extra={"pid": pid, "memory_mib": used // MIB})
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def next_look_s(room_bytes: int) -> float:
    """Return in how many seconds a process that may still use so many bytes has to be looked at again."""
    return min(max(room_bytes / GROWTH_BYTES_S, SHORTEST_LOOK_S), WATCH_S)


async def _prime(session: CdpSession, issued: EgressPass) -> None:
    """Teach a context the token of its pass.

    The browser asks for proxy credentials only for requests that match a pattern of `Fetch`, and remembers
    them for the context. So it visits a name that only the egress answers.
    """
    url = f"http://{PRIMING_HOST}/"

    def answer(event: Mapping[str, Any]) -> None:
        response = {"response": "CancelAuth"}
        if event["authChallenge"].get("source") == "Proxy":
            response = {"response": "ProvideCredentials", "username": issued.proxy_user, "password": "x"}
        session.post("Fetch.continueWithAuth", requestId=event["requestId"], authChallengeResponse=response)

    def send(event: Mapping[str, Any]) -> None:
        session.post("Fetch.continueRequest", requestId=event["requestId"])

    session.on("Fetch.authRequired", answer)
    session.on("Fetch.requestPaused", send)
    await session.call("Fetch.enable", handleAuthRequests=True, patterns=[{"urlPattern": f"{url}*"}])
    await session.call("Page.navigate", url=url, timeout_s=PRIME_S)

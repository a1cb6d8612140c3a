"""Render one page: navigate, wait, act, capture, within a deadline.

A page that never becomes idle is captured at the deadline, and marked. A page whose script does not stop is
interrupted, and fails. Every wait ends at the deadline; every command has a time limit as well, because a
crashed renderer answers nothing.

Only the page itself is requested here. A redirect of it, and a navigation that its scripts begin, lead to
another page: a separate request, with turn, scope and robots.txt. A reload is part of the page, and so is a
navigation on the same site that an action begins, which the spider has asked for.

Our own scripts run in an isolated world: those of the page cannot change what `querySelector` means.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urldefrag

import msgspec

from shoal.fetch.browser.cdp import CdpSession, CommandFailed, PageEnded, TargetGone
from shoal.fetch.browser.page_events import Hop, PageEvents
from shoal.fetch.browser.page_requests import PageRequests
from shoal.model.failure import Failure, FailureClass
from shoal.model.rendering import Action, Click, Fill, Rendering, ScrollToEnd, WaitFor
from shoal.model.settings import BrowserSettings

CAPTURE_S = 10.0  # for the DOM, the screenshot and the PDF, each
CAPTURE_TRIES = 5
ANSWER_S = 2.0  # for a page that is asked whether its script still runs
POLL_S = 0.02
QUIET_S = 0.1
BLOCKED_TYPES = ("Image", "Font", "Media")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_WITHOUT_BODY = frozenset({204, 205, 304})


class Download(msgspec.Struct, frozen=True):
    """The response is a file, which a browser does not show."""


class Capture(msgspec.Struct, frozen=True):
    """A page as the browser has it."""

    url: str
    document: Hop
    body: bytes  # of the main response, decoded; text in UTF-8
    is_text: bool = True  # the body was text: the browser has decoded its charset, too
    dom: str | None = None  # None: it is not HTML, or redirects
    console: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()  # which limits cut it short
    leads_to: str = ""
    screenshot: bytes = b""
    pdf: bytes = b""
    wire_bytes: int = 0


class MainRequest(msgspec.Struct, frozen=True):
    """The request for the page itself."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()  # besides cookies and the user agent
    cookies: tuple[tuple[str, str], ...] = ()
    user_agent: str = ""
    body: bytes = b""

    def overrides(self, browser: Mapping[str, str]) -> dict[str, Any]:
        """Return what is sent in place of what the browser would send."""
        own = {name.lower() for name, _ in self.headers}
        kept = [(name, value) for name, value in browser.items() if name.lower() not in own]
        headers = [{"name": name, "value": value} for name, value in (*kept, *self.headers)]
        changed: dict[str, Any] = {"headers": headers, "method": self.method}
        if self.body:
            changed["postData"] = base64.b64encode(self.body).decode()
        return changed


@dataclass(slots=True)
class PageRun:
    """One page of a browser, from the first command to the capture."""

    session: CdpSession
    events: PageEvents
    limits: BrowserSettings
    request: MainRequest
    rendering: Rendering
    crash_reason: Callable[[], str]
    requests: PageRequests
    start: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]  # runs what requests wait for
    partial: list[str] = field(default_factory=list)
    leads_to: str = ""
    had_no_time: bool = False  # its script did not stop in time, or the browser did not answer
    _workers: set[str] = field(default_factory=set)  # sessions of web workers that run
    _sent: bool = False  # the request for the page itself
    _acting: bool = False
    _world: tuple[int, int] = (-1, 0)  # number of navigations, and the isolated world since then

    async def prepare(self) -> None:
        """Switch on what is needed. The answers are awaited: a navigation loses what is on its way."""
        self.events.attach(self.session)
        self.session.on("Fetch.requestPaused", self._paused)
        self._watch_workers(self.session)
        await self.session.call_all(
            [
                *[(f"{domain}.enable", {}) for domain in ("Page", "Network", "Runtime", "Inspector")],
                # A service worker that one page installs would answer for later pages of its site.
                ("Network.setBypassServiceWorker", {"bypass": True}),
                ("Emulation.setUserAgentOverride", {"userAgent": self.request.user_agent}),
                ("Page.addScriptToEvaluateOnNewDocument", {"source": _WITHOUT_SERVICE_WORKERS}),
                ("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}),
                ("Target.setAutoAttach", _ATTACH),
            ]
        )

    def _watch_workers(self, session: CdpSession) -> None:
        """Count the web workers that a page starts, and end it above a limit: each may keep a core busy."""

        def attached(event: Mapping[str, Any]) -> None:
            if event["targetInfo"]["type"] in ("service_worker", "shared_worker"):
                return  # it stays as it is, stopped before its first line
            self._workers.add(event["sessionId"])
            if len(self._workers) > self.limits.workers:
                reason = f"it started more than {self.limits.workers} web workers (browser.workers)"
                self.session.fail(PageEnded(Failure(FailureClass.POISON, reason)))
                return
            worker = session.sibling(event["sessionId"])
            self._watch_workers(worker)
            worker.post("Target.setAutoAttach", **_ATTACH)
            worker.post("Runtime.runIfWaitingForDebugger")

        session.on("Target.attachedToTarget", attached)
        session.on("Target.detachedFromTarget", lambda event: self._workers.discard(event["sessionId"]))

    def _paused(self, event: Mapping[str, Any]) -> None:
        """Answer a request that waits; the browser's own answer does not matter."""
        request, post = event["requestId"], self.session.post
        kind = event.get("resourceType")
        if kind in BLOCKED_TYPES and not self.rendering.images:
            post("Fetch.failRequest", requestId=request, errorReason="BlockedByClient")
        elif kind != "Document" or event.get("frameId") != self.events.main_frame:
            self._ask(event, is_document=kind == "Document")
        elif not self._sent:
            self._sent = True
            changed = self.request.overrides(event["request"]["headers"])
            post("Fetch.continueRequest", requestId=request, **changed)
        elif self._may_navigate(event["request"], redirected="redirectedRequestId" in event):
            self._ask(event, is_document=True)
        else:
            post("Fetch.failRequest", requestId=request, errorReason="Aborted")

    def _ask(self, event: Mapping[str, Any], *, is_document: bool) -> None:
        """Continue a request besides that for the page itself when it may be sent."""

        def answer(admitted: bool) -> None:
            if admitted:
                self.session.post("Fetch.continueRequest", requestId=event["requestId"])
            else:
                self.session.post(
                    "Fetch.failRequest", requestId=event["requestId"], errorReason="BlockedByClient"
                )

        self.requests.submit(str(event["request"]["url"]), self.start, answer, is_document=is_document)

    def _may_navigate(self, request: Mapping[str, Any], *, redirected: bool) -> bool:
        """Return whether the main frame may load this; where it leads otherwise is remembered."""
        if self.events.redirects:
            return False
        url = urldefrag(str(request["url"]))[0]
        same = url == urldefrag(self.request.url)[0]
        if not redirected and (same or (self._acting and _origin(url) == _origin(self.request.url))):
            return self.events.navigations <= self.limits.navigations
        if request.get("method") == "GET":
            self.leads_to = self.leads_to or url
        return False

    async def run(self) -> Capture | Download | Failure:
        """Render the page, whose URL the guard has checked; return it, or why it cannot be had."""
        try:
            try:
                async with asyncio.timeout(self.limits.page_s):
                    if (ended := await self._load()) is not None:
                        return ended
            except TimeoutError:
                if not self.events.answered and not self.events.redirects:
                    reason = f"no response within {self.limits.page_s:.0f} s (browser.page_s)"
                    return Failure(FailureClass.TIMEOUT, reason)
                self.partial.append("deadline")
                if not await self._answers():
                    self.had_no_time = True
                    reason = f"its script did not stop within {self.limits.page_s:.0f} s (browser.page_s)"
                    return Failure(FailureClass.POISON, reason)
            return await self._capture()
        except TimeoutError:
            self.had_no_time = True
            return Failure(FailureClass.POISON, "the browser did not answer in time")
        except PageEnded as error:
            return error.failure
        except TargetGone:
            return Failure(FailureClass.RENDERER_CRASH, self.crash_reason())
        except CommandFailed as error:
            return Failure(FailureClass.PROTOCOL, f"the browser refused a command: {error}")

    async def _load(self) -> Capture | Download | Failure | None:
        """Wait until the page is complete; return how it ended if there is nothing to capture."""
        events = self.events
        answer = await self.session.call("Page.navigate", url=self.request.url, timeout_s=None)
        if events.redirects:
            hop = events.redirects[0]
            return Capture(hop.url, hop, b"", wire_bytes=events.wire_bytes)
        if answer.get("isDownload"):
            return Download()
        if error := answer.get("errorText"):
            if events.document is None:
                return Failure(_class_of_error(error), f"the browser could not load it: {error}")
            return await self._without_dom(events.document)
        # A page that navigates while it loads is never told that it has loaded.
        await self._until(lambda: events.loaded or (bool(self.leads_to) and events.quiet_for() > QUIET_S))
        await self._settle()
        self._acting = True
        for action in self.rendering.actions:
            await self._do(action)
            await self._settle()
        return None

    # --- waiting ---------------------------------------------------------------------------------

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.session.check()  # a page that has crashed sends no more events
            if self.events.navigations > self.limits.navigations:
                if "navigations" not in self.partial:
                    self.partial.append("navigations")
                return
            await asyncio.sleep(POLL_S)

    async def _settle(self) -> None:
        """Wait until the network has been quiet for `idle_ms`."""
        if idle_s := self.rendering.idle_ms / 1000:
            events = self.events
            await self._until(lambda: (events.loaded or bool(self.leads_to)) and events.quiet_for() >= idle_s)

    async def _answers(self) -> bool:
        """Return whether the page's script has ended, so that the DOM can be read; stop it otherwise."""
        try:
            await self.session.call("Runtime.evaluate", expression="1", timeout_s=ANSWER_S)
        except TimeoutError:
            await self.session.call("Runtime.terminateExecution", timeout_s=ANSWER_S)
            return False
        return True

    # --- actions ---------------------------------------------------------------------------------

    async def _do(self, action: Action) -> None:
        match action:
            case Click(selector):
                await self._until_true(_FOUND % json.dumps(selector))
                await self._evaluate(_CLICK % json.dumps(selector))
            case Fill(selector, text):
                await self._until_true(_FOUND % json.dumps(selector))
                await self._evaluate(_FILL % (json.dumps(selector), json.dumps(text)))
            case ScrollToEnd(times, pause_ms):
                await self._scroll(times, pause_ms / 1000)
            case WaitFor(selector, script, time_ms):
                if selector:
                    await self._until_true(_FOUND % json.dumps(selector))
                if script:
                    await self._until_true(script, isolated=False)
                until = monotonic() + time_ms / 1000
                await self._until(lambda: monotonic() >= until)

    async def _scroll(self, times: int, pause_s: float) -> None:
        height: object = None
        for _ in range(times):
            now = await self._evaluate(_SCROLL)
            if now == height:
                return
            height = now
            await asyncio.sleep(pause_s)
            await self._until(lambda: self.events.quiet_for() >= QUIET_S)

    async def _until_true(self, expression: str, *, isolated: bool = True) -> None:
        while not await self._evaluate(expression, isolated=isolated):  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(POLL_S)

    async def _evaluate(self, expression: str, *, isolated: bool = True) -> Any:
        params: dict[str, Any] = {"expression": expression, "returnByValue": True}
        if isolated:
            params["contextId"] = await self._isolated_world()
        answer = await self.session.call("Runtime.evaluate", timeout_s=self.limits.page_s, **params)
        if details := answer.get("exceptionDetails"):
            raise CommandFailed(str(details.get("exception", {}).get("description", details))[:300])
        return answer["result"].get("value")

    async def _isolated_world(self) -> int:
        navigations = self.events.navigations
        if self._world[0] != navigations:
            made = await self.session.call("Page.createIsolatedWorld", frameId=self.events.main_frame)
            self._world = navigations, made["executionContextId"]
        return self._world[1]

    # --- capture ---------------------------------------------------------------------------------

    async def _capture(self) -> Capture | Failure:
        """Capture the page; again if it reloads itself between two commands, which then fail."""
        tries = CAPTURE_TRIES
        while True:
            tries -= 1
            try:
                return await self._capture_once()
            except CommandFailed:
                if not tries:
                    raise

    async def _capture_once(self) -> Capture | Failure:
        events, call = self.events, self.session.call
        if events.document is None:
            return Failure(FailureClass.PROTOCOL, "the browser has no response for the page")
        if events.failed:
            return Failure(FailureClass.TRUNCATED, f"the response ended early: {events.failed}")
        if events.document.mime not in _HTML:
            return await self._without_dom(events.document)
        nodes = await self._evaluate(_COUNT)
        if not isinstance(nodes, int) or nodes > self.limits.nodes:
            reason = f"{nodes:,} elements (browser.nodes: {self.limits.nodes:,})"
            return Failure(FailureClass.TOO_LARGE, reason)
        root = (await call("DOM.getDocument", depth=0))["root"]["nodeId"]
        outer = await call("DOM.getOuterHTML", nodeId=root, includeShadowDOM=True, timeout_s=CAPTURE_S)
        dom = str(outer["outerHTML"])
        if len(dom) > self.limits.dom_bytes:
            return Failure(FailureClass.TOO_LARGE, f"a DOM of {len(dom):,} characters (browser.dom_bytes)")
        url = str(await self._evaluate("location.href"))
        body, _ = await self._main_body()
        return Capture(
            url=url,
            document=events.document,
            body=body,
            dom=dom,
            console=tuple(events.console),
            partial=tuple(self.partial),
            leads_to=self.leads_to,
            screenshot=await self._picture(self.rendering.screenshot, "Page.captureScreenshot", format="png"),
            pdf=await self._picture(self.rendering.pdf, "Page.printToPDF", printBackground=True),
            wire_bytes=events.wire_bytes,
        )

    async def _without_dom(self, document: Hop) -> Capture:
        """Return the main response alone: it is not HTML, or the browser shows its own error page."""
        body, is_text = b"", True
        if document.status not in _WITHOUT_BODY:
            body, is_text = await self._main_body()
        return Capture(document.url, document, body, is_text, wire_bytes=self.events.wire_bytes)

    async def _main_body(self) -> tuple[bytes, bool]:
        """Return the body of the main response, and whether it is text, in UTF-8 then."""
        try:
            answer = await self.session.call(
                "Network.getResponseBody", requestId=self.events.main_request, timeout_s=CAPTURE_S
            )
        except CommandFailed:  # it has no body, or the browser has dropped it
            return b"", True
        if answer.get("base64Encoded"):
            return base64.b64decode(answer["body"]), False
        return str(answer["body"]).encode(errors="replace"), True

    async def _picture(self, wanted: bool, method: str, **options: Any) -> bytes:
        if not wanted:
            return b""
        answer = await self.session.call(method, timeout_s=CAPTURE_S, **options)
        return base64.b64decode(answer["data"])


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3]).lower()


def _class_of_error(error: str) -> FailureClass:
    """Return the failure class of a network error of the browser."""
    for part, failure_class in _ERRORS:
        if part in error:
            return failure_class
    return FailureClass.CONNECT


_ERRORS: Sequence[tuple[str, FailureClass]] = (
    ("ERR_CERT", FailureClass.TLS),
    ("ERR_SSL", FailureClass.TLS),
    ("ERR_TIMED_OUT", FailureClass.TIMEOUT),
    ("ERR_TOO_MANY_REDIRECTS", FailureClass.REDIRECT),
    ("ERR_UNSAFE_REDIRECT", FailureClass.REDIRECT),
    ("ERR_NAME_NOT_RESOLVED", FailureClass.DNS),
    ("ERR_CONTENT_DECODING", FailureClass.DECODE),
    ("ERR_CONTENT_LENGTH_MISMATCH", FailureClass.TRUNCATED),
    ("ERR_INCOMPLETE_CHUNKED", FailureClass.TRUNCATED),
    ("ERR_EMPTY_RESPONSE", FailureClass.PROTOCOL),
    ("ERR_RESPONSE_HEADERS", FailureClass.PROTOCOL),
    ("ERR_INVALID", FailureClass.PROTOCOL),
    ("ERR_HTTP2", FailureClass.PROTOCOL),
)

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}

# A service worker outlives its page, and the browser does not ask about its requests. A page does without
# it, as in a private window.
_WITHOUT_SERVICE_WORKERS = "delete Navigator.prototype.serviceWorker"

# Methods of prototypes: a form whose field is named `querySelector` hides that of the document.
_FIND = "Document.prototype.querySelector.call(document, %s)"
_FOUND = f"!!{_FIND}"
_CLICK = f"HTMLElement.prototype.click.call({_FIND})"
_COUNT = "Document.prototype.getElementsByTagName.call(document, '*').length"
_FILL = f"""(() => {{
  const field = {_FIND};
  HTMLElement.prototype.focus.call(field);
  field.value = %s;
  field.dispatchEvent(new Event('input', {{bubbles: true}}));
  field.dispatchEvent(new Event('change', {{bubbles: true}}));
}})()"""
_SCROLL = """(() => {
  const before = document.scrollingElement ? document.scrollingElement.scrollHeight : 0;
  window.scrollTo(0, before);
  return before;
})()"""

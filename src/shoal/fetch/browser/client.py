"""A client that renders pages in Chromium, behind the contract of every client (`fetch.contract`).

All that the browser loads goes through the egress: the guard judges each connection, the exit of the request
is used, bytes are counted and bounded. The turn of a host is for the page itself, whose request the egress
holds until then; what the page loads is bounded by connections, bytes and time.

The body of a rendered page is its DOM as HTML, and `wire` is the main response as the browser tells it:
decoded, as UTF-8. A response that is not HTML is passed on as it is, and a download is fetched again by the
plain client.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from time import monotonic, time
from typing import Any, Protocol

import msgspec

from shoal.fetch.browser.cdp import BrowserGone, CommandFailed, TargetGone
from shoal.fetch.browser.page_events import PageEvents
from shoal.fetch.browser.page_requests import PageRequests, RequestRules
from shoal.fetch.browser.pages import Context
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.browser.render import Capture, Download, MainRequest, PageRun
from shoal.fetch.egress.egress import Egress
from shoal.fetch.egress.paced_request import PacedRequest
from shoal.fetch.egress.passes import EgressPass, PassLimits
from shoal.fetch.http.exit_dial import AddressResolver, resolve_allowed
from shoal.fetch.http.guard import Guard, Origin
from shoal.fetch.http.message import Headers
from shoal.fetch.http.own_limits import RETRY_S, OutOfSockets
from shoal.fetch.http.send_turn import KnownTurn, SendTurn
from shoal.model.exits.exit import ChosenExit
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Rendered, Response
from shoal.model.rendering import Rendering
from shoal.model.request import Request
from shoal.model.url import host_key

# Of the main response, which the browser has decoded.
_NOT_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_OF_THE_BROWSER = frozenset({"user-agent", "cookie", "host", "connection", "accept-encoding"})
NO_PASS = 407
MAX_COOKIES = 100
MAX_REMEMBERED = 10_000  # pages whose turn has not come
HELD_BACK_S = 2.0  # before a request whose turn is too far away is returned
TOO_FAR_S = 1.0  # a gate returns requests whose turn is further away than this to the frontier

log = logging.getLogger(__name__)


class Uncertain(msgspec.Struct, frozen=True):
    """A failure that may be the fault of another page: they share browsers, and the cores of the machine."""

    failure: Failure


class _Next(Enum):
    """What is left to do of a page that waits for another turn."""

    ALONE = "alone"  # something befell it beside others
    DOWNLOAD = "download"  # the browser does not show it


Answer = Response | Download | Failure | Uncertain | NotSent
Attempt = Callable[[], Awaitable[Answer]]


class PlainClient(Protocol):
    """The client that fetches what is not rendered: `fetch.contract.Client`."""

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers,
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent: ...


class BrowserClient:
    """Renders the pages of one crawl in the browsers of this process."""

    def __init__(
        self,
        pool: BrowserPool,
        egress: Egress,
        resolver: AddressResolver,
        guard: Guard,
        *,
        plain: PlainClient | None = None,
        rendering: Rendering | None = None,
        rules: RequestRules | None = None,
        session: bool = False,
    ) -> None:
        """`plain` fetches downloads; `rendering` is for requests that have none.

        With `session`, the pages of a host share cache and storage: else each has an empty one.
        `rules` pace what a page requests besides itself; without them, it is counted and bounded.
        """
        self._pool = pool
        self._egress = egress
        self._resolver = resolver
        self._guard = guard
        self._plain = plain
        self._rendering = rendering or Rendering()
        self._rules = rules
        self._session = session
        self._next: OrderedDict[str, _Next] = OrderedDict()  # by URL

    @classmethod
    @asynccontextmanager
    async def open(
        cls, pool: BrowserPool, egress: Egress, *args: Any, **options: Any
    ) -> AsyncIterator["BrowserClient"]:
        """Start no browser before the first page; dispose of what the pages leave behind."""
        try:
            yield cls(pool, egress, *args, **options)
        finally:
            pool.forget(egress)

    def of(self, request: Request) -> PlainClient:
        """Return the client for one request, with its waits and actions."""
        return self if request.render is None else _WithRendering(self, request.render)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None = None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        """Render a canonical URL. Return `NotSent` if the turn is too far away; then nothing was sent."""
        request = main_request(url, method, headers, body)
        return await self.render(request, self._rendering, limits=limits, turn=turn, via=via)

    async def render(
        self,
        request: MainRequest,
        rendering: Rendering,
        *,
        limits: FetchLimits,
        turn: SendTurn | None,
        via: ChosenExit | None,
    ) -> Response | Failure | NotSent:
        """Render a page; fetch it with the plain client if it is a download."""
        origin = self._guard.origin(request.url)
        if isinstance(origin, Failure):
            return origin
        if self._next.get(request.url) is _Next.DOWNLOAD:
            return await self._download(request, limits, turn, via)
        # Pages have used up turns of this host: it is cheaper to know that before a page is opened.
        if isinstance(turn, KnownTurn) and (wait := turn.known_wait()) > TOO_FAR_S:
            # Given up at once, the next page of the host would be leased for nothing, and the next one.
            await asyncio.sleep(min(wait - TOO_FAR_S, HELD_BACK_S))
            if (wait := turn.known_wait()) > TOO_FAR_S:
                return NotSent(wait)
        address = ""
        if via is None:
            try:
                addresses = await resolve_allowed(self._resolver, self._guard, origin.host)
            except OutOfSockets:
                return NotSent(RETRY_S)
            if isinstance(addresses, Failure):
                return addresses
            address = addresses[0]
        attempt = partial(
            self._attempt,
            request,
            rendering,
            turn=turn,
            via=via,
            address=address,
            origin=origin,
            limits=limits,
        )
        if self._next.get(request.url) is _Next.ALONE:
            answer = await self._alone(attempt, request.url)
        else:
            async with self._pool.slot() as slot:
                answer = await attempt()
            if slot.shared and isinstance(answer, Uncertain):
                log.info("page.rendered_alone", extra={"why": answer.failure.reason})
                answer = await self._alone(attempt, request.url)
        if isinstance(answer, Uncertain):
            return answer.failure
        if isinstance(answer, Download):
            return await self._download(request, limits, turn, via)
        return answer

    async def _alone(self, attempt: "Attempt", url: str) -> "Answer":
        """Render a page with no other one beside it: what befalls it now is its own fault.

        All slots are its own, so it waits for no turn that is far away: it is rendered alone when that comes.
        """
        async with self._pool.slot(alone=True):
            answer = await attempt()
        self._remember(url, _Next.ALONE if isinstance(answer, NotSent) else None)
        return answer

    async def _attempt(
        self,
        request: MainRequest,
        rendering: Rendering,
        *,
        turn: SendTurn | None,
        via: ChosenExit | None,
        address: str,
        origin: Origin,
        limits: FetchLimits,
    ) -> "Answer":
        # None: the context, with its connections, is for this page alone.
        own = (id(self._egress), host_key(request.url), "" if via is None else via.key)
        key = own if via is None or via.keep else None
        settings = self._pool.settings
        began = monotonic()
        try:
            async with self._pool.page(
                key, self._egress, via, PassLimits(down_bytes=settings.wire_bytes)
            ) as (browser, context):
                if not self._session:
                    context.key = None  # no other page gets it
                assert context.session is not None
                events = PageEvents(context.target, monotonic)
                paced = None if turn is None else PacedRequest(turn, origin.key)
                if paced is not None:
                    events.on_answer = paced.answered
                requests = PageRequests(
                    request.url,
                    self._guard,
                    settings.requests,
                    self._rules,
                    turn.interval if isinstance(turn, KnownTurn) else None,
                    context.issued.has_connection,
                )
                run = PageRun(
                    context.session,
                    events,
                    settings,
                    request,
                    rendering,
                    crash_reason=browser.crash_reason,
                    requests=requests,
                    start=self._egress.start,
                )
                await run.prepare()
                await _set_cookies(browser.chromium.connection.browser.call_all, context, request)
                began = monotonic()
                context.issued.paced, context.issued.requests = paced, requests
                try:
                    captured = await run.run()
                finally:
                    context.issued.paced = context.issued.requests = None
                    requests.close()
                requests.check()
                if turn is not None:
                    turn.timing.requests = requests.sent.total()
                if paced is not None:
                    began = paced.sent_at or began
                    if isinstance(captured, Failure) and paced.sent_at is None:
                        context.key = None
                        paced.check()
                        if paced.not_sent:
                            return NotSent(paced.not_sent)
                if has_lost_egress(captured):
                    context.key, browser.replace = None, "its connection to the egress was lost"
                    why = f"its browser was lost: {browser.replace}"
                    return Uncertain(Failure(FailureClass.HOLDER_LOST, why))
                cookies: tuple[str, ...] = ()
                if isinstance(captured, Capture):
                    cookies = await _new_cookies(context, request)
                else:
                    context.key = None  # nothing of it is used again
                issued = context.issued
        except (CommandFailed, TimeoutError, TargetGone) as error:
            why = f"the browser failed on it: {str(error) or 'it did not answer in time'}"
            return Uncertain(Failure(FailureClass.RENDERER_CRASH, why))
        except BrowserGone as error:
            return Uncertain(Failure(FailureClass.HOLDER_LOST, f"its browser was lost: {error}"))
        if isinstance(captured, Download):
            return captured
        # Plain http: the browser shows the egress's own answer as a page.
        if (lost := issued.lost.get(origin.authority)) is not None:
            return lost
        if isinstance(captured, Failure):
            told = told_by_egress(captured, issued)
            return Uncertain(told) if run.had_no_time and told is captured else told
        if failure := too_large(captured, issued, limits):
            return failure
        if turn is not None:
            turn.timing.wire_bytes, turn.timing.address = issued.down, address
        return response_of(
            request.url,
            captured,
            browser=browser.chromium.version,
            over=issued.over,
            incomplete=sorted(requests.partial),
            cookies=cookies,
            elapsed=monotonic() - began,
            address=address,
            via=via,
        )

    async def _download(
        self, request: MainRequest, limits: FetchLimits, turn: SendTurn | None, via: ChosenExit | None
    ) -> Response | Failure | NotSent:
        """Fetch what a browser does not render with the plain client, in a separate turn."""
        if self._plain is None:
            return Failure(FailureClass.TOO_LARGE, "a download, which a browser does not render")
        given = list(request.headers)
        if request.user_agent:
            given.append(("User-Agent", request.user_agent))
        if request.cookies:
            given.append(("Cookie", "; ".join(f"{name}={value}" for name, value in request.cookies)))
        exit_ = {} if via is None else {"via": via}
        answer = await self._plain.fetch(
            request.url,
            method=request.method,
            headers=tuple(given),
            body=request.body,
            limits=limits,
            turn=turn,
            **exit_,
        )
        self._remember(request.url, _Next.DOWNLOAD if isinstance(answer, NotSent) else None)
        return answer

    def _remember(self, url: str, how: "_Next | None") -> None:
        """Remember what is left to do of a page whose turn has not come; None: nothing."""
        self._next.pop(url, None)
        if how is not None:
            self._next[url] = how
            if len(self._next) > MAX_REMEMBERED:
                self._next.popitem(last=False)


class _WithRendering:
    """A client that renders with the waits and actions of one request."""

    def __init__(self, client: BrowserClient, rendering: Rendering) -> None:
        self._client = client
        self._rendering = rendering

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        limits: FetchLimits,
        turn: SendTurn | None = None,
        via: ChosenExit | None = None,
    ) -> Response | Failure | NotSent:
        request = main_request(url, method, headers, body)
        return await self._client.render(request, self._rendering, limits=limits, turn=turn, via=via)


def has_lost_egress(captured: Capture | Download | Failure) -> bool:
    """Return whether the browser cannot use the egress any more: its network service died and began anew.

    No answer of a site has status 407: the egress answers so, to a browser that does not know its pass.
    """
    if isinstance(captured, Failure):
        return "net::ERR_PROXY_CONNECTION_FAILED" in captured.reason
    return isinstance(captured, Capture) and captured.document.status == NO_PASS


def told_by_egress(failure: Failure, issued: EgressPass) -> Failure:
    """Return why a page failed: the egress saw the connection, the browser only its end.

    With several connections, what the egress noted last may be about something else that the page loads.
    """
    over = issued.over
    if over is None or (issued.hosts.total() > 1 and over.failure_class is not FailureClass.TOO_LARGE):
        return failure
    return over


def too_large(captured: Capture, issued: EgressPass, limits: FetchLimits) -> Failure | None:
    """Return the failure of a page whose main response is above a limit; None: it is complete.

    A response without a length that the egress has cut looks complete to the browser. What was cut is the
    main response if that is most of what the page may load, and else something that belongs to it.
    """
    over, size = issued.over, len(captured.body)
    if size > limits.body_bytes:
        return Failure(FailureClass.TOO_LARGE, f"{size:,} bytes of body (fetch.body_bytes)")
    cut = over is not None and over.failure_class is FailureClass.TOO_LARGE
    return over if cut and 2 * size > issued.limits.down_bytes else None


def main_request(url: str, method: str, headers: Headers, body: bytes) -> MainRequest:
    """Return the request for the page itself; its cookies become those of the browser context."""
    given = {name.lower(): value for name, value in headers}
    pairs = [one.strip().partition("=") for one in given.get("cookie", "").split(";") if one.strip()]
    return MainRequest(
        url,
        method,
        tuple((name, value) for name, value in headers if name.lower() not in _OF_THE_BROWSER),
        tuple((name, value) for name, _, value in pairs),
        given.get("user-agent", ""),
        body,
    )


def response_of(
    url: str,
    captured: Capture,
    *,
    browser: str,
    over: Failure | None,
    incomplete: Sequence[str],
    cookies: tuple[str, ...],
    elapsed: float,
    address: str,
    via: ChosenExit | None,
) -> Response:
    """Return the response for a page that was captured, with the headers as they hold for its body."""
    headers, replaced = body_headers(captured)
    rendered, body = None, captured.body
    if captured.dom is not None:
        body = captured.dom.encode(errors="replace")
        too_much = over is not None and over.failure_class is FailureClass.TOO_LARGE
        rendered = Rendered(
            _encodable(captured.url),
            captured.console,
            (*captured.partial, *incomplete, *(("bytes",) if too_much else ())),
            _encodable(captured.leads_to),
            tuple((name, _encodable(value)) for name, value in replaced),
            browser,
            captured.screenshot,
            captured.pdf,
        )
    return Response(
        url,
        captured.document.status,
        headers,
        body,
        captured.body,
        time(),
        elapsed,
        address,
        exit="" if via is None else via.name,
        rendered=rendered,
        set_cookies=cookies,
    )


def body_headers(captured: Capture) -> tuple[Headers, tuple[tuple[str, str], ...]]:
    """Return the headers that hold for the decoded body, and those that they replace."""
    kept, replaced = [], []
    for name, value in captured.document.headers:
        if name in _NOT_OF_THE_BODY:
            replaced.append((name, value))
        elif name == "content-type" and captured.is_text:
            replaced.append((name, value))
            kept.append((name, f"{value.partition(';')[0].strip()}; charset=utf-8"))
        elif name != "connection":  # the egress has written it
            kept.append((name, value))
    return tuple(kept), tuple(replaced)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded


async def _set_cookies(call_all: Any, context: Context, request: MainRequest) -> None:
    """Make the cookies of a context those of the request."""
    commands: list[tuple[str, Mapping[str, Any]]] = []
    if context.pages:
        commands.append(("Storage.clearCookies", {"browserContextId": context.id}))
    if request.cookies:
        secure = request.url.startswith("https:")
        wanted = [
            {"name": name, "value": value, "url": request.url, "path": "/", "secure": secure}
            for name, value in request.cookies
        ]
        commands.append(("Storage.setCookies", {"cookies": wanted, "browserContextId": context.id}))
    if commands:
        await call_all(commands)


async def _new_cookies(context: Context, request: MainRequest) -> tuple[str, ...]:
    """Return the cookies that the page has got, as Set-Cookie headers."""
    assert context.session is not None
    try:
        answer = await context.session.call("Network.getCookies", urls=[request.url])
    except CommandFailed:
        return ()
    sent = dict(request.cookies)
    found: Sequence[Mapping[str, Any]] = answer.get("cookies", ())
    changed = [one for one in found if sent.get(one["name"]) != one["value"]]
    return tuple(map(_set_cookie, changed[:MAX_COOKIES]))


def _set_cookie(cookie: Mapping[str, Any]) -> str:
    line = f"{cookie['name']}={cookie['value']}; Path={cookie.get('path', '/')}"
    if str(cookie.get("domain", "")).startswith("."):
        line += f"; Domain={cookie['domain']}"
    if not cookie.get("session") and (left := float(cookie.get("expires", 0)) - time()) > 0:
        line += f"; Max-Age={int(left)}"
    return line + ("; Secure" if cookie.get("secure") else "")

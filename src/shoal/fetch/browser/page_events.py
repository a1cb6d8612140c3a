"""What a page does while it loads, gathered from the browser's events: its main response and redirects, what
is still on the wire, console errors, navigations. Dialogs are answered at once: a page stands still until
then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fetch.browser.cdp import CdpSession

MAX_CONSOLE = 50
MAX_CONSOLE_CHARS = 500
# A page that listens for news has loaded, although these never end.
_STREAMS = frozenset({"EventSource", "WebSocket", "Ping", "Media"})


@dataclass(slots=True)
class Hop:
    """One response of the main frame."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    mime: str = ""


@dataclass(slots=True)
class PageEvents:
    """The state of one page, updated by events."""

    main_frame: str
    clock: Callable[[], float]
    asked: str = ""  # id of the latest request for a document
    main_request: str = ""  # id of the one that brought the document
    redirects: list[Hop] = field(default_factory=list)  # before the first document
    document: Hop | None = None
    answered: bool = False  # the main frame has had a response
    failed: str = ""  # why the document's body is not complete
    loaded: bool = False
    open_requests: set[str] = field(default_factory=set)
    quiet_since: float = 0.0
    navigations: int = 0
    console: list[str] = field(default_factory=list)
    wire_bytes: int = 0
    raw_headers: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # by request
    on_answer: Callable[[], None] = lambda: None  # called at the first response of the main frame
    _session: CdpSession | None = None

    def attach(self, session: CdpSession) -> None:
        """Update this state from the events of a session."""
        self._session = session
        for event, handler in {
            "Network.requestWillBeSent": self._request,
            "Network.responseReceived": self._response,
            "Network.responseReceivedExtraInfo": self._raw_headers,
            "Network.loadingFinished": self._finished,
            "Network.loadingFailed": self._finished,
            "Page.loadEventFired": self._loaded,
            "Page.frameNavigated": self._navigated,
            "Page.javascriptDialogOpening": self._dialog,
            "Runtime.exceptionThrown": self._exception,
            "Runtime.consoleAPICalled": self._console_call,
        }.items():
            session.on(event, handler)

    def quiet_for(self) -> float:
        """Return for how many seconds no request has been on the wire; 0.0: one is."""
        return 0.0 if self.open_requests else self.clock() - self.quiet_since

    def _request(self, event: Mapping[str, Any]) -> None:
        request = event["requestId"]
        if event.get("type") == "Document" and event.get("frameId") == self.main_frame:
            if event.get("redirectResponse") and not self.answered:
                self.redirects.append(self._hop_of(request, event["redirectResponse"]))
                self.on_answer()
            self.asked = request
        # The script of a worker belongs to no document; its end is an event of the worker.
        if event.get("type") not in _STREAMS and event.get("loaderId"):
            self.open_requests.add(request)

    def _response(self, event: Mapping[str, Any]) -> None:
        if event["requestId"] == self.asked:
            self.main_request, self.failed = self.asked, ""
            self.document = self._hop_of(event["requestId"], event["response"])
            if not self.answered:
                self.answered = True
                self.on_answer()

    def _raw_headers(self, event: Mapping[str, Any]) -> None:
        """Take the headers as the server sent them, before or after the response's own event."""
        if event["requestId"] != self.asked:
            return
        if "headersText" in event:
            headers = parse_head(event["headersText"])
        else:
            headers = _pairs(event.get("headers", {}))
        if self.document is not None and self.main_request == self.asked:
            self.document.headers = headers
        else:
            self.raw_headers[event["requestId"]] = headers

    def _hop_of(self, request: str, response: Mapping[str, Any]) -> Hop:
        """Return a response, with its raw headers if they have come: the event itself hides Set-Cookie."""
        hop = _hop(response)
        hop.headers = self.raw_headers.pop(request, hop.headers)
        return hop

    def _finished(self, event: Mapping[str, Any]) -> None:
        self.wire_bytes += int(event.get("encodedDataLength") or 0)
        self.open_requests.discard(event["requestId"])
        if event["requestId"] == self.main_request and event.get("errorText"):
            self.failed = str(event["errorText"])
        if not self.open_requests:
            self.quiet_since = self.clock()

    def _loaded(self, _: Mapping[str, Any]) -> None:
        self.loaded = True

    def _navigated(self, event: Mapping[str, Any]) -> None:
        if not event["frame"].get("parentId"):
            self.navigations += 1
            self.loaded = False

    def _dialog(self, event: Mapping[str, Any]) -> None:
        assert self._session is not None
        self._session.post("Page.handleJavaScriptDialog", accept=event.get("type") == "beforeunload")

    def _exception(self, event: Mapping[str, Any]) -> None:
        details = event.get("exceptionDetails", {})
        text = (details.get("exception") or {}).get("description") or details.get("text", "")
        self._log(f"error: {text}")

    def _console_call(self, event: Mapping[str, Any]) -> None:
        if event.get("type") in ("error", "assert"):
            parts = [str(one.get("value", one.get("description", ""))) for one in event.get("args", ())]
            self._log(f"console.{event['type']}: {' '.join(parts)}")

    def _log(self, line: str) -> None:
        if len(self.console) < MAX_CONSOLE:
            self.console.append(line[:MAX_CONSOLE_CHARS].encode("utf-8", "replace").decode())


def _hop(response: Mapping[str, Any]) -> Hop:
    text = response.get("headersText")
    headers = parse_head(text) if text else _pairs(response.get("headers", {}))
    mime = str(response.get("mimeType", "")).lower()
    return Hop(response.get("url", ""), int(response.get("status", 0)), headers, mime)


def _pairs(headers: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.lower(), value)
        for name, values in headers.items()
        for value in str(values).split("\n")  # repeats are joined by line breaks
    )


def parse_head(text: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a raw head, names in lower case, order and repeats kept."""
    lines = text.replace("\r\n", "\n").split("\n")[1:]
    pairs = (line.partition(":") for line in lines if ":" in line)
    return tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)

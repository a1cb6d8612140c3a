"""Run a spider's handler on one page, and encode the items and links that it yields.

All or nothing: the result has everything that the handler yielded, or a fault and nothing else. An exception
in the handler is a fault, and so is an item that cannot be written. Exceptions that must end the process are
passed on: `OutputTooLarge`, `MemoryError`, `SystemExit`. An `on_error` hook runs the same way.
"""

import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import GeneratorType

from msgspec.structs import replace

import shoal
from shoal.model.errors import Bomb, Rejected
from shoal.model.failure import FailureClass
from shoal.model.limits import ParseLimits
from shoal.model.page import Item, ParseFault, ParseResult, ParseTask
from shoal.model.request import MAX_NAME_BYTES, Request, pack
from shoal.model.scope import Scope
from shoal.model.traps.simhash import SAMPLE
from shoal.model.traps.text_digest import SAMPLE as TEXT_SAMPLE
from shoal.model.traps.text_digest import text_digest
from shoal.model.traps.url_pattern import pattern_of
from shoal.model.url import canonical, fingerprint_of, identity
from shoal.spider.failed import FailedRequest
from shoal.spider.html.link_priority import link_priority
from shoal.spider.html.links import Links
from shoal.spider.items import encode_item, is_item, rejected_item
from shoal.spider.page import Page
from shoal.spider.spider import SITEMAP, Route, Spider, max_link_bytes, max_links
from shoal.spider.text.content_type import ContentKind

_PACKAGE = str(Path(shoal.__file__).parent)
_TRACEBACK_CHARS = 4000
_REASON_CHARS = 500


class OutputTooLarge(Exception):
    """The handler yielded more than `ParseLimits` allow. The process that ran it must end."""


def run(spider: Spider, task: ParseTask, *, scope: Scope, limits: ParseLimits | None = None) -> ParseResult:
    """Run the handler of a page and return its items and links.

    Links that this spider object has already returned under the same `scope` are left out (`SeenLinks`).
    """
    began = time.process_time()
    if task.judge_only:
        rule = scope.refuse(task.url, task.request.depth)
        return ParseResult(task.id, dropped={rule: 1} if rule else {}, cpu=time.process_time() - began)
    try:
        output = _run_handler(spider, task, scope, limits or ParseLimits())
    except (MemoryError, OutputTooLarge):
        raise
    except Exception as error:
        return ParseResult(task.id, fault=_fault(error), cpu=time.process_time() - began)
    if not output.watched:
        spider.seen_links.add(output.urls)
    return ParseResult(
        task.id,
        tuple(output.items),
        tuple(output.requests.values()),
        output.dropped,
        output.repeats,
        cpu=time.process_time() - began,
        rejected=tuple(output.rejected),
        simhash=output.simhash,
        text_digest=output.text_digest,
        withheld=output.withheld,
        partial=output.partial,
    )


def _run_handler(spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits) -> "HandlerOutput":
    output = HandlerOutput(spider, task, scope, limits)
    subject: Page | FailedRequest
    if task.final_failure is not None:
        route = spider.hooks.get(task.final_failure.failure_class)
        subject = FailedRequest.of(task)
    else:
        route = spider.route_for(task.request, task.url)
        subject = Page(task, obey_nofollow=scope.obey_nofollow, link_resolver=spider.link_resolver)
        if subject.kind is ContentKind.BINARY and route is not None and not route.binary:
            return output
    if route is None:
        return output
    for one in _call(route, subject):
        if isinstance(one, Request):
            output.add_request(one)
        elif isinstance(one, Links):
            output.add_links(one)
        elif one is not None:
            output.add_item(one, route)
    if isinstance(subject, Page):
        output.partial = _encodable(subject.partial[:_REASON_CHARS])
        output.add_simhash(subject)
        output.add_text_digest(subject)
        if scope.canonical_only:
            output.defer_to(subject.canonical)
    return output


def _call(route: Route, subject: Page | FailedRequest) -> Iterable[object]:
    """Call the handler and return an iterable of what it yields or returns."""
    returned = route.handler(subject)
    if isinstance(returned, GeneratorType):  # nearly every handler is a generator: the cheapest check first
        return returned
    if returned is None or isinstance(returned, Request | Links) or is_item(returned):
        return (returned,)
    if isinstance(returned, Iterable) and not isinstance(returned, str | bytes):
        return returned
    raise Rejected(
        f"handler {route.name}: it must yield items and requests, but returned a {type(returned).__name__}"
    )


class HandlerOutput:
    """The items and links that a handler has yielded so far for one page."""

    def __init__(self, spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits) -> None:
        self.items: list[Item] = []
        self.rejected: list[Item] = []
        self.requests: dict[tuple[str, str, bytes], bytes] = {}  # packed, by what identifies them
        self.urls: set[str] = set()  # canonical URLs of the links that are plain GET requests
        self.dropped: dict[FailureClass, int] = {}
        self.repeats = 0
        self.simhash: int | None = None
        self.text_digest: int | None = None
        self.withheld = 0
        self.partial = ""
        self.watched = False  # for near-duplicates: its links may yet be dropped, so they are not seen
        self._seen_links = spider.seen_links
        self._seen_links.use(scope)
        self._scope = scope
        self._limits = limits
        self._max_links = max_links(scope.limits, task.request.route)
        self._max_link_bytes = max_link_bytes(scope.limits, task.request.route)
        self._link_bytes = 0
        self._fingerprint = task.fingerprint
        self._request = task.request
        self._final = task.final_failure
        self._key_prefix = ""
        self._url = task.url
        # Pages often link to themselves, mostly as canonical. This page needs no second request.
        self._own_url = task.url if task.request.method == "GET" and not task.request.body else ""
        self._depth = task.request.depth + 1
        self._bytes = 0

    def add_links(self, links: Links) -> None:
        """Add the links of a page that are new and in scope. Known ones are not even made into requests."""
        if self._scope.admits_nothing:
            return
        unseen = self._seen_links.unseen(links.urls)
        self.repeats += len(links.urls) - len(unseen)
        for url in unseen:
            if url == self._own_url:
                self.repeats += 1
            elif url not in self.urls and self._admits(url, self._depth):
                self.urls.add(url)
                self._add(links.request(url, depth=self._depth, found_on=self._fingerprint))

    def add_request(self, request: Request) -> None:
        """Add one request, unless it is known or out of scope."""
        url = request.url
        is_plain_get = request.method == "GET" and not request.body
        if is_plain_get:
            if url in self._seen_links.recent or not self._seen_links.unseen([url]):
                self.repeats += 1
                return
            if url in self.urls:
                return
        address = canonical(url)
        # A sitemap in a sitemap index need not match `follow`, just as a seed need not.
        if not self._admits(address, 0 if request.route == SITEMAP else self._depth):
            return
        if is_plain_get:
            self.urls.add(address)
        request = replace(request, url=address, depth=self._depth, found_on=self._fingerprint)
        self._add(request if request.method.isupper() else replace(request, method=request.method.upper()))

    def _admits(self, url: str, depth: int) -> bool:
        rule = self._scope.refuse(url, depth)
        full = len(self.requests) >= self._max_links or self._link_bytes >= self._max_link_bytes
        if rule is None and full:
            rule = FailureClass.TRAP
        if rule is not None:
            self.dropped[rule] = self.dropped.get(rule, 0) + 1
        return rule is None

    def _add(self, request: Request) -> None:
        try:
            packed = pack(request)
        except (TypeError, ValueError, RecursionError) as error:
            raise Rejected(f"request for {request.url}: it cannot be stored: {error}") from None
        if len(request.pool.encode()) > MAX_NAME_BYTES:
            raise Rejected(f"request for {request.url}: a pool has at most {MAX_NAME_BYTES} bytes")
        self.requests.setdefault((request.method, identity(request.url), request.body), packed)
        self._link_bytes += len(packed)
        self._count(len(packed))

    def add_item(self, value: object, route: Route) -> None:
        """Check an item against its model, encode it and compute its key."""
        number = len(self.items) + len(self.rejected)
        if number >= self._limits.items:
            raise OutputTooLarge(f"more than {self._limits.items} items")
        if not is_item(value):
            raise Rejected(
                f"item {number + 1}: a handler yields items and requests, not a {type(value).__name__}"
            )
        default_key = f"{self._item_key_prefix()}-{number}"
        target = self.items
        try:
            checked = value if route.check is None else route.check(value)
            item = encode_item(checked, route.key, default_key, self._scope.item_keys)
        except Rejected as error:
            if route.check is None:
                raise Rejected(f"item {number + 1}: {error}") from None
            item, target = rejected_item(self._url, str(error), value, default_key), self.rejected
        target.append(item)
        self._count(len(item.json))

    def _item_key_prefix(self) -> str:
        """Return what the keys of items without key fields start with.

        It is unkeyed, unlike the fingerprint: the next crawl of the same page overwrites its items in a
        database. The items of a hook get other keys than those of the page, which may yet be fetched.
        """
        if not self._key_prefix:
            request, final = self._request, self._final
            identified = fingerprint_of(request.method, request.url, request.body)
            self._key_prefix = f"{identified:016x}" + (f"-{final.failure_class}" if final else "")
        return self._key_prefix

    def defer_to(self, canonical: str | None) -> None:
        """Drop the items and follow the canonical URL instead, if that is another page in scope."""
        if canonical is None or canonical == self._url:
            return
        if self._scope.refuse(canonical, self._depth) is None:
            self.withheld = len(self.items)
            self.items.clear()
            self.add_request(Request(url=canonical, priority=link_priority(canonical)))

    def add_simhash(self, page: Page) -> None:
        """Hash the page if it takes part in near-duplicate detection.

        That is one page in `SAMPLE`, and every page of a watched pattern.
        """
        scope = self._scope
        self.watched = bool(scope.watched_patterns) and pattern_of(self._url) in scope.watched_patterns
        limit = scope.limits.near_duplicates
        if self.watched or (limit and not self._fingerprint % SAMPLE):
            self.simhash = page.simhash()

    def add_text_digest(self, page: Page) -> None:
        """Digest the text of one page in a few, of those that bring new links."""
        if self.requests and self._scope.limits.identical_pages and not self._fingerprint % TEXT_SAMPLE:
            self.text_digest = text_digest(page.body)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.output_bytes:
            raise OutputTooLarge(f"more than {self._limits.output_bytes} bytes of items and links")


def _fault(error: Exception) -> ParseFault:
    """Return the fault for an exception: one line, and a traceback of the spider's own frames."""
    try:
        text = str(error)
    except Exception:  # __str__ of a user's exception is user code
        text = "(its text cannot be shown)"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_PACKAGE)
    ]
    reason = text if isinstance(error, Rejected) else f"{type(error).__name__}: {text}"
    if frames:
        reason += f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
    detail = "".join(traceback.format_list(frames))
    failure_class = FailureClass.BOMB if isinstance(error, Bomb) else FailureClass.PARSE_ERROR
    return ParseFault(
        _encodable(" ".join(reason.split())[:_REASON_CHARS]),
        _encodable(detail[-_TRACEBACK_CHARS:]),
        failure_class,
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded

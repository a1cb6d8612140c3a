"""Run a spider's handler on one page, and encode the items and links that it yields.

All or nothing: the result has everything that the handler yielded, or a fault and nothing else. An exception
in the handler is a fault, and so is an item that cannot be written. Exceptions that must end the process are
passed on: `OutputTooLarge`, `MemoryError`, `SystemExit`. An `on_error` hook runs the same way.
"""

import re
import sysconfig
import time
import traceback
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from types import GeneratorType

from msgspec.structs import replace

import shoal
from shoal.model.errors import Blocked, Bomb, Rejected
from shoal.model.failure import FailureClass
from shoal.model.generations.all_links import AllLinks, pack_all, pack_free
from shoal.model.limits import ParseLimits
from shoal.model.page import (
    MAX_SKIPPED,
    HandlerReport,
    Item,
    PageEvidence,
    ParseFault,
    ParseResult,
    ParseTask,
)
from shoal.model.rendering import Rendering
from shoal.model.request import (
    MAX_NAME_BYTES,
    Request,
    pack,
    returnable,
    via_of,
    with_rendering,
    without_digits,
)
from shoal.model.scope import Scope
from shoal.model.traps.page_evidence import SAMPLE, page_evidence
from shoal.model.traps.simhash import SAMPLE as SIMHASH_SAMPLE
from shoal.model.traps.url_pattern import shape_of_url
from shoal.model.url import (
    CREDENTIALS,
    canonical,
    fingerprint_of,
    has_credentials,
    identity,
)
from shoal.model.yields.counts import LOGIN, count_name
from shoal.spider.failed import FailedRequest
from shoal.spider.html.link_priority import link_priority
from shoal.spider.html.links import Links
from shoal.spider.item_hooks import Drop, add_reason, drop_reason, run_item_hooks
from shoal.spider.items import encode_record, is_item, json_record, rejected_item
from shoal.spider.page import Page
from shoal.spider.spider import SITEMAP, Route, Spider, max_link_bytes, max_links
from shoal.spider.text.content_type import ContentKind

_LOG_IN_URL = re.compile(r"log[-_]?in|log[-_]?on|sign[-_]?in|auth|session", re.IGNORECASE)
_PASSWORD_FIELD = re.compile(rb"""type\s*=\s*["']?password""", re.IGNORECASE)
_PACKAGE = str(Path(shoal.__file__).parent)
_LIBRARIES = (
    "<frozen ",
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)
_TRACEBACK_CHARS = 4000
_REASON_CHARS = 500
_MAX_QUERIES = 200  # of one page that are reported
DUPLICATE = "duplicate"  # instead of a rule: a link that this process has already returned


class OutputTooLarge(Exception):
    """The handler yielded more than `ParseLimits` allow. The process that ran it must end."""


def run(spider: Spider, task: ParseTask, *, scope: Scope, limits: ParseLimits | None = None) -> ParseResult:
    """Run the handler of a page and return its items and links.

    Links that this spider object has already returned under the same `scope` are left out (`SeenLinks`).
    """
    began = time.process_time()
    if task.route_only:
        taken = spider.takes(task.request, task.url, task.status)
        return ParseResult(
            task.id, dropped={} if taken else {FailureClass.SCOPE: 1}, cpu=time.process_time() - began
        )
    if task.judge_only:
        rule = scope.refuse(task.url, task.request.depth)
        return ParseResult(task.id, dropped={rule: 1} if rule else {}, cpu=time.process_time() - began)
    if scope.explain:
        return _explained(spider, task, scope, limits)
    try:
        output = _run_handler(spider, task, scope, limits or ParseLimits())
    except (MemoryError, OutputTooLarge):
        raise
    except Exception as error:
        return ParseResult(task.id, fault=_fault(error), cpu=time.process_time() - began)
    spider.seen_links.add(output.urls)
    return ParseResult(
        task.id,
        tuple(output.items),
        tuple(output.requests.values()),
        output.dropped,
        output.repeats,
        cpu=time.process_time() - began,
        rejected=tuple(output.rejected),
        evidence=output.evidence,
        withheld=output.withheld,
        partial=output.partial,
        skipped=tuple(output.skipped),
        discarded=output.discarded,
        all_links=output.all_links(),
        counts=output.counts,
    )


def _explained(spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits | None) -> ParseResult:
    from shoal.spider.query_watch import watch_queries

    began = time.monotonic()
    with watch_queries() as queries:
        result = run(spider, task, scope=replace(scope, explain=False), limits=limits)
    seconds = time.monotonic() - began
    try:
        route = spider.route_for(task.request, task.url)
    except Rejected:
        route = None
    named = {
        _encodable(query[:_REASON_CHARS]): count for query, count in islice(queries.items(), _MAX_QUERIES)
    }
    report = HandlerReport(_encodable(route.name) if route else "", seconds, named)
    return replace(result, report=report)


def _run_handler(spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits) -> "HandlerOutput":
    output = HandlerOutput(spider, task, scope, limits)
    subject: Page | FailedRequest
    if task.final_failure is not None:
        route = spider.hooks.get(task.final_failure.failure_class)
        subject = FailedRequest.of(task)
    else:
        route = spider.route_for(task.request, task.url, task.status)
        subject = Page(
            task,
            obey_nofollow=scope.obey_nofollow,
            link_resolver=spider.link_resolver,
            knows_found_on=spider.found_on,
        )
        if task.blocked_if and subject.kind is not ContentKind.BINARY:
            _require_no_block(subject, task.blocked_if)
        if subject.kind is ContentKind.BINARY and route is not None and not route.binary:
            return output
    if route is None:
        return output
    spider.item_counts.begin(route.name)
    for one in _call(route, subject):
        if isinstance(one, Request):
            output.add_request(one)
        elif isinstance(one, Links):
            output.add_links(one)
        elif one is not None:
            output.add_item(one, route, subject)
    if isinstance(subject, Page):
        output.partial = _encodable(subject.partial[:_REASON_CHARS])
        output.add_evidence(subject)
        if scope.canonical_only:
            output.defer_to(subject.canonical)
    output.counts = spider.item_counts.take()
    if route is not None and isinstance(subject, Page) and shows_log_in_form(subject, task):
        output.counts[count_name(LOGIN, route.name)] = 1
    if output.withheld:
        output.counts = {}
    return output


def _require_no_block(page: Page, rules: Iterable[tuple[str, ...]]) -> None:
    """Raise `Blocked` if the page has an element for every selector of a rule."""
    for selectors in rules:
        if all(page.css(selector) for selector in selectors):
            raise Blocked(f"blocked_if: {' and '.join(f'selector: {one}' for one in selectors)}")


def shows_log_in_form(page: Page, task: ParseTask) -> bool:
    """Return whether the answer to a form, or what it redirected to, is a form that asks for a password."""
    request = task.request
    if request.method != "POST" and not (request.chain and _LOG_IN_URL.search(task.url)):
        return False
    return page.kind is ContentKind.HTML and _PASSWORD_FIELD.search(page.body) is not None


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
        self.requests: dict[tuple[str, str, bytes, str], bytes] = {}  # packed, by what identifies them
        self.urls: set[str] = set()  # canonical URLs of the links that are plain GET requests
        self.dropped: dict[FailureClass, int] = {}
        self.repeats = 0
        self.skipped: list[tuple[str, str]] = []  # links that are not followed, with the rule; for a log
        self.evidence: PageEvidence | None = None
        self.withheld = 0
        self.partial = ""
        self.discarded: dict[str, int] = {}  # items that hooks dropped, by reason
        self.counts: dict[str, int] = {}  # of items and filled fields
        self._describes_pages = spider.describes_pages
        self._item_hooks = spider.item_hooks
        self._found_on_url = task.url if spider.found_on else ""
        self._seen_links = spider.seen_links
        self._seen_links.use(scope)
        self._item_counts = spider.item_counts
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
        self._of_series = without_digits(task.request.url)
        self._via = via_of(task.request)
        self._returnable = returnable(task.request)
        self._bytes = 0
        # In order, each once. A rendered page may lead to other links the next time.
        self._keeps_links = scope.all_links and not task.rendered
        self._all_urls: dict[str, None] = {}
        self._all_packed: dict[bytes, None] = {}  # of links that need more than their URL
        self._rendering = spider.render or (Rendering() if scope.render else None)

    def add_links(self, links: Links) -> None:
        """Add the links of a page that are new and in scope. Known ones are not even made into requests."""
        if self._scope.admits_nothing:
            return
        unseen = self._seen_links.unseen(links.urls)
        self.repeats += len(links.urls) - len(unseen)
        if self._scope.name_skipped:
            new = set(unseen)
            self._name_skipped((url for url in links.urls if url not in new), DUPLICATE)
        for url in self._returnable:
            if url in links.urls:
                self.add_request(links.request(url, depth=self._depth, found_on=self._fingerprint))
        refused = list[str]()
        for url in unseen:
            if url == self._own_url:
                self.repeats += 1
            elif url not in self.urls:
                if not self._admits(url, self._depth):
                    refused.append(url)
                    continue
                self.urls.add(url)
                request = links.request(
                    url, depth=self._depth, found_on=self._fingerprint, series=self._series_to(url)
                )
                if self._via or self._found_on_url:
                    request = replace(request, via=self._via, found_on_url=self._found_on_url)
                self._add(request)
        if self._keeps_links:
            self._record_links(links, refused)

    def add_request(self, request: Request) -> None:
        """Add one request, unless it is known or out of scope."""
        url = request.url
        repeatable = bool(request.again or request.unique)
        is_plain_get = request.method == "GET" and not request.body and not repeatable
        returned = is_plain_get and bool(self._returnable) and canonical(url) in self._returnable
        if is_plain_get and not returned:
            if url in self._seen_links.recent or not self._seen_links.unseen([url]):
                self.repeats += 1
                self._record(request, canonical(url))
                self._name_skipped((url,), DUPLICATE)
                return
            if url in self.urls:
                return
        address = canonical(url)
        if has_credentials(url):
            raise Rejected(f"request for {address}: {CREDENTIALS}")
        # A sitemap in a sitemap index need not match `follow`, just as a seed need not.
        if not self._admits(address, 0 if request.route == SITEMAP else self._depth):
            return
        if repeatable and self._request.again >= self._scope.limits.again:
            self._drop(FailureClass.TRAP, address)
            return
        # Every URL in there is one that the scope admits as a link: `_record_links` relies on it.
        if is_plain_get and (request.route != SITEMAP or self._scope.refuse(address, self._depth) is None):
            self.urls.add(address)
        request = replace(
            request,
            url=address,
            method=request.method if request.method.isupper() else request.method.upper(),
            depth=self._depth,
            found_on=self._fingerprint,
            found_on_url=self._found_on_url,
            via=self._via,
            series=self._series_to(address),
            returned=returned,
            again=self._request.again + 1 if repeatable else 0,
            # Of the page that asks: parsed again after a crash, it asks for the same request.
            unique=request.unique or (f"again {self._fingerprint:016x}" if repeatable else ""),
        )
        self._add(request)
        self._record(request, address)

    def _record_links(self, links: Links, refused: Sequence[str]) -> None:
        """Record all links of a page that are in scope, new or not; `refused`: those that were not added.

        The others are in scope, unless they are too deep: links that were seen before have been admitted.
        """
        if links.may_be_secret:
            self._keeps_links = False
            return
        if self._scope.depth is not None and self._depth > self._scope.depth:
            return
        # A refused link may be in scope, if the page has more links than are followed.
        outside = {url for url in refused if self._scope.refuse(url, self._depth) is not None}
        kept = dict.fromkeys(links.urls)
        for url in (self._own_url, *outside):
            kept.pop(url, None)
        urls = list(kept)[: self._links_left()]
        if links.plain and not self._found_on_url and self._rendering is None:
            self._all_urls.update(dict.fromkeys(urls))
        else:
            self._all_packed.update((self._pack_free(links.request(url)), None) for url in urls)

    def _series_to(self, url: str) -> int:
        return self._request.series + 1 if without_digits(url) == self._of_series else 0

    def _links_left(self) -> int:
        return self._max_links - len(self._all_urls) - len(self._all_packed)

    def _pack_free(self, request: Request) -> bytes:
        """Pack a link without what depends on the page; the address of the page stays, if it is wanted."""
        return pack_free(with_rendering(replace(request, found_on_url=self._found_on_url), self._rendering))

    def _record(self, request: Request, address: str) -> None:
        """Record one link, new or not. Headers and bodies may be secret: then no link of the page is."""
        if not self._keeps_links:
            return
        if request.headers or request.body:
            self._keeps_links = False
            return
        rule = self._scope.refuse(address, 0 if request.route == SITEMAP else self._depth)
        if rule is None and self._links_left() > 0:
            self._all_packed[self._pack_free(replace(request, url=address))] = None

    def all_links(self) -> bytes:
        """Return all links of the page, packed; empty: they must not be stored, or are not wanted."""
        if not self._keeps_links or self._final is not None:
            return b""
        return pack_all(AllLinks(list(self._all_urls), list(self._all_packed)))

    def _admits(self, url: str, depth: int) -> bool:
        rule = self._scope.refuse(url, depth)
        full = len(self.requests) >= self._max_links or self._link_bytes >= self._max_link_bytes
        if rule is None and full:
            rule = FailureClass.TRAP
        if rule is not None:
            self._drop(rule, url)
        return rule is None

    def _drop(self, rule: FailureClass, url: str) -> None:
        self.dropped[rule] = self.dropped.get(rule, 0) + 1
        self._name_skipped((url,), rule.value)

    def _name_skipped(self, urls: Iterable[str], rule: str) -> None:
        if self._scope.name_skipped:
            room = MAX_SKIPPED - len(self.skipped)
            self.skipped += [(_encodable(url), rule) for url in islice(urls, room)]

    def _add(self, request: Request) -> None:
        if self._rendering is not None:
            request = with_rendering(request, self._rendering)
        try:
            packed = pack(request)
        except (TypeError, ValueError, RecursionError) as error:
            raise Rejected(f"request for {request.url}: it cannot be stored: {error}") from None
        for field in ("pool", "exit_kind", "country", "level"):
            if len(getattr(request, field).encode()) > MAX_NAME_BYTES:
                raise Rejected(f"request for {request.url}: {field} has at most {MAX_NAME_BYTES} bytes")
        key = (request.method, identity(request.url), request.body, request.unique)
        self.requests.setdefault(key, packed)
        self._link_bytes += len(packed)
        self._count(len(packed))

    def add_item(self, value: object, route: Route, subject: Page | FailedRequest) -> None:
        """Pass an item to the item hooks, check it against its model, encode it and compute its key."""
        # Dropped items are counted as well: hooks do not change the keys of other items.
        number = len(self.items) + len(self.rejected) + sum(self.discarded.values())
        if number >= self._limits.items:
            raise OutputTooLarge(f"more than {self._limits.items} items")
        if not is_item(value):
            raise Rejected(
                f"item {number + 1}: a handler yields items and requests, not a {type(value).__name__}"
            )
        if self._item_hooks:
            try:
                value = run_item_hooks(self._item_hooks, value, subject)
            except Drop as drop:
                add_reason(self.discarded, drop_reason(drop))
                return
        default_key = f"{self._item_key_prefix()}-{number}"
        target = self.items
        try:
            checked = value if route.check is None else route.check(value)
            record = json_record(checked)
            item = encode_record(record, route.key, default_key, self._scope.item_keys)
        except Rejected as error:
            if route.check is None:
                raise Rejected(f"item {number + 1}: {error}") from None
            item, target = rejected_item(self._url, str(error), value, default_key), self.rejected
        else:
            self._item_counts.add(route.name, record)
        target.append(item)
        self._count(len(item.json))

    def _item_key_prefix(self) -> str:
        """Return what the keys of items without key fields start with.

        It is unkeyed, unlike the fingerprint: the next crawl of the same page overwrites its items in a
        database. The items of a hook get other keys than those of the page, which may yet be fetched.
        """
        if not self._key_prefix:
            request, final = self._request, self._final
            identified = fingerprint_of(request.method, request.url, request.body, unique=request.unique)
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

    def add_evidence(self, page: Page) -> None:
        """Digest one page in a few, of those that bring new links, and every page of a watched shape."""
        # The same page may be asked for often with `unique`, and is then no trap.
        if not self.requests or not self._scope.limits.nothing_new or self._request.unique:
            return
        shapes = self._scope.watched_shapes
        watched = bool(shapes) and shape_of_url(self._url) in shapes
        if not watched and self._fingerprint % SAMPLE:
            return
        hashed = watched or not self._fingerprint % SIMHASH_SAMPLE
        canonical = page.canonical
        self.evidence = page_evidence(
            self._url,
            page.body,
            items=() if self._describes_pages else [item.json for item in self.items],
            canonical="" if canonical is None or canonical == self._url else canonical,
            simhash=page.simhash() or 0 if hashed else None,
        )

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
    detail = ""
    if frames:
        own = own_frame(frames)
        place = f"{Path(own.filename).name}:{own.lineno}"
        reason += f" ({place})"
        # Without the columns: a screen is narrower than most lines, and markers below them would not fit.
        plain = [(frame.filename, frame.lineno or 0, frame.name, frame.line) for frame in frames]
        calls = "".join(traceback.StackSummary.from_list(plain).format())
        if len(calls) > _TRACEBACK_CHARS:  # the innermost calls matter most
            calls = f"  ...\n{calls[-_TRACEBACK_CHARS:].partition(chr(10))[2]}"
        last = f"{type(error).__name__}: {' '.join(text.split())}"[:_REASON_CHARS]
        detail = f"{place} in {own.name}: {own.line}\nTraceback (most recent call last):\n{calls}{last}"
    failure_class = FailureClass.PARSE_ERROR
    if isinstance(error, Bomb | Blocked):
        failure_class = FailureClass.BOMB if isinstance(error, Bomb) else FailureClass.ANTI_BOT
    return ParseFault(_encodable(" ".join(reason.split())[:_REASON_CHARS]), _encodable(detail), failure_class)


def own_frame(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary:
    """Return the innermost call in the user's code, or else in a library."""
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return (own or frames)[-1]


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded

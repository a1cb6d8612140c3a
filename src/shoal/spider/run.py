"""One page through one spider: its handler runs to the end, and what it yielded is made ready to be stored.

All or nothing: a page gives everything that its handler made of it, or a fault and nothing. What a handler
raises and an item that cannot be written are faults. What ends a process passes through: `Overflow`,
`MemoryError`, `SystemExit` and their like. A request that was given up goes through its hook the same way.
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
from shoal.model.request import Link, Request
from shoal.model.scope import Scope
from shoal.model.simhash import SAMPLE
from shoal.model.url import canonical
from shoal.model.url_pattern import pattern_of
from shoal.spider.failed import FailedRequest
from shoal.spider.html.link_priority import rank
from shoal.spider.html.links import Links
from shoal.spider.items import encoded, is_item, rejected
from shoal.spider.page import Page
from shoal.spider.spider import SITEMAP, Route, Spider
from shoal.spider.text.content_type import ContentKind

_OURS = str(Path(shoal.__file__).parent)
_DETAIL = 4000  # characters kept of a traceback
_LISTED = 50_000  # links taken from a sitemap: what the protocol allows


class Overflow(Exception):
    """A page yields more than any page may: whoever runs its handler must not go on with it."""


def run(spider: Spider, task: ParseTask, *, scope: Scope, limits: ParseLimits | None = None) -> ParseResult:
    """Run the handler of a page. `memory.Memory` says what becomes of links that were handed over before."""
    began = time.process_time()
    try:
        harvest = _harvest(spider, task, scope, limits or ParseLimits())
    except (MemoryError, Overflow):
        raise
    except Exception as error:
        return ParseResult(task.id, fault=_fault(error), cpu=time.process_time() - began)
    if not harvest.suspicious:
        spider.memory.note(harvest.urls)
    return ParseResult(
        task.id,
        tuple(harvest.items),
        tuple(harvest.links.values()),
        {rule.value: count for rule, count in harvest.dropped.items()},
        harvest.repeats,
        cpu=time.process_time() - began,
        rejected=tuple(harvest.rejected),
        simhash=harvest.simhash,
        withheld=harvest.withheld,
    )


def _harvest(spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits) -> "Harvest":
    harvest = Harvest(spider, task, scope, limits)
    subject: Page | FailedRequest
    if task.given_up is not None:
        route = spider.hooks.get(task.given_up.kind)
        subject = FailedRequest.of(task)
    else:
        route = spider.route_for(task.request, task.url)
        subject = Page(task, obey_nofollow=scope.obey_nofollow, destinations=spider.destinations)
        if subject.kind is ContentKind.BINARY and route is not None and not route.binary:
            return harvest
    if route is None:
        return harvest
    for one in _yielded(route, subject):
        if isinstance(one, Request):
            harvest.follow(one)
        elif isinstance(one, Links):
            harvest.follow_all(one)
        elif one is not None:
            harvest.keep(one, route)
    if isinstance(subject, Page):
        harvest.compare(subject)
        if scope.canonical_only:
            harvest.defer_to(subject.canonical)
    return harvest


def _yielded(route: Route, subject: Page | FailedRequest) -> Iterable[object]:
    made = route.handler(subject)
    if isinstance(made, GeneratorType):  # nearly every handler makes one, and it is told at once
        return made
    if made is None or isinstance(made, Request | Links) or is_item(made):
        return (made,)
    if isinstance(made, Iterable) and not isinstance(made, str | bytes):
        return made
    raise Rejected(
        f"handler {route.name}: it must yield items and requests, not return a {type(made).__name__}"
    )


class Harvest:
    """What one page has yielded so far."""

    def __init__(self, spider: Spider, task: ParseTask, scope: Scope, limits: ParseLimits) -> None:
        self.items: list[Item] = []
        self.rejected: list[Item] = []
        self.links: dict[int, Link] = {}
        self.urls: set[str] = set()  # canonical, of those links that can be told by their URL alone
        self.dropped: dict[FailureClass, int] = {}
        self.repeats = 0
        self.simhash: int | None = None
        self.withheld = 0
        self.suspicious = False  # the links may be dropped later on: they must not count as handed over
        self._memory = spider.memory
        self._memory.enter(scope)
        self._scope = scope
        self._limits = limits
        listing = task.request.route == SITEMAP
        self._most = max(scope.limits.per_page, _LISTED) if listing else scope.limits.per_page
        self._fingerprint = task.fingerprint
        # What a hook makes of a request must not pass for what its page yields once it is replayed.
        self._origin = f"{task.fingerprint:016x}" + (f"-{task.given_up.kind}" if task.given_up else "")
        self._url = task.url
        # Pages link to themselves, above all as canonical; what we have in hand needs no request.
        self._own = task.url if task.request.method == "GET" and not task.request.body else ""
        self._depth = task.request.depth + 1
        self._bytes = 0

    def follow_all(self, links: Links) -> None:
        """Take in the links of a page, without making requests of those that are known."""
        if self._scope.shut:
            return
        fresh = self._memory.unknown(links.urls)
        self.repeats += len(links.urls) - len(fresh)
        for url in fresh:
            if url == self._own:
                self.repeats += 1
            elif url not in self.urls and self._admits(url, self._depth):
                self.urls.add(url)
                self._add(links.request(url, depth=self._depth, found_on=self._fingerprint))

    def follow(self, request: Request) -> None:
        """Take in a request: pack it, unless it is known, or refused by the scope."""
        url = request.url
        simple = request.method == "GET" and not request.body
        if simple:
            if url in self._memory.recent or not self._memory.unknown([url]):
                self.repeats += 1
                return
            if url in self.urls:
                return
        address = canonical(url)
        # A sitemap that an index lists need not match `follow`, no more than a seed does.
        if not self._admits(address, 0 if request.route == SITEMAP else self._depth):
            return
        if simple:
            self.urls.add(address)
        request = replace(request, url=address, depth=self._depth, found_on=self._fingerprint)
        self._add(request if request.method.isupper() else replace(request, method=request.method.upper()))

    def _admits(self, url: str, depth: int) -> bool:
        rule = self._scope.refuse(url, depth)
        if rule is None and len(self.links) >= self._most:
            rule = FailureClass.TRAP
        if rule is not None:
            self.dropped[rule] = self.dropped.get(rule, 0) + 1
        return rule is None

    def _add(self, request: Request) -> None:
        try:
            link = Link.to(request)
        except TypeError as error:
            raise Rejected(f"request for {request.url}: it cannot be stored: {error}") from None
        self.links.setdefault(link.fingerprint, link)
        self._count(len(link.packed))

    def keep(self, value: object, route: Route) -> None:
        """Take in an item: check it, encode it and give it its key."""
        number = len(self.items) + len(self.rejected)
        if number >= self._limits.items:
            raise Overflow(f"more than {self._limits.items} items")
        if not is_item(value):
            raise Rejected(
                f"item {number + 1}: a handler yields items and requests, not a {type(value).__name__}"
            )
        fallback = f"{self._origin}-{number}"
        kept = self.items
        try:
            item = encoded(value if route.check is None else route.check(value), route.key, fallback)
        except Rejected as error:
            if route.check is None:
                raise Rejected(f"item {number + 1}: {error}") from None
            item, kept = rejected(self._url, str(error), value, fallback), self.rejected
        kept.append(item)
        self._count(len(item.json))

    def defer_to(self, canonical: str | None) -> None:
        """Leave the items to the page that this one calls its canonical version, if that is in scope."""
        if canonical is None or canonical == self._url:
            return
        if self._scope.refuse(canonical, self._depth) is None:
            self.withheld = len(self.items)
            self.items.clear()
            self.follow(Request(url=canonical, priority=rank(canonical)))

    def compare(self, page: Page) -> None:
        """Hash a page that is to be compared with others: one in a few, and all of a watched pattern."""
        scope = self._scope
        self.suspicious = bool(scope.lookalikes) and pattern_of(self._url) in scope.lookalikes
        if self.suspicious or (scope.limits.lookalikes and not self._fingerprint % SAMPLE):
            self.simhash = page.simhash()

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.output_bytes:
            raise Overflow(f"more than {self._limits.output_bytes} bytes of items and links")


def _fault(error: Exception) -> ParseFault:
    """Tell what went wrong: on one line for the counters, and by the spider's own lines for its author."""
    try:
        text = str(error)
    except Exception:  # even that is user code
        text = "(its text cannot be shown)"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)
    ]
    reason = text if isinstance(error, Rejected) else f"{type(error).__name__}: {text}"
    if frames:
        reason += f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
    detail = "".join(traceback.format_list(frames))
    kind = FailureClass.BOMB if isinstance(error, Bomb) else FailureClass.PARSE_ERROR
    return ParseFault(_sound(" ".join(reason.split())[:500]), _sound(detail[-_DETAIL:]), kind)


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent

"""The current scope of a running crawl, and the links that it admits.

A parse child judges the links of its pages first, so that most of them are never sent. It runs user code, so
the parent does not rely on that: it unpacks every request, computes its host and fingerprint, and asks the
scope again. Only the regular expression of `follow` is left to the child, which has a time limit. Therefore
the target of a redirect is sent to a child, if there is such an expression.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.all_links import unpack_all, unpack_free
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import Link, Request, pack, returnable, unpack, via_of, without_digits
from shoal.model.scope import Scope
from shoal.model.url import canonical, host_key
from shoal.parse.pool import Poisoned
from shoal.spider.html.link_priority import link_priority
from shoal.spider.spider import SITEMAP, max_link_bytes, max_links

MAX_CARRIED = 100_000  # links that are remembered; the frontier knows the others


class Children(Protocol):
    """The part of the parse pool that takes a scope."""

    def configure(self, scope: Scope) -> None: ...
    async def watch(self) -> None: ...
    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult | Poisoned], None]) -> None: ...


class ScopeState:
    """The scope that parse children and redirects follow; a seed that redirects to another host adds it."""

    def __init__(self, scope: Scope, children: Children, key: bytes = b"") -> None:
        self._children = children
        self._key = key  # of the crawl's fingerprints
        self._carried: set[str | bytes] = set()  # links of unchanged pages that were queued lately
        self._set(scope)

    @property
    def children(self) -> Children:
        return self._children

    @property
    def hosts(self) -> frozenset[str] | None:
        return self._scope.hosts

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Return the rule other than `follow` that refuses a redirect's target.

        A seed may redirect to any host.
        """
        if depth == 0:
            self.admit(host_key(url))
        return self._scope.refuse_address(url, depth)

    async def refuse_target(self, target: Request, status: int) -> Failure | None:
        """Return why a redirect's target that `refuse` admits is not followed: `follow` does not match it."""
        if target.returned or not self._scope.must_match(target.depth):
            return None
        task = ParseTask(0, 0, target, target.url, status, (), b"", 0.0, judge_only=True)
        result = await self._ask(task)
        if isinstance(result, Poisoned):
            reason = f"redirects to {target.url}, which `follow` cannot judge: {result.reason}"
            return Failure(FailureClass.POISON, reason, status)
        if not result.dropped:
            return None
        return Failure(FailureClass.SCOPE, f"redirects to {target.url}", status)

    async def takes(self, request: Request, url: str, status: int) -> bool:
        """Return whether a handler of the spider takes a page of this URL and status."""
        task = ParseTask(0, 0, request, url, status, (), b"", 0.0, route_only=True)
        result = await self._ask(task)
        return isinstance(result, ParseResult) and result.fault is None and not result.dropped

    async def _ask(self, task: ParseTask) -> ParseResult | Poisoned:
        answered: asyncio.Future[ParseResult | Poisoned] = asyncio.get_running_loop().create_future()

        def answer(result: ParseResult | Poisoned) -> None:
            if not answered.done():  # the attempt was cancelled
                answered.set_result(result)

        self._children.submit(task, answer)
        return await answered

    def link(self, request: Request) -> Link:
        """Return the link to a request that this process has made."""
        return Link.to(request, self._key)

    def links_of(self, packed: Sequence[bytes], *, found_on: int, page: Request) -> tuple[Link, ...]:
        """Return the links that a parse child has found on a page.

        Raises `Rejected` if one of them cannot be what a child finds: then nothing of the page can be used.
        """
        if len(packed) > max_links(self._scope.limits, page.route):
            raise Rejected(f"{len(packed)} links")
        if sum(map(len, packed[:-1])) >= max_link_bytes(self._scope.limits, page.route):
            raise Rejected(f"{sum(map(len, packed))} bytes of links")
        return tuple([self._link_of(one, found_on, page) for one in packed])

    def carried_links(self, packed: bytes, *, found_on: int, page: Request) -> tuple[tuple[Link, ...], int]:
        """Return the links that an unchanged page had (`all_links`), and how many were left out.

        Like the links of parse children, each comes once: most are on many pages. Links that are out of scope
        by now are left out. Raises `Rejected` if they cannot be links of the page.
        """
        limits = self._scope.limits
        links = unpack_all(packed, limit=4 * max_link_bytes(limits, page.route))
        if len(links) > max_links(limits, page.route):
            raise Rejected(f"{len(links)} links")
        if len(self._carried) > MAX_CARRIED:
            self._carried.clear()
        found = []
        depth = page.depth + 1
        for url in [url for url in links.urls if url not in self._carried]:
            self._carried.add(url)
            address = canonical(url)
            if self._scope.refuse_address(address, depth) is None:
                priority, via = link_priority(address), via_of(page)
                alike = without_digits(address) == without_digits(page.url)
                request = Request(
                    url=address,
                    priority=priority,
                    depth=depth,
                    found_on=found_on,
                    via=via,
                    series=page.series + 1 if alike else 0,
                )
                found.append(self._checked_link(request, pack(request), found_on, page))
        for packed_link in [link for link in links.packed if link not in self._carried]:
            self._carried.add(packed_link)
            request = unpack_free(packed_link, depth=depth, found_on=found_on, via=via_of(page))
            if self._scope.refuse_address(request.url, 0 if request.route == SITEMAP else depth) is None:
                found.append(self._checked_link(request, pack(request), found_on, page))
        return tuple(found), len(links) - len(found)

    def _link_of(self, packed: bytes, found_on: int, page: Request) -> Link:
        try:
            request = unpack(packed)
        except msgspec.DecodeError as error:
            raise Rejected(f"not a request: {error}") from None
        return self._checked_link(request, packed, found_on, page)

    def _checked_link(self, request: Request, packed: bytes, found_on: int, page: Request) -> Link:
        """Return the link to a request; raise `Rejected` if the page cannot have yielded it."""
        link = Link.to(request, self._key, packed)
        url = request.url if link.packed is packed else unpack(link.packed).url
        depth = page.depth + 1
        if request.depth != depth or request.found_on != found_on or request.chain:
            raise Rejected(f"{url[:200]}: depth and origin are not those of the page")
        if request.via != via_of(page) or (request.returned and url not in returnable(page)):
            raise Rejected(f"{url[:200]}: no redirect of the page led there")
        if request.again != (page.again + 1 if request.unique else 0):
            raise Rejected(f"{url[:200]}: not counted as a request that is made again")
        if request.again > self._scope.limits.again:
            raise Rejected(f"{url[:200]}: more than {self._scope.limits.again} requests again in a row")
        rule = self._scope.refuse_address(url, 0 if request.route == SITEMAP else depth)
        if rule is not None:
            raise Rejected(f"{url[:200]}: refused by the rule {rule.value!r}")
        return link

    def admit(self, *others: str) -> None:
        """Add hosts to the scope."""
        hosts = self._scope.hosts
        if hosts is not None and not hosts.issuperset(others):
            self._set(msgspec.structs.replace(self._scope, hosts=hosts.union(others)))

    def watch_shapes(self, *shapes: str) -> None:
        """Have the parse children digest every page of these shapes."""
        watched = self._scope.watched_shapes.union(shapes)
        if watched != self._scope.watched_shapes:
            self._set(msgspec.structs.replace(self._scope, watched_shapes=watched))

    def forget_sent_links(self) -> None:
        """Make the parse children send links again that they have sent before: some of them were dropped."""
        self._carried.clear()
        self._children.configure(self._scope)

    def _set(self, scope: Scope) -> None:
        self._scope = scope
        self._carried.clear()
        self._children.configure(scope)

"""Admission: whether a URL belongs to the crawl. Pure, and cheap enough to check for every link."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.request import MAX_NAME_BYTES
from shoal.model.url import host_key

if TYPE_CHECKING:
    from shoal.model.settings import CrawlSettings

_SCHEMES = frozenset({"http:", "https:"})


ITEM_KEYS = "item_keys"
"""Name of the value in a crawl's state: the scheme of its item keys. Crawls without it have plain ones."""


class KeyScheme(StrEnum):
    """How the key of an item is made of its key fields. A crawl keeps the scheme that it was started with."""

    PLAIN = "plain"  # different values can have the same key
    INJECTIVE = "injective"

    @classmethod
    def load(cls, stored: bytes | None) -> "KeyScheme":
        """Return the scheme in the state of a crawl."""
        return cls.PLAIN if stored is None else cls(stored.decode())


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a crawl that parse children receive: which links to admit, how to make item keys."""

    hosts: frozenset[str] | None = None  # host keys; None: any host
    domains: tuple[str, ...] = ()  # ".example.org": its subdomains too, if `hosts` is set
    follow: str = ""  # regular expression that must match somewhere in a link's URL
    depth: int | None = None
    obey_nofollow: bool = True  # rel=nofollow, <meta name=robots>, X-Robots-Tag
    render: bool = False  # requests for pages go to the pool that renders them
    canonical_only: bool = False  # drop items of pages whose canonical URL is another one in scope
    limits: LinkLimits = LinkLimits()
    item_keys: KeyScheme = KeyScheme.INJECTIVE
    watched_patterns: frozenset[str] = frozenset()  # patterns whose pages are all hashed and compared
    name_skipped: bool = False  # return the links that are not followed, for a log
    explain: bool = False  # return which handler ran and what its queries matched
    all_links: bool = False  # also return all links of each page, for the next generation

    @classmethod
    def of(
        cls,
        settings: "CrawlSettings",
        seeds: Iterable[str],
        *,
        hosts: Iterable[str] = (),
        limits: LinkLimits | None = None,
    ) -> "Scope":
        """Return the scope of a crawl.

        Its hosts are `hosts` ("*.a.org": all subdomains of a.org), else those of the `seeds`, which are
        canonical URLs.
        """
        named = [host.lower() for host in hosts]
        return cls(
            hosts=frozenset(named or map(host_key, seeds)) if named or settings.same_host else None,
            domains=tuple(host[1:] for host in named if host.startswith("*.")),
            follow=settings.follow,
            depth=settings.depth,
            obey_nofollow=settings.robots,
            render=settings.render,
            canonical_only=settings.canonical_only,
            limits=limits or LinkLimits(),
        )

    @property
    def admits_nothing(self) -> bool:
        """Whether no link can be admitted, so that there is no need to search for links."""
        return self.hosts is not None and not self.hosts and not self.domains

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Return the rule that filters a canonical URL, or None if it is admitted.

        Only a parse child may call this: `follow` is a regular expression of the user, and may take any time.
        """
        rule = self.refuse_address(url, depth)
        if rule is None and self.must_match(depth) and not _searcher(self.follow)(url):
            return FailureClass.SCOPE
        return rule

    def must_match(self, depth: int) -> bool:
        """Return whether URLs of this depth must match `follow`. Seeds (depth 0): the operator named them."""
        return bool(self.follow) and depth > 0

    def refuse_address(self, url: str, depth: int) -> FailureClass | None:
        """Return what `refuse` does without `follow`; it takes a microsecond."""
        parts = url.split("/", 3)  # scheme, nothing, host, path
        if parts[0] not in _SCHEMES:
            return FailureClass.SCOPE
        if self.hosts is not None and parts[2] not in self.hosts and not parts[2].endswith(self.domains):
            return FailureClass.SCOPE
        if self.depth is not None and depth > self.depth:
            return FailureClass.DEPTH
        limits = self.limits
        if len(url) > limits.url_bytes or len(parts[2]) > MAX_NAME_BYTES:
            return FailureClass.TRAP
        # Most paths are short: they can neither have too many segments nor repeat one too often.
        if url.count("/") > 2 + min(limits.repeated_segments, limits.segments) and self._is_trap(parts[3]):
            return FailureClass.TRAP
        return None

    def _is_trap(self, path: str) -> bool:
        segments = path.partition("?")[0].split("/")
        if len(segments) > self.limits.segments:
            return True
        if len(set(segments)) == len(segments):
            return False
        run = 1
        for last, this in pairwise(segments):
            run = run + 1 if this == last else 1
            if run > self.limits.repeated_segments:
                return True
        return False


@lru_cache(maxsize=16)
def _searcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(pattern).search

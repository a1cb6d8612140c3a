"""Admission: whether a link belongs to the crawl at all. Pure, and cheap enough to ask for every link."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.settings import CrawlSettings
from shoal.model.url import host_key

_SCHEMES = frozenset({"http:", "https:"})


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one crawl. They travel to the parse children, where most links are judged."""

    hosts: frozenset[str] | None = None  # host keys; None: any host
    domains: tuple[str, ...] = ()  # ".example.org": its subdomains too, where `hosts` is set
    follow: str = ""  # regular expression that a link must match somewhere
    depth: int | None = None
    obey_nofollow: bool = True  # rel=nofollow, <meta name=robots>, X-Robots-Tag
    canonical_only: bool = False  # no items of pages that call another address in scope their own
    limits: LinkLimits = LinkLimits()
    lookalikes: frozenset[str] = frozenset()  # patterns whose pages are all compared with one another

    @classmethod
    def of(
        cls,
        settings: CrawlSettings,
        seeds: Iterable[str],
        *,
        hosts: Iterable[str] = (),
        limits: LinkLimits | None = None,
    ) -> "Scope":
        """Work out a crawl's scope: the `hosts` it names ("*.a.org": all below a.org), else its seeds' hosts.

        `seeds` are canonical URLs.
        """
        named = [host.lower() for host in hosts]
        return cls(
            hosts=frozenset(named or map(host_key, seeds)) if named or settings.same_host else None,
            domains=tuple(host[1:] for host in named if host.startswith("*.")),
            follow=settings.follow,
            depth=settings.depth,
            obey_nofollow=settings.robots,
            canonical_only=settings.canonical_only,
            limits=limits or LinkLimits(),
        )

    @property
    def shut(self) -> bool:
        """Whether no link can come in, so that none need be looked for."""
        return self.hosts is not None and not self.hosts and not self.domains

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Name the rule that keeps a canonical URL out; None: it may come in.

        Seeds (depth 0) need not match `follow`: they were asked for by name.
        """
        parts = url.split("/", 3)  # scheme, nothing, host, path
        if parts[0] not in _SCHEMES:
            return FailureClass.SCOPE
        if self.hosts is not None and parts[2] not in self.hosts and not parts[2].endswith(self.domains):
            return FailureClass.SCOPE
        if self.depth is not None and depth > self.depth:
            return FailureClass.DEPTH
        if self.follow and depth and not _searcher(self.follow)(url):
            return FailureClass.SCOPE
        limits = self.limits
        if len(url) > limits.url_bytes:
            return FailureClass.TRAP
        # Short paths, which most are, can neither be too deep nor repeat themselves too often.
        if url.count("/") > 2 + min(limits.repeated_segments, limits.segments) and self._is_maze(parts[3]):
            return FailureClass.TRAP
        return None

    def _is_maze(self, path: str) -> bool:
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

"""A web whose every page is known beforehand, so that a crawl of it is judged by set equality.

A `Shape` (sizes, a seed for the random generator, and which oddities to mix in) fixes a graph of pages over
many hosts; `Graph.expected` says what a correct crawl from `Graph.start` ends with. The test and the server
process (`graph_site`) build it from the same shape, so nothing but the shape travels between them.

Every page hangs in a tree whose root is the seed, so all are reachable; a branch may lead through a chain
of redirects, and for some pages that is the only way in. Everything else (cross links, dead links,
disallowed and unfollowed ones, other spellings of the same URL) is laid over that tree.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

REDIRECT_STATUSES = (301, 302, 303, 307, 308)
SPELLINGS = 8


class Kind(StrEnum):
    PAGE = "page"
    REDIRECT = "redirect"
    GONE = "gone"
    DISALLOWED = "disallowed"  # robots.txt forbids it
    UNFOLLOWED = "unfollowed"  # only links that say nofollow lead here


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A host that answers 429: `times` episodes, each after `after` more good answers."""

    after: int
    retry_after_s: int
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Everything that fixes a graph. Hosts are numbered from 0; the seed page lives on host 0."""

    seed: int = 1
    pages: int = 200
    hosts: int = 5
    links: int = 6  # per page, beside those of the tree
    chain: int = 0  # this many pages form one long chain at the end of the tree
    redirects: int = 0  # at most
    gone: int = 0
    disallowed: int = 0
    unfollowed: int = 0
    spellings: bool = False  # write links with fragments, dot segments, blanks, without scheme, ...
    queries: bool = False  # a third of the pages differ in their query string only
    offers: int = 3  # page number n carries 1 + n % offers items
    body_bytes: int = 0  # pad pages to about this size
    crawl_delay_s: Mapping[int, float] = field(default_factory=dict)
    latency_s: Mapping[int, float] = field(default_factory=dict)
    busy: Mapping[int, Busy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a correct crawl knows at its end. `unfollowed` must never be asked for."""

    pages: frozenset[str]
    redirects: frozenset[str]
    gone: frozenset[str]
    disallowed: frozenset[str]
    unfollowed: frozenset[str]
    items: tuple[dict[str, Any], ...]

    @property
    def fetched(self) -> frozenset[str]:
        """Every URL that is asked for exactly once when nothing goes wrong (robots.txt aside)."""
        return self.pages | self.redirects | self.gone


@dataclass(slots=True)
class Node:
    kind: Kind
    host: int
    path: str
    links: list[tuple[int, int]] = field(default_factory=list)  # node number, spelling
    nofollow: str = ""  # "meta" or "header": this page's links must not be followed
    status: int = 200


class Graph:
    """The graph of a shape, with each host number spelled as an authority (`127.0.1.1:8000`)."""

    def __init__(self, shape: Shape, authorities: list[str]) -> None:
        self.shape = shape
        self.authorities = authorities
        self.nodes: list[Node] = []  # pages come first, in order of their number
        self._random = random.Random(shape.seed)
        self._build()

    @property
    def start(self) -> str:
        """The seed page's URL."""
        return self.url(self.nodes[0])

    def url(self, node: Node) -> str:
        return f"http://{self.authorities[node.host]}{node.path}"

    def expected(self) -> Expected:
        """Return what a correct crawl from `start` ends with."""
        urls: dict[Kind, set[str]] = {kind: set() for kind in Kind}
        for node in self.nodes:
            urls[node.kind].add(self.url(node))
        return Expected(
            pages=frozenset(urls[Kind.PAGE]),
            redirects=frozenset(urls[Kind.REDIRECT]),
            gone=frozenset(urls[Kind.GONE]),
            disallowed=frozenset(urls[Kind.DISALLOWED]),
            unfollowed=frozenset(urls[Kind.UNFOLLOWED]),
            items=tuple(item for number in range(self.shape.pages) for item in self.items(number)),
        )

    def items(self, number: int) -> list[dict[str, Any]]:
        """List the items that the spider in `tests/spiders/graph.py` makes of a page."""
        url = self.url(self.nodes[number])
        return [
            {
                "url": url,
                "offer": f"{number}-{offer}",
                # Quotes, commas, line breaks and wide characters, because CSV has opinions on them.
                "title": f'Page {number}, "grön" ☂ & {offer}\nline two',
                "price": f"{(number * 7 + offer) % 1000}.{number % 100:02d}",
            }
            for offer in range(1 + number % self.shape.offers)
        ]

    def _build(self) -> None:
        shape, rng = self.shape, self._random
        for number in range(shape.pages):
            self._add(Kind.PAGE, self._page_path(number), host=number % shape.hosts)
        leaves = self._grow_tree()
        for number in range(shape.pages):
            for _ in range(shape.links):
                self._link(number, rng.randrange(shape.pages))
        if shape.unfollowed:
            self._forbid_following(leaves)
        followed = [number for number in range(shape.pages) if not self.nodes[number].nofollow]
        for kind, count, path in (
            (Kind.GONE, shape.gone, "/gone/{}"),
            (Kind.DISALLOWED, shape.disallowed, "/private/{}"),
            (Kind.UNFOLLOWED, shape.unfollowed, "/maze/{}"),
        ):
            for nth in range(count):
                number = self._add(kind, path.format(nth))
                for _ in range(3):
                    self._link(rng.choice(followed), number)

    def _page_path(self, number: int) -> str:
        if self.shape.queries and number % 3 == 1:
            return f"/item?id={number}&lang=en"
        return f"/section-{number % 11}/{number}.html" if number else "/"

    def _grow_tree(self) -> list[int]:
        """Hang every page below an earlier one; return those with nothing below."""
        shape, rng = self.shape, self._random
        leaves = set(range(shape.pages))
        moved = set(rng.sample(range(1, shape.pages), min(shape.redirects, shape.pages - 1)))
        redirects_left = shape.redirects
        for number in range(1, shape.pages):
            in_chain = number > shape.pages - shape.chain
            parent = number - 1 if in_chain else rng.randrange(number)
            leaves.discard(parent)
            entry = number
            if number in moved:
                hops = min(redirects_left, rng.randint(1, 3))
                redirects_left -= hops
                for hop in range(hops):
                    status = rng.choice(REDIRECT_STATUSES)
                    entry = self._add(Kind.REDIRECT, f"/moved/{number}/{hop}", to=entry, status=status)
            self._link(parent, entry)
        return sorted(leaves)

    def _forbid_following(self, leaves: list[int]) -> None:
        """Mark some leaves of the tree as nofollow; one link of each leads into the maze."""
        for nth, leaf in enumerate(self._random.sample(leaves, min(len(leaves), self.shape.unfollowed))):
            self.nodes[leaf].nofollow = ("meta", "header")[nth % 2]
            self._link(leaf, self._add(Kind.UNFOLLOWED, f"/maze/below-{leaf}"))

    def _add(
        self, kind: Kind, path: str, *, host: int | None = None, to: int | None = None, status: int = 200
    ) -> int:
        where = self._random.randrange(self.shape.hosts) if host is None else host
        links = [] if to is None else [(to, 0)]
        self.nodes.append(Node(kind, where, path, links, status=status))
        return len(self.nodes) - 1

    def _link(self, number: int, target: int) -> None:
        spelling = self._random.randrange(SPELLINGS) if self.shape.spellings else 0
        self.nodes[number].links.append((target, spelling))

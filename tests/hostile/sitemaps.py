"""Sitemaps: bombs, floods, halves, and lists of what no crawler should visit."""

import zlib

from tests.hostile.case import Case, Evidence, Route, filled, page, site
from tests.site.bombs import gzip_bomb
from tests.site.raw import Peer, answer

ASKING = page("<title>ask</title>")
LISTED = "http://{at}/ask/sitemap"
ITSELF = "http://{at}/sitemap.xml"


def listed(body: str | bytes, kind: str = "application/xml") -> Route:
    """Serve a sitemap; HERE in it is where it is served from."""
    raw = body.encode() if isinstance(body, str) else body

    def route(peer: Peer, request: bytes) -> bytes:
        here = ":".join(map(str, peer.writer.get_extra_info("sockname"))).encode()
        return answer(filled(raw.replace(b"HERE", here)), headers=(("Content-Type", kind),))

    return route


def served(route: Route) -> dict[str, Route]:
    return {"/ask/sitemap": ASKING, "/sitemap.xml": route, "*": page()}


def encoded(body: bytes) -> bytes:
    return answer(body, headers=(("Content-Type", "application/xml"), ("Content-Encoding", "gzip")))


def million() -> bytes:
    """List a million pages in a file of 3 MB that becomes 33 MB."""
    locs = "".join(f"<url><loc>/{n}</loc></url>" for n in range(1_000_000))
    return answer(
        zlib.compress(f"<urlset>{locs}</urlset>".encode(), 1, wbits=31),
        headers=(("Content-Type", "application/gzip"),),
    )


def urlset(*locs: str) -> str:
    return f"<urlset>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>"


def within_the_budget(evidence: Evidence) -> None:
    assert 50 < len(evidence.server.requests) <= 100, len(evidence.server.requests)


def all_that_came(evidence: Evidence) -> None:
    assert sum(path.startswith("/kept/") for path in evidence.server.paths()) == 50


MIXED = urlset(
    "http://0.0.0.0:{canary}/",
    "file:///etc/passwd",
    " \n http://HERE/spaced \n ",
    "<![CDATA[http://HERE/cdata]]>",
    "/relative",
)

CASES = [
    Case(
        "S01",
        "a sitemap that becomes 120 MB",
        site(served(listed(gzip_bomb(120), "application/gzip"))),
        {LISTED: "done", ITSELF: "dead bomb"},
    ),
    Case(
        "H34 sitemap",
        "a sitemap with a content encoding that becomes 1 GB",
        site(served(encoded(gzip_bomb(1024)))),
        {LISTED: "done", ITSELF: "dead bomb"},
    ),
    Case(
        "S04",
        "1,000,000 addresses from a host that may bring 100",
        site(served(million())),
        {LISTED: "done", ITSELF: "done"},
        check=within_the_budget,
        slow=True,
    ),
    Case(
        "S06",
        "addresses that are forbidden, no web pages, or wrapped",
        site(served(listed(MIXED))),
        {
            LISTED: "done",
            ITSELF: "done",
            "http://{at}/spaced": "done",
            "http://{at}/cdata": "done",
            "http://{at}/relative": "done",
            "http://0.0.0.0:{canary}/": "dead refused",
        },
    ),
    Case(
        "S07",
        "a sitemap that ends in the middle",
        site(served(listed(urlset(*(f"http://HERE/kept/{n}" for n in range(51)))[:-40]))),
        {LISTED: "done", ITSELF: "done"},
        check=all_that_came,
    ),
    Case(
        "S08",
        "dates and priorities that make no sense",
        site(
            served(
                listed(
                    "<urlset><url><loc>/odd</loc><lastmod>9999-99-99</lastmod><priority>inf</priority></url></urlset>"
                )
            )
        ),
        {LISTED: "done", ITSELF: "done", "http://{at}/odd": "done"},
    ),
    *(
        Case(
            f"S09 {name}",
            f"{name} in place of a sitemap",
            site(served(listed(body, kind))),
            {LISTED: "done", ITSELF: "dead parse_error"},
        )
        for name, body, kind in (
            ("HTML", "<html><p>no</p></html>", "text/html"),
            ("JSON", '{"no": 1}', "application/json"),
        )
    ),
]

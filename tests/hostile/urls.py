"""URLs: addresses in disguise, traps without end, and links that two parsers would read in two ways."""

from collections.abc import Callable
from datetime import date, timedelta

from tests.hostile.case import Case, Evidence, links, page, site
from tests.hostile.names import REBOUND
from tests.site.raw import Peer

DISGUISES = {
    "any": "http://[::]:{canary}/",
    "mapped": "http://[::ffff:127.0.0.1]:{canary}/",
    "compatible": "http://[::127.0.0.1]:{canary}/",
    "6to4": "http://[2002:7f00:1::]:{canary}/",
    "NAT64": "http://[64:ff9b::7f00:1]:{canary}/",
    "Teredo": "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:{canary}/",
    "link-local": "http://[fe80::1]:{canary}/",
    "nothing": "http://0.0.0.0:{canary}/",
    "zero": "http://0:{canary}/",
    "metadata": "http://169.254.169.254/",
}
PORTS = (22, 25, 6379, 0)
SCHEMES = (
    "FILE:///etc/passwd",
    "view-source:http://a.test/",
    "jar:x!/",
    "blob:x",
    "ws://a.test/",
    "x" * 1000 + ":y",
)


def calendar(peer: Peer, request: bytes) -> bytes:
    """One day after another, without end."""
    path = request.split(b" ", 2)[1].decode()
    day = date(2000, 1, 1) if path == "/" else date(*map(int, path[1:].split("/"))) + timedelta(days=1)
    return links(f"/{day.year}/{day.month}/{day.day}")


def anything(peer: Peer, request: bytes) -> bytes:
    """Answer every path, and name two more."""
    path = request.split(b" ", 2)[1].decode().rstrip("/")
    return links(f"{path}a", f"{path}b") if path else links("/a", "/b")


def at_the_limit(peer: Peer, request: bytes) -> bytes:
    host = request.lower().split(b"\r\nhost: ")[1].split(b"\r")[0].decode()
    room = 4096 - len(f"http://{host}/")
    return links(*("/" + "x" * (room + n) for n in (-1, 0, 1)), "/" + "x" * (1 << 20))


def exactly_two_links(evidence: Evidence) -> None:
    lengths = sorted(
        len(f"http://{evidence.server.host}:{evidence.server.port}{path}") for path in evidence.server.paths()
    )
    assert lengths[1:] == [4095, 4096], lengths


def requests_at_most(count: int) -> Callable[[Evidence], None]:
    def check(evidence: Evidence) -> None:
        assert len(evidence.server.requests) <= count, evidence.server.paths()

    return check


def two_readings(peer: Peer, request: bytes) -> bytes:
    at = request.lower().split(b"\r\nhost: ")[1].split(b"\r")[0].decode()
    return links(
        f"http://good.test:password@{at}/userinfo",
        f"http://{at}#@good.test/",
        f"http:\\\\{at}\\back",
        "/%2e%2e/dots",
        "/ta\tb\nbed",
        "http:/single",
        f"///{at}/three",
        "/nul%00",
    )


def rebind(peer: Peer, request: bytes) -> bytes:
    REBOUND.add("rebinding.test")
    return links("/second")


CASES = [
    Case(
        "U01",
        "a calendar without end, to a depth of 40",
        site({"*": calendar}),
        {"http://{at}/": "done"},
        check=requests_at_most(41),
    ),
    Case(
        "U06",
        "a page under every address, from a host that may bring 100",
        site({"*": anything}),
        {"http://{at}/": "done"},
        check=requests_at_most(100),
    ),
    Case(
        "U05",
        "links at the longest length, and above it",
        site({"/": at_the_limit, "*": page()}),
        "done",
        check=exactly_two_links,
    ),
    *(
        Case(
            f"U09 {name}", f"an address in disguise: {url.partition(':{')[0]}", page(), {url: "dead refused"}
        )
        for name, url in DISGUISES.items()
    ),
    Case(
        "U12 rebinding",
        "a name that changes its address after the check",
        site({"/": rebind, "/second": page()}),
        {"http://rebinding.test:{port}/": "done", "http://rebinding.test:{port}/second": "done|dead refused"},
        bind="127.0.0.1",
    ),
    Case(
        "U12 mixed",
        "a name with one forbidden address among two",
        page(),
        {"http://forbidden.test:{canary}/": "dead refused"},
    ),
    Case(
        "U13",
        "links that two parsers would read in two ways",
        site({"/": two_readings, "*": page()}),
        {
            f"http://{{at}}{path}": "done"
            for path in ("/", "/userinfo", "/back", "/dots", "/tabbed", "/single", "/three", "/nul%00")
        },
    ),
    *(
        Case(f"U15 {port}", f"port {port}", page(), {f"http://127.0.0.1:{port}/": "dead refused"})
        for port in PORTS
    ),
    Case(
        "U15 beyond",
        "port 65536",
        site({"/": links("http://127.0.0.1:65536/")}),
        "done",
        check=requests_at_most(1),
    ),
    Case(
        "U16",
        "links that lead elsewhere than the web",
        site({"/": links(*SCHEMES)}),
        "done",
        check=requests_at_most(1),
    ),
    Case(
        "U19",
        "three bases, the first of which is code",
        site(
            {
                "/": page(
                    '<base href="javascript:alert(1)"><base href="/base/"><base href="/wrong/"><a href="leaf">x</a>'
                ),
                "*": page(),
            }
        ),
        {"http://{at}/": "done", "http://{at}/base/leaf": "done", "http://{at}/wrong/leaf": "nowhere"},
    ),
]

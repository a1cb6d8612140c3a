"""robots.txt: missing, huge, hostile, undecided."""

from tests.hostile.case import Case, Evidence, Route, Several, links, page, site
from tests.site.bombs import gzip_bomb
from tests.site.raw import Peer, answer

PRIVATE = "User-agent: *\nDisallow: /private\n"
TWO = {"http://{at}/": "done", "http://{at}/private": "filtered robots"}


def says(text: str | bytes) -> bytes:
    return answer(text.encode() if isinstance(text, str) else text, headers=(("Content-Type", "text/plain"),))


def asked_once(evidence: Evidence) -> None:
    assert evidence.server.paths().count("/robots.txt") == 1, evidence.server.paths()


def with_rules(rules: str | bytes) -> dict[str, Route]:
    return {"/robots.txt": says(rules), "/": links("/private"), "*": page()}


async def endless_rules(peer: Peer, request: bytes) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + PRIVATE.encode())
    await peer.send_for_ever(b"# x\n" * 16_384)


CASES = [
    *(
        Case(
            f"R01 {status}",
            f"robots.txt is answered with {status}",
            site({"/robots.txt": answer(b"", status=status), "*": page()}),
            "done",
        )
        for status in (401, 403, 404)
    ),
    Case(
        "R05 rules",
        "a robots.txt of 1,000,000 rules, of which the first 500 KiB count",
        site(with_rules(PRIVATE + "".join(f"Disallow:/{n:x}\n" for n in range(1_000_000)))),
        TWO,
    ),
    Case("R05 line", "a rule of 500 KiB", site(with_rules(PRIVATE + "Disallow: /" + "x" * 512_000)), TWO),
    Case(
        "R05 stars",
        "a rule made to backtrack",
        site(with_rules(PRIVATE + "Disallow: /" + "*a" * 1000 + "$\n")),
        TWO,
    ),
    Case(
        "R06 mark",
        "a byte order mark and bare carriage returns",
        site(with_rules(b"\xef\xbb\xbf" + PRIVATE.replace("\n", "\r").encode())),
        TWO,
    ),
    Case(
        "R06 NUL",
        "NUL and Latin-1 among the rules",
        site(with_rules(b"\0\xe9\xe9\n" + PRIVATE.encode())),
        TWO,
    ),
    Case(
        "R06 HTML",
        "a page of HTML in place of rules",
        site({"/robots.txt": page("<p>Disallow: /</p>"), "*": page()}),
        "done",
    ),
    Case(
        "R07",
        "the longest rule wins",
        site(with_rules("User-agent: *\nDisallow: /p\nAllow: /private\nDisallow: /private$\n")),
        {"http://{at}/": "done", "http://{at}/private": "filtered robots"},
    ),
    Case(
        "R09 bomb",
        "a bomb in place of rules",
        site({"/robots.txt": page(gzip_bomb(1024), ("Content-Encoding", "gzip")), "*": page()}),
        "done",
        check=asked_once,
    ),
    Case(
        "R09 endless",
        "rules without end: the first 500 KiB count",
        site({"/robots.txt": endless_rules, "/": links("/private"), "*": page()}),
        TWO,
        check=asked_once,
    ),
    Case(
        "R10",
        "rules that change each time they are asked for",
        site(
            {
                "/robots.txt": Several([says(PRIVATE), says("User-agent: *\nDisallow: /\n")]),
                "/": links("/private", "/a", "/b", "/c"),
                "*": page(),
            }
        ),
        {**TWO, "http://{at}/a": "done", "http://{at}/c": "done"},
        check=asked_once,
    ),
    Case(
        "R11",
        "rules for robots with a name like ours",
        site(with_rules("User-agent: shoalfish\nUser-agent: ＳＨＯＡＬ\nDisallow: /\n")),
        {"http://{at}/": "done", "http://{at}/private": "done"},
    ),
    Case(
        "U20",
        "links that ask not to be followed",
        site({"/": page('<a rel="nofollow" href="/maze">x</a>'), "*": page()}),
        {"http://{at}/": "done", "http://{at}/maze": "nowhere"},
    ),
]

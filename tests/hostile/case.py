"""One case: what is served, where the crawler is sent, and how each of its requests must end."""

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.site.raw import Handler, Peer, RawServer, answer

Route = bytes | Callable[[Peer, bytes], Any]

ATTEMPTS = 3  # of what is tried again
CONCURRENCY = 128  # requests at once, in all
PLACES: dict[bytes, bytes] = {}  # what stands for something that is only known once servers run
HTML = (("Content-Type", "text/html"),)

_PLACE = re.compile(rb"\{canary\}|\{at [^}]+\}")


@dataclass(frozen=True, slots=True)
class Ended:
    """How one request ended, as the store has it."""

    state: str  # "done", "dead truncated", "filtered robots", "gone", "nowhere": never accepted
    reason: str = ""
    attempts: int = 0
    items: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a case left behind."""

    server: RawServer
    ended: Mapping[str, Ended]  # by URL as written in `Case.ends`
    items: Sequence[dict[str, Any]]  # of the pages of this case's server
    exits: Sequence[RawServer] = ()  # those of the case, in order


@dataclass(frozen=True, slots=True)
class HostileExit:
    """A proxy that requests of a case may leave through. `{exit}` in its line is host and port."""

    serve: Handler
    line: str = "http://{user}:{password}@{exit}"
    tls: Callable[[Any], ssl.SSLContext] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """`ends` maps URLs to states; a state may be a choice, "done|dead poison". `{at}` is host and port, `{port}` the
    port of this case's server. The first URL is where the crawler is sent, unless `seeds` says otherwise."""

    id: str  # the kind of attack by letter and number, then what tells it from its like
    what: str
    serve: Handler | bytes
    ends: str | Mapping[str, str]
    seeds: Sequence[str] = ()
    reason: str = ""  # part of the reason of the first URL
    name: str = ""  # of the host, by DNS; else the case gets a separate address
    bind: str = ""
    tls: Callable[[Any], ssl.SSLContext] | None = None  # made by an `Authority`
    opened: Callable[[Any], AbstractContextManager[RawServer]] | None = None  # a server of another kind
    check: Callable[[Evidence], object] | None = None
    slow: bool = False  # left out of the cut
    exits: Sequence[HostileExit] = ()  # that its host is asked through, and a good one; for groups with exits
    alone: bool = False  # without the good one

    @property
    def row(self) -> str:
        return self.id.partition(" ")[0]


def page(body: str | bytes = "<title>page</title>", *headers: tuple[str, str], status: int = 200) -> bytes:
    """Write a page of HTML."""
    raw = body.encode() if isinstance(body, str) else body
    given = {name.lower() for name, _ in headers}
    return answer(raw, status=status, headers=(*(() if "content-type" in given else HTML), *headers))


def redirect(location: str, status: int = 302) -> bytes:
    return answer(b"", status=status, headers=(("Location", location),))


def links(*hrefs: str) -> bytes:
    return page("<title>links</title>" + "".join(f'<a href="{href}">x</a>' for href in hrefs))


def filled(response: bytes) -> bytes:
    """Put in what is known by now. `{canary}` is as long as its value, so it may stand in a body, too."""
    return _PLACE.sub(lambda found: PLACES[found[0]], response)


def once(response: bytes) -> Handler:
    """Answer the first request of each connection with these bytes, and close."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(filled(response))

    return handler


def site(routes: Mapping[str, Route]) -> Handler:
    """Answer by path, one request after another; what is not there is 404."""

    async def handler(peer: Peer) -> None:
        while True:
            request = await peer.request()
            path = request.split(b" ", 2)[1].decode("latin-1")
            route = routes.get(path, routes.get("*", answer(b"", status=404)))
            if isinstance(route, bytes):
                await peer.send(filled(route))
            else:
                made = route(peer, request)
                if isinstance(made, bytes):
                    await peer.send(made)
                else:
                    await made
                    return

    return handler


@dataclass(slots=True)
class Several:
    """A different answer each time, the last one from then on."""

    answers: Sequence[bytes]
    given: int = field(default=0)

    def __call__(self, peer: Peer, request: bytes) -> bytes:
        self.given += 1
        return self.answers[min(self.given, len(self.answers)) - 1]

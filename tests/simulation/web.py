"""The web of a simulation behind the HTTP client's interface, and its access log.

The pages are those of `tests/site/graph_site.py`. Failures (refused connections, cut and slow answers, 500, 503) are
drawn from the seed, at most `MAX_FAILURES` per URL, so that every page is reached in the end.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.simulation.clock import CURRENT, wall_time, world
from tests.site.graph import Graph, Shape
from tests.site.graph_site import GraphSite

from shoal.fetch.http.client import HttpClient
from shoal.model.failure import Failure, FailureClass
from shoal.model.limits import FetchLimits
from shoal.model.page import NotSent, Response

MAX_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Access:
    """One request as the site saw it."""

    at: float
    host: str
    path: str
    node: str
    failed: bool  # the answer makes a client ask again


class Web(HttpClient):
    """A client whose requests a graph answers. `trouble`: the share of requests that fail, of each kind."""

    def __init__(self, shape: Shape, *, trouble: float) -> None:
        self.hosts = [f"h{number}.example" for number in range(shape.hosts)]
        self.graph = Graph(shape, self.hosts)
        self.log: list[Access] = []
        self.on_traffic = None
        self._site = GraphSite(self.graph)
        self._trouble = trouble
        self._failures: Counter[str] = Counter()

    async def fetch(  # type: ignore[override]
        self, url: str, *, limits: FetchLimits, turn: Any = None, **_options: Any
    ) -> Response | Failure | NotSent:
        host, _, path = url.removeprefix("http://").partition("/")
        path, number, began, chance = f"/{path}", self.hosts.index(host), world.now, world.web
        fails = (
            path != "/robots.txt" and chance.random() < self._trouble and self._failures[url] < MAX_FAILURES
        )
        kind = chance.choice(["refused", "cut", "slow", "busy", "error"]) if fails else ""
        self._failures[url] += fails
        await asyncio.sleep(0.001 + 0.05 * chance.random())
        if kind == "refused":
            return Failure(FailureClass.CONNECT, "refused")
        if turn is not None and (wait := await turn.take(f"10.0.0.{number + 1}")) > 0:
            return NotSent(wait)
        answer = self._site.answer(number, path, world.now)
        latency = 1 + 30 * chance.random() if kind == "slow" else 0.005 + 0.1 * chance.random()
        repeats = answer.status == 429 or kind in ("cut", "busy", "error") or latency > limits.first_byte
        self.log.append(Access(world.now, host, path, str(CURRENT.get()), repeats))
        world.log("get", CURRENT.get(), url, kind)
        if turn is not None:
            turn.sent()
        await asyncio.sleep(min(latency, limits.first_byte))
        if latency > limits.first_byte:
            return Failure(FailureClass.TIMEOUT, "no byte")
        if turn is not None:
            turn.answered()
        if kind == "cut":
            return Failure(FailureClass.TRUNCATED, "cut")
        headers = tuple((name.lower(), value) for name, value in answer.headers)
        status, body = answer.status, answer.body
        if kind in ("busy", "error"):
            status, body = (503 if kind == "busy" else 500), kind.encode()
            headers = (("retry-after", str(chance.randint(1, 20))),) if kind == "busy" else ()
        return Response(
            url,
            status,
            (("content-type", answer.content_type), *headers),
            body,
            body,
            wall_time(),
            world.now - began,
            address=f"10.0.0.{number + 1}",
        )

"""A hub: one page that links to every other one, with the priority that the spider shall give it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from tests.site.server import Answer, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Leaf number n lives on host `leaves[n][0]` and has the priority `leaves[n][1]`; the hub is on host 0."""

    hosts: int
    leaves: list[tuple[int, int]]
    latency_s: Mapping[int, float] = field(default_factory=dict)


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site that `spec` (a hub as JSON) describes; the server process calls this."""
    return HubSite(msgspec.json.decode(spec, type=Hub), authorities)


class HubSite:
    def __init__(self, hub: Hub, authorities: list[str]) -> None:
        self._hub = hub
        links = "\n".join(
            f'<a class="p{priority}" href="http://{authorities[host]}/leaf/{number}">{number}</a>'
            for number, (host, priority) in enumerate(hub.leaves)
        )
        self._page = f"<!doctype html><title>Hub</title>{links}".encode()

    def answer(self, host: int, path: str, now: float) -> Answer:
        if path == "/robots.txt":
            return Answer(404, b"")
        if path == "/":
            return Answer(200, self._page)
        return Answer(200, b"<!doctype html><title>Leaf</title>", delay=self._hub.latency_s.get(host, 0.0))

"""How long the server takes for each request, from its arrival to the start of its answer."""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from shoal.server.http.app import App

Message = Mapping[str, Any]

SLOWEST_S = 0.3  # that a request may take at the server
SHOWN = 12


@dataclass
class MeasuredRequests:
    seconds: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> "MeasuredRequests":
        """Measure every request that servers of this process answer."""
        measured = cls()
        answer = App.__call__

        async def timed(
            app: App, scope: Message, receive: Any, send: Callable[[Message], Awaitable[None]]
        ) -> None:
            began = time.monotonic()

            async def sent(message: Message) -> None:
                if message["type"] == "http.response.start":
                    query = scope["query_string"].decode()
                    path = f"{scope['path']}?{query}" if query else scope["path"]
                    measured.seconds.append((time.monotonic() - began, path))
                await send(message)

            await answer(app, scope, receive, sent)

        monkeypatch.setattr(App, "__call__", timed)
        return measured

    def clear(self) -> None:
        self.seconds.clear()

    @property
    def slowest(self) -> float:
        return max(self.seconds)[0]

    def report(self) -> str:
        """Return the number of requests, how many took too long, and the slowest ones of each path."""
        slowest: dict[str, float] = {}
        for took, path in self.seconds:
            slowest[path] = max(took, slowest.get(path, 0.0))
        worst = sorted(slowest.items(), key=lambda pair: -pair[1])[:SHOWN]
        slow = sum(took > SLOWEST_S for took, _ in self.seconds)
        lines = "".join(f"\n  {1000 * took:5.0f} ms  {path}" for path, took in worst)
        busy = f"{os.getloadavg()[0]:.1f} processes ready to run on {os.cpu_count()} cores"
        return (
            f"{len(self.seconds)} requests, {slow} above {1000 * SLOWEST_S:.0f} ms; {busy}; slowest:{lines}"
        )

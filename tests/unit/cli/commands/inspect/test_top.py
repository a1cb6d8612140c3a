"""Watching a store that does not always answer."""

import asyncio
from typing import Any

import pytest

from shoal.cli.commands.inspect import top
from shoal.model.errors import Unavailable


class Screen:
    """Records what is shown."""

    def __init__(self) -> None:
        self.shown: list[object] = []
        self.answered = asyncio.Event()

    def show(self, overview: object) -> None:
        self.shown.append(overview)
        self.answered.set()

    def record_delay(self, seconds: float) -> None:
        self.shown.append("waits")


class Monitor:
    """Fails `failures` times, then answers."""

    def __init__(self, failures: int = 0, pause: float = 0.0) -> None:
        self._failures = failures
        self._pause = pause

    async def look(self) -> object:
        await asyncio.sleep(self._pause)
        if self._failures:
            self._failures -= 1
            raise Unavailable("away")
        return "back"


async def watch(monitor: Any) -> list[object]:
    screen: Any = Screen()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        refresh = group.create_task(top._refresh(monitor, screen, every=0.0))
        await screen.answered.wait()
        refresh.cancel()
    shown: list[object] = screen.shown
    return shown


async def test_a_store_that_does_not_answer_is_asked_again() -> None:
    shown = await watch(Monitor(failures=2))

    assert set(shown) == {"back"}


async def test_a_missing_answer_is_shown_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "DELAY_SHOWN_AFTER_S", 0.01)

    shown = await watch(Monitor(pause=0.2))

    assert shown[0] == "waits"
    assert shown[-1] == "back"

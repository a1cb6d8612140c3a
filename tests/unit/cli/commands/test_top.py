"""Watching a store that does not always answer."""

import asyncio
from typing import Any

import pytest

from shoal.cli.commands import top
from shoal.model.errors import Unavailable


class Screen:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.answered = asyncio.Event()

    def show(self, overview: object) -> None:
        self.told.append(overview)
        self.answered.set()

    def wait(self, seconds: float) -> None:
        self.told.append("waits")


class Overseer:
    """Fails as often as told, then answers."""

    def __init__(self, failures: int = 0, pause: float = 0.0) -> None:
        self._failures = failures
        self._pause = pause

    async def look(self) -> object:
        await asyncio.sleep(self._pause)
        if self._failures:
            self._failures -= 1
            raise Unavailable("away")
        return "back"


async def watched(overseer: Any) -> list[object]:
    screen: Any = Screen()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        looking = group.create_task(top._keep_looking(overseer, screen, every=0.0))
        await screen.answered.wait()
        looking.cancel()
    told: list[object] = screen.told
    return told


async def test_a_store_that_cannot_be_asked_is_asked_again() -> None:
    told = await watched(Overseer(failures=2))

    assert set(told) == {"back"}


async def test_silence_is_shown_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "SILENT", 0.01)

    told = await watched(Overseer(pause=0.2))

    assert told[0] == "waits"
    assert told[-1] == "back"

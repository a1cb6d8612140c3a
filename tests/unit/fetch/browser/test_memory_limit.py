"""Renderers above the limit of memory, as the watch of a browser sees and ends them."""

import os
import signal
from typing import Any

import pytest

from shoal.fetch.browser import pages
from shoal.fetch.browser.chromium import Chromium
from shoal.fetch.browser.pages import BrowserPages
from shoal.model.limits import MIB
from shoal.model.settings import BrowserSettings

ZYGOTE = 2


class Connection:
    """A connection to a browser that reports nothing by itself."""

    browser: "Connection"

    def __init__(self) -> None:
        self.browser = self

    def on(self, _event: str, _handler: object) -> None:
        pass


class Renderers:
    """Processes with their memory; SIGKILL is only recorded: the test says when one has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used: dict[int, int] = {}
        self.killed: list[int] = []
        monkeypatch.setattr(pages, "children_of", lambda _: list(self.used))
        monkeypatch.setattr(pages, "private_memory", self.used.__getitem__)
        monkeypatch.setattr(os, "kill", self.kill)

    def kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed.append(pid)


def opened(limit: int) -> BrowserPages:
    connection: Any = Connection()
    chromium = Chromium(connection=connection, pid=1, listener=None, proxy_port=0, version="test")
    browser = BrowserPages(chromium, BrowserSettings(memory_bytes=limit))
    browser._forked_by = {ZYGOTE}
    return browser


async def test_a_renderer_that_takes_long_to_end_is_killed_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renderers, browser = Renderers(monkeypatch), opened(256 * MIB)
    renderers.used.update({10: 300 * MIB, 11: 100 * MIB})
    for _ in range(3):
        browser.watch_renderers()
    assert renderers.killed == [10]
    assert [record.message for record in caplog.records] == ["renderer.killed"]

    renderers.used[11] = 300 * MIB
    browser.watch_renderers()
    assert renderers.killed == [10, 11]


async def test_a_new_renderer_with_the_number_of_a_killed_one_is_killed_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renderers, browser = Renderers(monkeypatch), opened(256 * MIB)
    renderers.used[10] = 300 * MIB
    browser.watch_renderers()
    del renderers.used[10]
    browser.watch_renderers()
    renderers.used[10] = 300 * MIB
    browser.watch_renderers()
    assert renderers.killed == [10, 10]

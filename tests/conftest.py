"""What holds for every test: settings of Hypothesis, the event loop, markers, the end of shared servers."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable

import pytest
import uvloop
from hypothesis import settings
from tests.durations import pytest_runtest_makereport
from tests.needs import pytest_collection_modifyitems, pytest_terminal_summary

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_makereport", "pytest_terminal_summary"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("shoal", deadline=None)
settings.load_profile("shoal")

# Tests start Python hundreds of times. Without bytecode on disk each start compiles: 0.9 s of CPU time, not 0.5.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Collecting makes a million objects that stay until the end. Without these two, garbage collections look at all of them:
# during collection, and whenever a test or pytest asks for one.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections from here on."""
    gc.freeze()
    gc.enable()


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what speaks to the network on the event loop that Shoal runs on; they differ in how sockets end."""
    if item.path.parent.name == "fetch" or item.path.name == "test_client.py":
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


def pytest_sessionfinish() -> None:
    """End the servers that this process has shared between its tests."""
    if shared := sys.modules.get("tests.servers.shared"):
        shared.SHARED.close()
    if commands := sys.modules.get("tests.e2e.command_server"):
        commands.SERVER.close()
        commands.TABLE_SERVER.close()
